#include "platform/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gleaner::platform {

namespace {

// Above the numbers that programs choose themselves (and shells: 10 to 255), below the usual limit
// of 1024.
constexpr int kHighNumber = 768;

int HighNumber() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > kHighNumber) return kHighNumber;
  return static_cast<int>(limit.rlim_cur / 2);
}

}  // namespace

bool OwnDescriptor::Take(int fd) {
  if (fd < 0) return false;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, HighNumber());
  if (high >= 0) {
    close(fd);
    fd = high;
  }
  struct stat status;
  if (fstat(fd, &status) != 0) {
    close(fd);
    return false;
  }
  fd_ = fd;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

bool OwnDescriptor::IsOwn() const {
  struct stat status;
  return fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

void OwnDescriptor::Close() {
  if (IsOwn()) close(fd_);
  fd_ = -1;
}

}  // namespace gleaner::platform
