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

// When a process began; 0 if there is none or the system does not tell. The 22nd field of
// /proc/PID/stat, as proc(5) counts them: 19 behind the one that follows the program's name, which
// may hold any character.
uint64_t StartOf(uint64_t process) {
  char path[32];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%llu/stat", static_cast<unsigned long long>(process));
  if (ReadSmallFile(path, text, sizeof text) != 0) return 0;
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

bool ReadHead(int fd, TraceFileHead* head) {
  return pread(fd, head, sizeof *head, 0) == sizeof *head && head->magic == TraceFileHead::kMagic;
}

// What to do with a file that is open and, where the file system knows locks, locked. A lock ends
// when the program closes the descriptor, so that the process that has written the head is asked
// for, too. It may be this one, before it executed another program.
TraceFile::Opened Judge(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return TraceFile::Opened::kRefused;
  if (!S_ISREG(status.st_mode)) return TraceFile::Opened::kForeign;
  if (status.st_size == 0) return TraceFile::Opened::kYes;
  TraceFileHead head;
  errno = 0;
  if (!ReadHead(fd, &head)) {
    return errno != 0 ? TraceFile::Opened::kRefused : TraceFile::Opened::kForeign;
  }
  if (StartOf(head.process) == head.process_start && head.process_start != 0) {
    return TraceFile::Opened::kInUse;
  }
  return ftruncate(fd, 0) == 0 ? TraceFile::Opened::kYes : TraceFile::Opened::kRefused;
}

}  // namespace

TraceFileHead TraceFile::OwnHead() {
  TraceFileHead head;
  head.process = static_cast<uint64_t>(getpid());
  head.process_start = StartOf(head.process);
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
  // The size counts from when the file is locked. A file system without locks has none.
  const bool is_locked_elsewhere = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const Opened opened = is_locked_elsewhere ? Opened::kInUse : Judge(fd);
  if (opened != Opened::kYes) {
    const int error = errno;
    close(fd);
    errno = error;
    return opened;
  }
  if (!descriptor_.Take(fd)) return Opened::kRefused;
  memcpy(path_, path, strlen(path) + 1);
  return Opened::kYes;
}

// Opens the file anew if the program has closed the descriptor. False, with errno, if the path
// leads elsewhere by now, or another process writes the file.
bool TraceFile::HasDescriptor() {
  if (descriptor_.IsOwn()) return true;
  const int fd = open(path_, O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return false;
  (void)flock(fd, LOCK_EX | LOCK_NB);
  const TraceFileHead own = OwnHead();
  TraceFileHead head;
  if (!ReadHead(fd, &head) || head.process != own.process ||
      head.process_start != own.process_start) {
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
