#include "observe/snapshot_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platform/os/descriptor.h"
#include "platform/os/process.h"
#include "platform/os/write_all.h"

namespace gleaner::platform {

namespace {

using Opened = SnapshotFile::Opened;

// What to do with a file that is open and, where the file system knows locks, locked.
Opened Judge(int fd, const SnapshotFile::Head& own_head, bool own) {
  struct stat status;
  if (fstat(fd, &status) != 0) return Opened::kRefused;
  if (!S_ISREG(status.st_mode)) return Opened::kForeign;
  if (status.st_size == 0) return Opened::kYes;
  SnapshotFile::Head head;
  errno = 0;
  if (pread(fd, &head, sizeof head, 0) != sizeof head || head.magic != own_head.magic) {
    return errno != 0 ? Opened::kRefused : Opened::kForeign;
  }
  const bool is_running =
      head.process_start != 0 && ProcessStart(head.process) == head.process_start;
  if (is_running && !(own && head.process == own_head.process)) return Opened::kInUse;
  return ftruncate(fd, 0) == 0 ? Opened::kYes : Opened::kRefused;
}

}  // namespace

Opened SnapshotFile::Open(const char* path, const Head& head, bool own) {
  const int fd = OpenToAppend(path, 0600);
  if (fd < 0) return Opened::kRefused;
  const bool is_locked = LockFile(fd);
  Opened opened = is_locked ? Judge(fd, head, own) : Opened::kInUse;
  // The file may be an older one that others may read.
  if (opened == Opened::kYes && fchmod(fd, 0600) != 0) opened = Opened::kRefused;
  if (opened == Opened::kYes) {
    fd_ = fd;
    return opened;
  }
  const int error = errno;
  (void)UnlockAndClose(fd);
  errno = error;
  return opened;
}

int SnapshotFile::Append(const void* data, size_t bytes) {
  if (!IsWithinFileLimit(fd_, bytes)) return EFBIG;
  return WriteAll(fd_, static_cast<const char*>(data), bytes) ? 0 : errno;
}

int SnapshotFile::Close(bool keep) {
  while (!keep && ftruncate(fd_, 0) != 0 && errno == EINTR) {
  }
  const int fd = fd_;
  fd_ = -1;
  return UnlockAndClose(fd);
}

void SnapshotFile::LeaveAfterFork() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace gleaner::platform
