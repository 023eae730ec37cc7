// The allocator behind this one in the search order, mostly the C library's: for pointers that are
// not ours, and for a process that refuses us address space.
#pragma once

#include "platform/atomic.h"
#include "platform/thread.h"

namespace gleaner::malloc_proxy {

// A function of that name behind ours, looked up when it is first needed. The look-up may call
// malloc, which needs none of these, or the second call finds the function as the first one does.
template <class F>
class NextCall {
 public:
  constexpr explicit NextCall(const char* name) : name_(name) {}
  F* get() {
    F* f = function_.Load(platform::memory_order_relaxed);  // racing threads store the same value
    if (f == nullptr) {
      f = reinterpret_cast<F*>(platform::NextFunction(name_));
      function_.Store(f, platform::memory_order_relaxed);  // likewise
    }
    return f;
  }

 private:
  const char* name_;
  platform::Atomic<F*> function_{nullptr};
};

void* NextAllocate(size_t bytes, size_t alignment, bool zeroed);
void* NextReallocate(void* p, size_t bytes);
void NextFree(void* p);
size_t NextUsableBytes(void* p);

}  // namespace gleaner::malloc_proxy
