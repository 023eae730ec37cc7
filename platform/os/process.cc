#include "platform/os/process.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/os/atomic.h"
#include "platform/os/descriptor.h"
#include "platform/os/os_page.h"

namespace gleaner::platform {

namespace {

// A page with the number of the process that owns the memory: a child of fork gets the page as
// zeroes, a child of vfork shares it. The number is accessed relaxed: it is written before there is
// a second process, or by the only thread of a forked child.
constinit Atomic<Atomic<int32_t>*> g_owner{nullptr};

}  // namespace

bool HasElevatedRights() { return getauxval(AT_SECURE) != 0; }

bool OwnMemory() {
  Atomic<int32_t>* owner = g_owner.Load(memory_order_acquire);  // pairs with the exchange
  if (owner == nullptr) {
    void* page =
        mmap(nullptr, OsPageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    owner = static_cast<Atomic<int32_t>*>(page);
    owner->Store(getpid(), memory_order_relaxed);  // before it is published
    // Acq_rel: publishes the number in the page. One of several callers wins.
    Atomic<int32_t>* none = nullptr;
    if (madvise(page, OsPageBytes(), MADV_WIPEONFORK) == 0 &&
        g_owner.CompareExchange(none, owner, memory_order_acq_rel)) {
      return true;
    }
    munmap(page, OsPageBytes());
    return none != nullptr;
  }
  owner->Store(getpid(), memory_order_relaxed);  // the only thread of a child
  return true;
}

bool MemoryIsCopy() {
  const Atomic<int32_t>* owner = g_owner.Load(memory_order_acquire);  // pairs with OwnMemory
  return owner != nullptr && owner->Load(memory_order_relaxed) == 0;  // written before
}

bool MemoryIsAnothers() {
  const Atomic<int32_t>* owner = g_owner.Load(memory_order_acquire);  // pairs with OwnMemory
  if (owner == nullptr) return false;
  const int32_t process = owner->Load(memory_order_relaxed);  // written before
  return process != 0 && process != getpid();
}

int RawPrlimit(int process, int resource, const void* limit, void* old) {
  return static_cast<int>(syscall(SYS_prlimit64, process, resource, limit, old));
}
int RawMlockall(int flags) { return static_cast<int>(syscall(SYS_mlockall, flags)); }

int OpenLogFile(const char* path) {
  return OpenAboveStandard(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
}

int OpenForReading(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

bool ReadFile(const char* path, char* text, size_t capacity, size_t* bytes) {
  const int fd = OpenForReading(path);
  if (fd < 0) return false;
  *bytes = 0;
  for (;;) {
    char more;
    const bool full = *bytes == capacity;
    const ssize_t n = full ? read(fd, &more, 1) : read(fd, text + *bytes, capacity - *bytes);
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : 0;
    if (n > 0 && !full) {
      *bytes += static_cast<size_t>(n);
      continue;
    }
    close(fd);
    errno = error;
    return n == 0;
  }
}

bool ReadProgramPath(char* path, size_t capacity) {
  const ssize_t n = readlink("/proc/self/exe", path, capacity);
  if (n <= 0 || static_cast<size_t>(n) >= capacity) return false;
  path[n] = 0;
  return true;
}

bool IsExecutable(const char* path) { return access(path, X_OK) == 0; }

bool MakeAbsolute(const char* path, char* out, size_t capacity) {
  size_t length = 0;
  if (path[0] != '/') {
    if (getcwd(out, capacity) == nullptr) return false;
    length = strlen(out);
    if (length + 1 >= capacity) return false;
    out[length++] = '/';
  }
  const size_t rest = strlen(path) + 1;
  if (length + rest > capacity) return false;
  memcpy(out + length, path, rest);
  return true;
}

bool IsWithinFileLimit(int fd, size_t bytes) {
  rlimit limit;
  struct stat status;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         (fstat(fd, &status) == 0 &&
          static_cast<uint64_t>(status.st_size) + bytes <= limit.rlim_cur);
}

// The 22nd field of /proc/PID/stat, as proc(5) counts them: 19 behind the one that follows the
// program's name, which may hold any character.
uint64_t ProcessStart(uint64_t process) {
  char path[32];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%llu/stat", static_cast<unsigned long long>(process));
  if (ReadSmallFile(path, text, sizeof text) != 0) return 0;
  const char* at = strrchr(text, ')');
  for (int field = 0; at != nullptr && field < 20; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at, nullptr, 10);
}

void ReadCommandLine(char* out, size_t capacity) {
  char raw[1024];
  size_t bytes = 0;
  if (!ReadFile("/proc/self/cmdline", raw, sizeof raw, &bytes) && errno != 0) bytes = 0;
  while (bytes != 0 && raw[bytes - 1] == 0) --bytes;
  size_t length = 0;
  for (size_t i = 0; i < bytes && length + 5 < capacity; ++i) {
    const auto c = static_cast<unsigned char>(raw[i]);
    if (c == 0) {
      out[length++] = ' ';
    } else if (c < ' ' || c == '\\' || c == 0x7f) {
      length += static_cast<size_t>(snprintf(out + length, capacity - length, "\\%03o", c));
    } else {
      out[length++] = static_cast<char>(c);
    }
  }
  out[length] = 0;
}

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

int ReadSmallFile(const char* path, char* text, size_t capacity) {
  const int saved = errno;
  const int fd = OpenForReading(path);
  const ssize_t n = fd < 0 ? -1 : read(fd, text, capacity - 1);
  const int error = n < 0 ? errno : n == 0 ? ENODATA : 0;
  if (fd >= 0) close(fd);
  errno = saved;
  if (n > 0) text[n] = 0;
  return error;
}

bool GetAnonymousProcessBytes(uint64_t* bytes) {
  char text[256];
  if (ReadSmallFile("/proc/self/statm", text, sizeof text) != 0) return false;
  // In pages: the size, of it resident, of that of files and shared memory.
  char* rest = nullptr;
  strtoull(text, &rest, 10);
  const uint64_t resident = strtoull(rest, &rest, 10);
  const uint64_t shared = strtoull(rest, nullptr, 10);
  *bytes = resident > shared ? (resident - shared) * OsPageBytes() : 0;
  return true;
}

uint64_t PeakResidentBytes() {
  char text[4096];
  if (ReadSmallFile("/proc/self/status", text, sizeof text) != 0) return 0;
  const char* peak = strstr(text, "VmHWM:");
  return peak == nullptr ? 0 : strtoull(peak + strlen("VmHWM:"), nullptr, 10) * kKiB;
}

}  // namespace gleaner::platform
