// Blocks that are larger than what is used of them: what the system would refuse is refused, and
// zeroes that nobody looks at are not written.
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <initializer_list>
#include <new>

#include "check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool SystemHas(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

// p is null with ENOMEM just if the system has not so much, and is given back.
void CheckGranted(void* p, size_t bytes) {
  CHECK((p != nullptr) == SystemHas(bytes));
  CHECK(p != nullptr || errno == ENOMEM);
  free(p);
  errno = 0;
}

// One request for more than memory and swap, which is refused unless all is granted.
void BeyondMemory() {
  struct sysinfo info;
  CHECK(sysinfo(&info) == 0);
  const size_t bytes = (info.totalram + info.totalswap) * info.mem_unit + 64 * kMiB;
  for (int round = 0; round < 3; ++round) {
    CheckGranted(opaque(malloc(bytes)), bytes);
    CheckGranted(opaque(calloc(bytes / 8, 8)), bytes);
    CheckGranted(opaque(aligned_alloc(1 << 20, bytes)), bytes);
    void* p = malloc(100 * 1000);
    fill(p, 100 * 1000, 7);
    void* larger = opaque(realloc(p, bytes));
    CHECK(holds(larger != nullptr ? larger : p, 100 * 1000, 7));
    if (larger == nullptr) free(p);
    CheckGranted(larger, bytes);
    CheckGranted(opaque(operator new(bytes, std::nothrow)), bytes);
  }
  // And what is less is granted.
  CheckGranted(opaque(malloc(bytes / 2)), bytes / 2);
}

// A block that had contents, again and again, of which one byte is used.
void RecycledZeroes() {
  constexpr size_t kBytes = 128 * kMiB;
  const size_t before = status_bytes("VmRSS:");
  for (int i = 0; i < 10; ++i) {
    auto* p = static_cast<char*>(calloc(kBytes / 16, 16));
    CHECK(p != nullptr);
    p[i * 12345] = 1;
    const size_t resident = status_bytes("VmRSS:");
    CHECK(resident < before + 16 * kMiB);
    free(p);
    // Half of it is written, in the middle.
    p = static_cast<char*>(malloc(kBytes));
    memset(p + kBytes / 4, 0xa5, kBytes / 2);
    free(p);
  }
  for (const size_t bytes : {kBytes, kBytes / 2 + 5, 32 * kMiB, 32 * kMiB - 100, kMiB}) {
    void* p = calloc(1, bytes);
    CHECK(is_zero(p, bytes));
    memset(p, 0x5a, bytes);
    free(p);
  }
}

// A block that the C library would have from the system goes back to it. Without collecting this
// takes a while, and some of it stays: footprint.cc.
void GoesBack() {
  if (getenv("GLEANER_COLLECT") == nullptr) return;
  constexpr size_t kBytes = 200 * kMiB;
  const size_t before = status_bytes("VmRSS:");
  void* p = malloc(kBytes);
  memset(p, 0x5a, kBytes);
  CHECK(status_bytes("VmRSS:") >= before + kBytes);
  free(opaque(p));
  CHECK(status_bytes("VmRSS:") < before + 16 * kMiB);
  p = malloc(kBytes / 2);
  CHECK(is_zero(p, kBytes / 2));
  free(opaque(p));
}

}  // namespace

int main() {
  require_gleaner();
  GoesBack();
  BeyondMemory();
  RecycledZeroes();
}
