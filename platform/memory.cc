#include "platform/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gleaner::platform {

size_t OsPageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* Reserve(size_t bytes, size_t alignment) {
  const size_t slack = alignment > OsPageBytes() ? alignment : 0;
  if (bytes + slack < bytes) return nullptr;
  void* raw =
      mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const Addr start = AddressOf(raw);
  const Addr aligned = AlignUp(start, alignment);
  if (aligned != start) munmap(raw, aligned - start);
  const Addr end = start + bytes + slack;
  if (end != aligned + bytes) munmap(PointerAt<void>(aligned + bytes), end - (aligned + bytes));
  return PointerAt<void>(aligned);
}

void* ReserveZeroes(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void Release(void* p, size_t bytes) { munmap(p, bytes); }

bool Commit(void* p, size_t bytes, bool executable) {
  return mprotect(p, bytes, PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0)) == 0;
}

void Discard(void* p, size_t bytes) { madvise(p, bytes, MADV_DONTNEED); }

bool Renew(void* p, size_t bytes) {
  return mmap(p, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

Moved MoveContents(void* from, void* to, size_t bytes) {
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
      MAP_FAILED) {
    return Moved::kDone;
  }
  // Some failures come after the destination has been unmapped. If there is a mapping now, nobody
  // can say whether it is still ours.
  void* again = mmap(to, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (again == to) return Moved::kRefused;
  if (again != MAP_FAILED) munmap(again, bytes);  // of an old system, which does not know the flag
  return Moved::kLost;
}

void AdviseHugePages(void* p, size_t bytes) { madvise(p, bytes, MADV_HUGEPAGE); }

size_t AddressSpaceLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

}  // namespace gleaner::platform
