#include "platform/process.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "platform/memory.h"

namespace gleaner::platform {

bool HasElevatedRights() { return getauxval(AT_SECURE) != 0; }

int OpenLogFile(const char* path) {
  return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

int OpenForReading(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

void* MapSharedFile(const char* path, size_t bytes) {
  const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat status;
  void* memory = MAP_FAILED;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<size_t>(status.st_size) == OsPageBytes() && bytes <= OsPageBytes()) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  return memory == MAP_FAILED ? nullptr : memory;
}

uint64_t PeakResidentBytes() {
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[4096];
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* peak = strstr(text, "VmHWM:");
  return peak == nullptr ? 0 : strtoull(peak + strlen("VmHWM:"), nullptr, 10) * kKiB;
}

}  // namespace gleaner::platform
