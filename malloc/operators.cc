// operator new and operator delete in all forms, without libstdc++: the functions of it that a
// failure needs (the new-handler, std::bad_alloc) are looked up when the failure happens.
#include <dlfcn.h>

#include <new>

#include "malloc/cache.h"

namespace {

namespace proxy = gleaner::malloc_proxy;
using gleaner::alloc::kGranuleBytes;

// A function of the program's C++ run-time library; null if there is none. The library may be
// loaded by a plug-in only.
template <class F>
F* CxxFunction(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  for (const char* library : {"libstdc++.so.6", "libc++abi.so.1"}) {
    if (function != nullptr) break;
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) function = dlsym(handle, name);
  }
  return reinterpret_cast<F*>(function);
}

using Handler = void();
Handler* NewHandler() {
  auto* get = CxxFunction<Handler*()>("_ZSt15get_new_handlerv");
  return get != nullptr ? get() : nullptr;
}

void* TryAllocate(size_t bytes, size_t alignment) {
  return alignment <= kGranuleBytes ? proxy::AllocateSlow(bytes)
                                    : proxy::AllocateAligned(bytes, alignment);
}

[[noreturn]] GLEANER_COLD void RaiseBadAlloc(size_t bytes, const char* why) {
  if (auto* raise = CxxFunction<void()>("_ZSt17__throw_bad_allocv"); raise != nullptr) raise();
  gleaner::Fatal("operator new(%zu): %s, and no C++ library to throw std::bad_alloc", bytes, why);
}

// The new-handler may throw through this function, which has nothing to clean up.
GLEANER_NOINLINE void* NewSlow(size_t bytes, size_t alignment) {
  if (!gleaner::IsPowerOfTwo(alignment)) RaiseBadAlloc(bytes, "the alignment is no power of two");
  for (;;) {
    if (void* p = TryAllocate(bytes, alignment); p != nullptr) return p;
    if (Handler* handler = NewHandler(); handler != nullptr) {
      handler();
      continue;
    }
    RaiseBadAlloc(bytes, "out of memory");
  }
}

// If the new-handler may throw, the C++ library has to catch: its nothrow operator calls the
// throwing operator of this file and returns null for an exception.
GLEANER_NOINLINE void* NewNothrowSlow(size_t bytes, size_t alignment, const std::nothrow_t& tag) {
  if (!gleaner::IsPowerOfTwo(alignment)) return nullptr;
  if (void* p = TryAllocate(bytes, alignment); p != nullptr) return p;
  if (NewHandler() == nullptr) return nullptr;
  if (alignment <= kGranuleBytes) {
    auto* next = CxxFunction<void*(size_t, const std::nothrow_t&)>("_ZnwmRKSt9nothrow_t");
    return next != nullptr ? next(bytes, tag) : nullptr;
  }
  auto* next = CxxFunction<void*(size_t, std::align_val_t, const std::nothrow_t&)>(
      "_ZnwmSt11align_val_tRKSt9nothrow_t");
  return next != nullptr ? next(bytes, std::align_val_t{alignment}, tag) : nullptr;
}

// The slow paths are tail calls, so that the fast paths need no frame.
GLEANER_ALWAYS_INLINE void* New(size_t bytes) {
  void* p = proxy::TryMagazine(bytes);
  return GLEANER_LIKELY(p != nullptr) ? p : NewSlow(bytes, kGranuleBytes);
}
GLEANER_ALWAYS_INLINE void* NewNothrow(size_t bytes, const std::nothrow_t& tag) {
  void* p = proxy::TryMagazine(bytes);
  return GLEANER_LIKELY(p != nullptr) ? p : NewNothrowSlow(bytes, kGranuleBytes, tag);
}

}  // namespace

using Align = std::align_val_t;
using Nothrow = std::nothrow_t;

// Other compilation units declare the operators with default visibility; the command line of this
// one hides symbols.
#pragma GCC visibility push(default)

void* operator new(size_t n) { return New(n); }
void* operator new[](size_t n) { return New(n); }
void* operator new(size_t n, const Nothrow& t) noexcept { return NewNothrow(n, t); }
void* operator new[](size_t n, const Nothrow& t) noexcept { return NewNothrow(n, t); }
void* operator new(size_t n, Align a) { return NewSlow(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, Align a) { return NewSlow(n, static_cast<size_t>(a)); }
void* operator new(size_t n, Align a, const Nothrow& t) noexcept {
  return NewNothrowSlow(n, static_cast<size_t>(a), t);
}
void* operator new[](size_t n, Align a, const Nothrow& t) noexcept {
  return NewNothrowSlow(n, static_cast<size_t>(a), t);
}

// The size and alignment that a delete passes are not needed.
void operator delete(void* p) noexcept { proxy::Free(p); }
void operator delete[](void* p) noexcept { proxy::Free(p); }
void operator delete(void* p, size_t) noexcept { proxy::Free(p); }
void operator delete[](void* p, size_t) noexcept { proxy::Free(p); }
void operator delete(void* p, const Nothrow&) noexcept { proxy::Free(p); }
void operator delete[](void* p, const Nothrow&) noexcept { proxy::Free(p); }
void operator delete(void* p, Align) noexcept { proxy::Free(p); }
void operator delete[](void* p, Align) noexcept { proxy::Free(p); }
void operator delete(void* p, size_t, Align) noexcept { proxy::Free(p); }
void operator delete[](void* p, size_t, Align) noexcept { proxy::Free(p); }
void operator delete(void* p, Align, const Nothrow&) noexcept { proxy::Free(p); }
void operator delete[](void* p, Align, const Nothrow&) noexcept { proxy::Free(p); }

#pragma GCC visibility pop
