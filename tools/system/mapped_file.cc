#include "tools/system/mapped_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace gleaner::tools {

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), bytes_);
  if (fd_ >= 0) close(fd_);
}

int MappedFile::Map(const char* path) {
  fd_ = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) return errno;
  struct stat status;
  if (fstat(fd_, &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  if (flock(fd_, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return EBUSY;
  if (fstat(fd_, &status) != 0) return errno;
  bytes_ = static_cast<uint64_t>(status.st_size);
  if (bytes_ == 0) return 0;
  void* data = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (data == MAP_FAILED) return errno;
  data_ = static_cast<const uint8_t*>(data);
  return 0;
}

void MappedFile::ForgetBelow(uint64_t offset) {
  constexpr uint64_t kAtOnce = 4 << 20;  // a multiple of the page size
  while (offset - forgotten_ >= kAtOnce && forgotten_ < offset) {
    (void)madvise(const_cast<uint8_t*>(data_) + forgotten_, kAtOnce, MADV_DONTNEED);
    forgotten_ += kAtOnce;
  }
}

}  // namespace gleaner::tools
