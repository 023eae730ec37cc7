#include "record/system/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "platform/os/cancellation.h"
#include "platform/os/descriptor.h"
#include "platform/os/os_page.h"

namespace gleaner::record {
namespace {

uint64_t Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Repeats a call that a signal interrupts. Returns errno, 0 for none.
template <class Call>
int Uninterrupted(const Call& call) {
  while (call() < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Opens the file and sets *fd. Returns errno, 0 for none.
int OpenUninterrupted(const char* path, int flags, int* fd) {
  return Uninterrupted([=] { return *fd = platform::OpenAboveStandard(path, flags, 0666); });
}

}  // namespace

int RecordFile::Create(const char* path) {
  const platform::UncancellableSection section;  // malloc is no point of cancellation
  int fd;
  int error = OpenUninterrupted(path, O_RDWR | O_CREAT | O_EXCL, &fd);
  if (error != 0) return error;
  struct stat status;
  error = fstat(fd, &status) == 0 ? 0 : errno;
  close(fd);
  if (error != 0) return error;
  path_ = path;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return 0;
}

int RecordFile::Open() const {
  int fd;
  if (OpenUninterrupted(path_, O_RDWR, &fd) != 0) return -1;
  struct stat status;
  const int error = fstat(fd, &status) == 0 ? ESTALE : errno;
  if (error == ESTALE && status.st_dev == device_ && status.st_ino == inode_) return fd;
  close(fd);
  errno = error;
  return -1;
}

int RecordFile::Grow(uint64_t bytes) {
  const platform::UncancellableSection section;  // malloc is no point of cancellation
  // The program may lower its file size limit at any time. A file beyond it would end the program
  // by SIGXFSZ.
  if (bytes > FileSizeLimit()) return EFBIG;
  const int fd = Open();
  if (fd < 0) return errno;
  const auto size = static_cast<off_t>(bytes);
  int error = Uninterrupted([=] { return fallocate(fd, 0, 0, size); });
  if (error == EOPNOTSUPP) error = Uninterrupted([=] { return ftruncate(fd, size); });
  close(fd);
  return error;
}

int RecordFile::Cut(uint64_t bytes) {
  const platform::UncancellableSection section;  // malloc is no point of cancellation
  const int fd = Open();
  if (fd < 0) return errno;
  const int error = Uninterrupted([=] { return ftruncate(fd, static_cast<off_t>(bytes)); });
  close(fd);
  return error;
}

void* RecordFile::Map(uint64_t offset, size_t bytes) {
  const platform::UncancellableSection section;  // malloc is no point of cancellation
  const int fd = Open();
  if (fd < 0) return nullptr;
  void* p =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  const int error = errno;
  close(fd);
  errno = error;
  return p == MAP_FAILED ? nullptr : p;
}

void RecordFile::Unmap(void* p, size_t bytes) { munmap(p, bytes); }

uint64_t FileSizeLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

platform::Atomic<uint32_t>* MapForkWord() {
  void* p = mmap(nullptr, platform::OsPageBytes(), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (madvise(p, platform::OsPageBytes(), MADV_WIPEONFORK) != 0) {
    munmap(p, platform::OsPageBytes());
    return nullptr;
  }
  return static_cast<platform::Atomic<uint32_t>*>(p);
}

uint64_t ProcessNumber() { return static_cast<uint64_t>(getpid()); }

size_t ReadCommandLine(char* buffer, size_t bytes) {
  const platform::UncancellableSection section;  // malloc is no point of cancellation
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, buffer, bytes);
  close(fd);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

uint64_t WallClockNs() { return Read(CLOCK_REALTIME); }
uint64_t CoarseMs() { return Read(CLOCK_MONOTONIC_COARSE) / 1000000; }

}  // namespace gleaner::record
