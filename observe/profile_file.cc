#include "observe/profile_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/os/descriptor.h"
#include "platform/os/process.h"
#include "platform/os/write_all.h"

namespace gleaner::platform {

namespace {

constexpr char kProcessKey[] = "\n# process=";

ProfileFile::Opened Judge(int fd, bool own) {
  using Opened = ProfileFile::Opened;
  struct stat status;
  if (fstat(fd, &status) != 0) return Opened::kRefused;
  if (!S_ISREG(status.st_mode)) return Opened::kForeign;
  char head[256];
  const ssize_t n = pread(fd, head, sizeof head - 1, 0);
  if (n < 0) return Opened::kRefused;
  head[n] = 0;
  if (n != 0) {
    if (strncmp(head, ProfileFile::kMagic, strlen(ProfileFile::kMagic)) != 0) {
      return Opened::kForeign;
    }
    if (const char* at = strstr(head, kProcessKey); at != nullptr) {
      char* rest = nullptr;
      const uint64_t process = strtoull(at + strlen(kProcessKey), &rest, 10);
      const uint64_t start = strtoull(rest, nullptr, 10);
      const bool is_own = own && process == static_cast<uint64_t>(getpid());
      if (!is_own && start != 0 && ProcessStart(process) == start) return Opened::kInUse;
    }
  }
  return ftruncate(fd, 0) == 0 ? Opened::kYes : Opened::kRefused;
}

}  // namespace

ProfileFile::Opened ProfileFile::Open(const char* path, bool own) {
  error_ = 0;
  used_ = 0;
  const int fd = OpenToAppend(path, 0666);
  if (fd < 0) return Opened::kRefused;
  const bool is_locked = LockFile(fd);  // else another process is just writing
  const Opened opened = is_locked ? Judge(fd, own) : Opened::kInUse;
  if (opened == Opened::kYes) {
    fd_ = fd;
    return opened;
  }
  const int error = errno;
  (void)UnlockAndClose(fd);
  errno = error;
  return opened;
}

void ProfileFile::Flush() {
  if (error_ == 0 && used_ != 0) {
    if (!IsWithinFileLimit(fd_, used_)) {
      error_ = EFBIG;
    } else if (!WriteAll(fd_, buffer_, used_)) {
      error_ = errno;
    }
  }
  used_ = 0;
}

void ProfileFile::Append(const char* text, size_t bytes) {
  while (bytes != 0) {
    if (used_ == sizeof buffer_) Flush();
    const size_t room = sizeof buffer_ - used_;
    const size_t part = bytes < room ? bytes : room;
    memcpy(buffer_ + used_, text, part);
    used_ += part;
    text += part;
    bytes -= part;
  }
}

void ProfileFile::Print(const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (n > 0)
    Append(text, static_cast<size_t>(n) < sizeof text ? static_cast<size_t>(n) : sizeof text - 1);
}

void ProfileFile::PrintProcess() {
  const auto process = static_cast<uint64_t>(getpid());
  Print("%s%llu %llu\n", kProcessKey + 1, static_cast<unsigned long long>(process),
        static_cast<unsigned long long>(ProcessStart(process)));
}

int ProfileFile::AppendFile(const char* path) {
  const int fd = OpenForReading(path);
  if (fd < 0) return errno;
  ssize_t n;
  do {
    if (used_ == sizeof buffer_) Flush();
    n = read(fd, buffer_ + used_, sizeof buffer_ - used_);
    if (n > 0) used_ += static_cast<size_t>(n);
  } while (n > 0 || (n < 0 && errno == EINTR));
  const int error = n < 0 ? errno : 0;
  close(fd);
  return error;
}

int ProfileFile::Close() {
  Flush();
  const int fd = fd_;
  fd_ = -1;
  const int error = UnlockAndClose(fd);
  return error_ != 0 ? error_ : error;
}

void ProfileFile::LeaveAfterFork() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace gleaner::platform
