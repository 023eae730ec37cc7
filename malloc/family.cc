// The malloc family of C, POSIX and the GNU C library, with the same arguments, errors and errno.
#include <malloc.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "malloc/cache.h"
#include "platform/os/memory.h"

namespace {

namespace proxy = gleaner::malloc_proxy;

#define GLEANER_MALLOC_API extern "C" __attribute__((visibility("default")))

void* Fail(int error) {
  errno = error;
  return nullptr;
}

int Clamped(size_t value) { return value < INT32_MAX ? static_cast<int>(value) : INT32_MAX; }

// The alignment rounded up to a power of two, as memalign requires; 0 if there is none.
size_t PowerOfTwo(size_t alignment) {
  if (gleaner::IsPowerOfTwo(alignment)) return alignment;
  if (alignment > PTRDIFF_MAX) return 0;
  size_t power = 1;
  while (power < alignment) power *= 2;
  return power;
}

}  // namespace

GLEANER_MALLOC_API void* malloc(size_t bytes) noexcept { return proxy::Allocate(bytes); }
GLEANER_MALLOC_API void free(void* p) noexcept { proxy::Free(p); }
GLEANER_MALLOC_API void cfree(void* p) noexcept { proxy::Free(p); }
// C23. The size and alignment that the caller passes are not needed.
GLEANER_MALLOC_API void free_sized(void* p, size_t) noexcept { proxy::Free(p); }
GLEANER_MALLOC_API void free_aligned_sized(void* p, size_t, size_t) noexcept { proxy::Free(p); }

GLEANER_MALLOC_API void* calloc(size_t count, size_t bytes) noexcept {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) return Fail(ENOMEM);
  return proxy::AllocateZeroed(all);
}

// As in the GNU C library, a size of 0 frees.
GLEANER_MALLOC_API void* realloc(void* p, size_t bytes) noexcept {
  if (bytes != 0 || p == nullptr) return proxy::Reallocate(p, bytes);
  proxy::Free(p);
  return nullptr;
}

GLEANER_MALLOC_API void* reallocarray(void* p, size_t count, size_t bytes) noexcept {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) return Fail(ENOMEM);
  return realloc(p, all);
}

GLEANER_MALLOC_API void* memalign(size_t alignment, size_t bytes) noexcept {
  const size_t power = PowerOfTwo(alignment == 0 ? 1 : alignment);
  return power != 0 ? proxy::AllocateAligned(bytes, power) : Fail(EINVAL);
}

GLEANER_MALLOC_API void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (!gleaner::IsPowerOfTwo(alignment)) return Fail(EINVAL);
  return proxy::AllocateAligned(bytes, alignment);
}

// Leaves errno unchanged.
GLEANER_MALLOC_API int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  if (!gleaner::IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int saved = errno;
  void* p = proxy::AllocateAligned(bytes, alignment);
  errno = saved;
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}

GLEANER_MALLOC_API void* valloc(size_t bytes) noexcept {
  return proxy::AllocateAligned(bytes, gleaner::platform::OsPageBytes());
}

GLEANER_MALLOC_API void* pvalloc(size_t bytes) noexcept {
  const size_t os_page = gleaner::platform::OsPageBytes();
  if (bytes > PTRDIFF_MAX) return Fail(ENOMEM);
  return proxy::AllocateAligned(gleaner::AlignUp(bytes == 0 ? 1 : bytes, os_page), os_page);
}

GLEANER_MALLOC_API size_t malloc_usable_size(void* p) noexcept { return proxy::UsableBytes(p); }

// The argument is a hint for a heap that ends at the break. Here all free memory is returned.
GLEANER_MALLOC_API int malloc_trim(size_t) noexcept {
  if (!proxy::Start()) return 0;
  const int saved = errno;
  proxy::ThreadCache::Flush();
  const bool any = proxy::Trim();
  errno = saved;
  return any ? 1 : 0;
}

// Parameters of the GNU C library's allocator: they are accepted and have no effect.
GLEANER_MALLOC_API int mallopt(int parameter, int) noexcept {
  switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return 1;
    default:
      return 0;
  }
}

// --- Figures ---

GLEANER_MALLOC_API struct mallinfo2 mallinfo2() noexcept {
  struct mallinfo2 info = {};
  if (!proxy::Start()) return info;
  const proxy::Figures f = proxy::CountMemory();
  info.arena = f.small_bytes + f.free_small_bytes + f.free_page_bytes;
  info.ordblks = f.free_slots;
  info.hblkhd = f.large_bytes;
  info.uordblks = f.small_bytes + f.large_bytes - f.waiting_bytes;
  info.fordblks = f.free_small_bytes + f.free_page_bytes + f.waiting_bytes;
  info.keepcost = f.idle_bytes;
  return info;
}

GLEANER_MALLOC_API struct mallinfo mallinfo() noexcept {
  const struct mallinfo2 wide = mallinfo2();
  struct mallinfo info = {};
  info.arena = Clamped(wide.arena);
  info.ordblks = Clamped(wide.ordblks);
  info.hblkhd = Clamped(wide.hblkhd);
  info.uordblks = Clamped(wide.uordblks);
  info.fordblks = Clamped(wide.fordblks);
  info.keepcost = Clamped(wide.keepcost);
  return info;
}

GLEANER_MALLOC_API void malloc_stats() noexcept {
  if (!proxy::Start()) return;
  const proxy::Figures f = proxy::CountMemory();
  gleaner::Complain("malloc: small blocks %zu bytes, free between them %zu; large blocks %zu",
                    f.small_bytes, f.free_small_bytes, f.large_bytes);
  gleaner::Complain("malloc: free pages of threads %zu bytes; free and resident beside them %zu",
                    f.free_page_bytes, f.idle_bytes);
}

GLEANER_MALLOC_API int malloc_info(int options, FILE* out) noexcept {
  if (options != 0) return EINVAL;
  if (!proxy::Start()) return ENOMEM;
  const proxy::Figures f = proxy::CountMemory();
  const int written = fprintf(
      out,
      "<malloc version=\"gleaner-1\">\n<small used=\"%zu\" free=\"%zu\"/>\n<large used=\"%zu\"/>\n"
      "<pages free=\"%zu\" resident=\"%zu\"/>\n</malloc>\n",
      f.small_bytes, f.free_small_bytes, f.large_bytes, f.free_page_bytes, f.idle_bytes);
  return written < 0 ? EIO : 0;
}
