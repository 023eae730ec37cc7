// operator new and operator delete in all forms, without libstdc++: the operators of the program's
// C++ library, which know the new-handler and std::bad_alloc, are looked up when a request fails.
#include <dlfcn.h>

#include <new>

#include "malloc/cache.h"

namespace {

namespace proxy = gleaner::malloc_proxy;
using gleaner::alloc::kGranuleBytes;

// The operator of the given name that stands behind this library's: it repeats the request, calls
// the new-handler and throws, or returns null, as its C++ library does. That may be one of the
// program's or of one plug-in only, or part of the object that calls (-static-libstdc++), which
// `caller` lies in. Null if there is none.
template <class F>
F* NextOperator(const char* name, const void* caller) {
  void* function = dlsym(RTLD_NEXT, name);
  Dl_info info;
  const bool found = dladdr(caller, &info) != 0;
  for (const char* object :
       {found ? info.dli_fname : nullptr, "libstdc++.so.6", "libc++abi.so.1"}) {
    if (function != nullptr) break;
    void* handle = object != nullptr ? dlopen(object, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (handle != nullptr) function = dlsym(handle, name);
  }
  return reinterpret_cast<F*>(function);
}

void* TryAllocate(size_t bytes, size_t alignment) {
  if (!gleaner::IsPowerOfTwo(alignment)) return nullptr;
  return alignment <= kGranuleBytes ? proxy::AllocateSlow(bytes)
                                    : proxy::AllocateAligned(bytes, alignment);
}

// The new-handler may throw through this function, which has nothing to clean up.
GLEANER_NOINLINE void* NewSlow(size_t bytes, size_t alignment, const void* caller) {
  if (void* p = TryAllocate(bytes, alignment); p != nullptr) return p;
  if (bytes + alignment < bytes) {  // libstdc++ rounds such a size up to 0
    bytes = PTRDIFF_MAX;
    alignment = kGranuleBytes;
  }
  if (alignment == kGranuleBytes) {
    if (auto* next = NextOperator<void*(size_t)>("_Znwm", caller); next != nullptr) {
      return next(bytes);
    }
  } else if (auto* next =
                 NextOperator<void*(size_t, std::align_val_t)>("_ZnwmSt11align_val_t", caller);
             next != nullptr) {
    return next(bytes, std::align_val_t{alignment});
  }
  gleaner::Fatal("operator new(%zu): out of memory, and no C++ library to throw std::bad_alloc",
                 bytes);
}

// The C++ library's nothrow operator calls the throwing one of this file and catches.
GLEANER_NOINLINE void* NewNothrowSlow(size_t bytes, size_t alignment, const std::nothrow_t& tag,
                                      const void* caller) {
  if (void* p = TryAllocate(bytes, alignment); p != nullptr) return p;
  if (bytes + alignment < bytes) {  // libstdc++ rounds such a size up to 0
    bytes = PTRDIFF_MAX;
    alignment = kGranuleBytes;
  }
  if (alignment == kGranuleBytes) {
    auto* next = NextOperator<void*(size_t, const std::nothrow_t&)>("_ZnwmRKSt9nothrow_t", caller);
    return next != nullptr ? next(bytes, tag) : nullptr;
  }
  auto* next = NextOperator<void*(size_t, std::align_val_t, const std::nothrow_t&)>(
      "_ZnwmSt11align_val_tRKSt9nothrow_t", caller);
  return next != nullptr ? next(bytes, std::align_val_t{alignment}, tag) : nullptr;
}

// The slow paths are tail calls, so that the fast paths need no frame.
GLEANER_ALWAYS_INLINE void* New(size_t bytes, const void* caller) {
  void* p = proxy::TryMagazine(bytes);
  return GLEANER_LIKELY(p != nullptr) ? p : NewSlow(bytes, kGranuleBytes, caller);
}
GLEANER_ALWAYS_INLINE void* NewNothrow(size_t bytes, const std::nothrow_t& tag,
                                       const void* caller) {
  void* p = proxy::TryMagazine(bytes);
  return GLEANER_LIKELY(p != nullptr) ? p : NewNothrowSlow(bytes, kGranuleBytes, tag, caller);
}

}  // namespace

using Align = std::align_val_t;
using Nothrow = std::nothrow_t;

// Other compilation units declare the operators with default visibility; the command line of this
// one hides symbols.
#pragma GCC visibility push(default)

void* operator new(size_t n) { return New(n, __builtin_return_address(0)); }
void* operator new[](size_t n) { return New(n, __builtin_return_address(0)); }
void* operator new(size_t n, const Nothrow& t) noexcept {
  return NewNothrow(n, t, __builtin_return_address(0));
}
void* operator new[](size_t n, const Nothrow& t) noexcept {
  return NewNothrow(n, t, __builtin_return_address(0));
}
void* operator new(size_t n, Align a) {
  return NewSlow(n, static_cast<size_t>(a), __builtin_return_address(0));
}
void* operator new[](size_t n, Align a) {
  return NewSlow(n, static_cast<size_t>(a), __builtin_return_address(0));
}
void* operator new(size_t n, Align a, const Nothrow& t) noexcept {
  return NewNothrowSlow(n, static_cast<size_t>(a), t, __builtin_return_address(0));
}
void* operator new[](size_t n, Align a, const Nothrow& t) noexcept {
  return NewNothrowSlow(n, static_cast<size_t>(a), t, __builtin_return_address(0));
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
