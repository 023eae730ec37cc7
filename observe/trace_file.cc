#include "observe/trace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/os/process.h"
#include "platform/os/write_all.h"

namespace gleaner::platform {

namespace {

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
  if (ProcessStart(head.process) == head.process_start && head.process_start != 0) {
    return TraceFile::Opened::kInUse;
  }
  return ftruncate(fd, 0) == 0 ? TraceFile::Opened::kYes : TraceFile::Opened::kRefused;
}

}  // namespace

TraceFileHead TraceFile::OwnHead() {
  TraceFileHead head;
  head.process = static_cast<uint64_t>(getpid());
  head.process_start = ProcessStart(head.process);
  return head;
}

TraceFile::Opened TraceFile::Open(const char* path) {
  if (strlen(path) >= sizeof path_) {
    errno = ENAMETOOLONG;
    return Opened::kRefused;
  }
  const int fd = OpenToAppend(path, 0666);
  if (fd < 0) return Opened::kRefused;
  // The size counts from when the file is locked.
  const bool is_locked = LockFile(fd);
  const Opened opened = is_locked ? Judge(fd) : Opened::kInUse;
  if (opened != Opened::kYes) {
    const int error = errno;
    (void)UnlockAndClose(fd);
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
  const int fd = OpenToAppend(path_, 0);
  if (fd < 0) return false;
  (void)LockFile(fd);  // a child may have a copy of the first descriptor, and so the lock
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
  if (!IsWithinFileLimit(descriptor_.fd(), bytes)) return EFBIG;
  return WriteAll(descriptor_.fd(), static_cast<const char*>(data), bytes) ? 0 : errno;
}

void TraceFile::Close() {
  descriptor_.UnlockAndClose();
  path_[0] = 0;
}

void TraceFile::Leave() {
  descriptor_.Close();
  path_[0] = 0;
}

}  // namespace gleaner::platform
