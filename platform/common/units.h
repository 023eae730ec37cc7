// The compiler's attributes, units, alignment and addresses: words that every file uses, and
// nothing of the system.
#pragma once

#include <cstddef>
#include <cstdint>

#define GLEANER_LIKELY(x) __builtin_expect(!!(x), 1)
#define GLEANER_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define GLEANER_NOINLINE __attribute__((noinline))
#define GLEANER_COLD __attribute__((noinline, cold))
#define GLEANER_ALWAYS_INLINE inline __attribute__((always_inline))
// For functions that read foreign memory on purpose, as conservative scanning does. Such a function
// must not call others: if GCC inlines a function into it, the inlined locals stay poisoned.
#define GLEANER_NO_SANITIZE __attribute__((no_sanitize("address", "undefined", "thread")))

#ifdef GLEANER_VERIFY
inline constexpr bool kVerifyBuild = true;
#else
inline constexpr bool kVerifyBuild = false;
#endif

#if defined(GLEANER_VERIFY) || !defined(NDEBUG)
inline constexpr bool kDebugChecks = true;
#else
inline constexpr bool kDebugChecks = false;
#endif

namespace gleaner {

using Addr = uintptr_t;

inline constexpr size_t kWordBytes = sizeof(void*);
inline constexpr size_t kCacheLineBytes = 64;
inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kGiB = 1024 * kMiB;

// pre: alignment is a power of two; no overflow.
constexpr size_t AlignUp(size_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr size_t AlignDown(size_t value, size_t alignment) { return value & ~(alignment - 1); }
constexpr bool IsPowerOfTwo(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

// Scatters the bits of a word (Stafford's variant 13 of the 64-bit finalizer of MurmurHash3).
constexpr uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <class T>
T* PointerAt(Addr address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): a heap's trade
}
// Loads the word at an address that a conservative scan has reached, whatever memory that is.
// Volatile: it is loaded once, so that what is tested is what is used, though other threads write.
GLEANER_NO_SANITIZE inline Addr LoadForeignWord(Addr address) {
  return *PointerAt<const volatile Addr>(address);
}
inline Addr AddressOf(const volatile void* p) { return reinterpret_cast<Addr>(p); }

}  // namespace gleaner
