#include "platform/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/process.h"

namespace gleaner::platform {

namespace {

// The 22nd field of /proc/self/stat, as proc(5) counts them: 19 behind the one that follows the
// program's name, which may hold any character.
uint64_t StartOfProcess() {
  char text[1024];
  if (ReadSmallFile("/proc/self/stat", text, sizeof text) != 0) return 0;
  const char* at = strrchr(text, ')');
  for (int field = 0; at != nullptr && field < 20; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at, nullptr, 10);
}

// Whether `bytes` more may be written: a file beyond the limit would end the program by SIGXFSZ.
bool IsWithinLimit(int fd, size_t bytes) {
  rlimit limit;
  struct stat status;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         (fstat(fd, &status) == 0 &&
          static_cast<uint64_t>(status.st_size) + bytes <= limit.rlim_cur);
}

// What to do with a file that is open and locked.
TraceFile::Opened Judge(int fd, uint64_t size) {
  if (size == 0) return TraceFile::Opened::kYes;
  TraceFileHead head;
  const ssize_t read = pread(fd, &head, sizeof head, 0);
  if (read < 0) return TraceFile::Opened::kRefused;
  if (read != sizeof head || head.magic != TraceFileHead::kMagic) {
    return TraceFile::Opened::kForeign;
  }
  const TraceFileHead own = TraceFile::OwnHead();
  if (head.process == own.process && head.process_start == own.process_start) {
    return TraceFile::Opened::kInUse;
  }
  return ftruncate(fd, 0) == 0 ? TraceFile::Opened::kYes : TraceFile::Opened::kRefused;
}

}  // namespace

TraceFileHead TraceFile::OwnHead() {
  TraceFileHead head;
  head.process = static_cast<uint64_t>(getpid());
  head.process_start = StartOfProcess();
  return head;
}

TraceFile::Opened TraceFile::Open(const char* path) {
  if (strlen(path) >= sizeof path_) {
    errno = ENAMETOOLONG;
    return Opened::kRefused;
  }
  // Non-blocking, since the path may be that of a pipe.
  const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (fd < 0) return Opened::kRefused;
  struct stat status;
  Opened opened = Opened::kRefused;
  if (fstat(fd, &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      opened = Opened::kForeign;
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      opened = Opened::kInUse;
    } else {
      opened = Judge(fd, static_cast<uint64_t>(status.st_size));
    }
  }
  if (opened != Opened::kYes) {
    const int error = errno;
    close(fd);
    errno = error;
    return opened;
  }
  if (!descriptor_.Take(fd)) return Opened::kRefused;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  memcpy(path_, path, strlen(path) + 1);
  return Opened::kYes;
}

// Opens the file anew if the program has closed the descriptor. False, with errno, if the path
// leads elsewhere by now.
bool TraceFile::HasDescriptor() {
  if (descriptor_.IsOwn()) return true;
  const int fd = open(path_, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_dev != device_ || status.st_ino != inode_ ||
      (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)) {
    close(fd);
    errno = ESTALE;
    return false;
  }
  return descriptor_.Take(fd);
}

int TraceFile::Append(const void* data, size_t bytes) {
  if (!HasDescriptor()) return errno;
  if (!IsWithinLimit(descriptor_.fd(), bytes)) return EFBIG;
  return WriteAll(descriptor_.fd(), static_cast<const char*>(data), bytes) ? 0 : errno;
}

void TraceFile::Leave() {
  descriptor_.Close();
  path_[0] = 0;
}

}  // namespace gleaner::platform
