#include "platform/os/descriptor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

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

// While it exists, the numbers of the standard streams are taken, by descriptors that can neither
// be read nor written.
class StandardNumbersTaken {
 public:
  StandardNumbersTaken() {
    for (;;) {
      const int fd = open("/", O_PATH | O_CLOEXEC);
      if (fd > STDERR_FILENO) close(fd);
      if (fd < 0 || fd > STDERR_FILENO) return;
      fds_[count_++] = fd;
    }
  }
  ~StandardNumbersTaken() {
    const int error = errno;
    while (count_ != 0) close(fds_[--count_]);
    errno = error;
  }
  StandardNumbersTaken(const StandardNumbersTaken&) = delete;
  StandardNumbersTaken& operator=(const StandardNumbersTaken&) = delete;

 private:
  int fds_[STDERR_FILENO + 1];
  int count_ = 0;
};

}  // namespace

int OpenAboveStandard(const char* path, int flags, unsigned mode) {
  const StandardNumbersTaken taken;
  return open(path, flags | O_CLOEXEC, mode);
}

int OpenToAppend(const char* path, unsigned mode) {
  // Non-blocking, since the path may be that of a pipe.
  const int flags = O_RDWR | O_APPEND | O_NOCTTY | O_NONBLOCK;
  return OpenAboveStandard(path, mode != 0 ? flags | O_CREAT : flags, mode);
}

bool LockFile(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

int UnlockAndClose(int fd) {
  (void)flock(fd, LOCK_UN);
  return close(fd) == 0 || errno == EINTR ? 0 : errno;  // an interrupted close has closed it
}

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

void OwnDescriptor::UnlockAndClose() {
  if (IsOwn()) (void)platform::UnlockAndClose(fd_);
  fd_ = -1;
}

}  // namespace gleaner::platform
