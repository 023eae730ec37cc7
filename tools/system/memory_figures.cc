#include "tools/system/memory_figures.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/os/memory.h"

namespace gleaner::tools {
namespace {

// Reads the first bytes of a kernel file and adds a zero; empty if it cannot be read.
void ReadKernelFile(const char* path, char* text, size_t bytes) {
  text[0] = 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t n = read(fd, text, bytes - 1);
  text[n > 0 ? n : 0] = 0;
  close(fd);
}

// The figure behind "name:" in KiB, as bytes; `missing` if there is none.
uint64_t FigureOf(const char* text, const char* name, uint64_t missing) {
  const char* at = strstr(text, name);
  return at == nullptr ? missing : strtoull(at + strlen(name), nullptr, 10) * kKiB;
}

}  // namespace

MemoryNow ReadMemoryNow() {
  char text[256];
  ReadKernelFile("/proc/self/statm", text, sizeof text);
  char* rest = text;
  MemoryNow now;
  now.address_space_bytes = strtoull(rest, &rest, 10) * platform::OsPageBytes();
  now.resident_bytes = strtoull(rest, &rest, 10) * platform::OsPageBytes();
  return now;
}

MemoryPeaks ReadMemoryPeaks() {
  char text[4096];
  ReadKernelFile("/proc/self/status", text, sizeof text);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  MemoryPeaks peaks;
  peaks.resident_bytes = FigureOf(text, "VmHWM:", 0);
  peaks.address_space_bytes = FigureOf(text, "VmPeak:", 0);
  peaks.minor_faults = static_cast<uint64_t>(usage.ru_minflt);
  peaks.major_faults = static_cast<uint64_t>(usage.ru_majflt);
  return peaks;
}

void ResetPeakResident() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t n = write(fd, "5", 1);
  close(fd);
}

uint64_t AvailableMemory() {
  char text[4096];
  ReadKernelFile("/proc/meminfo", text, sizeof text);
  return FigureOf(text, "MemAvailable:", UINT64_MAX);
}

const uint8_t* ReadWholeFile(const char* path, size_t* bytes, int* error) {
  *bytes = 0;
  *error = 0;
  // O_NONBLOCK: a FIFO may have no writer
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  uint8_t* data = nullptr;
  if (fd < 0 || fstat(fd, &status) != 0) {
    *error = errno;
  } else if (S_ISDIR(status.st_mode)) {
    *error = EISDIR;
  } else if (!S_ISREG(status.st_mode)) {
    *error = EINVAL;
  } else if (status.st_size != 0) {
    const auto size = static_cast<size_t>(status.st_size);
    data = static_cast<uint8_t*>(
        platform::Reserve(AlignUp(size, platform::OsPageBytes()), platform::OsPageBytes()));
    if (data == nullptr || !platform::Commit(data, AlignUp(size, platform::OsPageBytes())))
      *error = ENOMEM;
    while (*error == 0 && *bytes < size) {
      const ssize_t n = pread(fd, data + *bytes, size - *bytes, static_cast<off_t>(*bytes));
      if (n < 0 && errno != EINTR) *error = errno;
      if (n == 0) break;  // the file has become shorter
      if (n > 0) *bytes += static_cast<size_t>(n);
    }
  }
  if (fd >= 0) close(fd);
  return *error == 0 ? data : nullptr;
}

int AbsolutePath(const char* path, char* buffer, size_t bytes) {
  if (path[0] == '/') {
    if (strlen(path) >= bytes) return ENAMETOOLONG;
    strcpy(buffer, path);
    return 0;
  }
  if (getcwd(buffer, bytes) == nullptr) return errno;
  const size_t length = strlen(buffer);
  if (length + 1 + strlen(path) >= bytes) return ENAMETOOLONG;
  snprintf(buffer + length, bytes - length, "/%s", path);
  return 0;
}

int ClearPath(const char* path) {
  struct stat status;
  if (lstat(path, &status) == 0) {
    if (S_ISDIR(status.st_mode)) return EISDIR;
    if (!S_ISREG(status.st_mode)) return EINVAL;
    if (unlink(path) != 0) return errno;
  }
  const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  close(fd);
  return unlink(path) == 0 ? 0 : errno;
}

}  // namespace gleaner::tools
