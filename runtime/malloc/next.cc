#include "runtime/malloc/next.h"

#include "platform/atomic.h"
#include "platform/thread.h"

namespace gleaner::malloc_proxy {
namespace {

// A function of the next allocator, looked up when it is first needed. The look-up may call malloc,
// which needs none of these, or the second call finds the function as the first one does.
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

constinit NextCall<void*(size_t, size_t)> g_memalign("memalign");
constinit NextCall<void*(size_t, size_t)> g_calloc("calloc");
constinit NextCall<void*(void*, size_t)> g_realloc("realloc");
constinit NextCall<void(void*)> g_free("free");
constinit NextCall<size_t(void*)> g_usable_size("malloc_usable_size");

}  // namespace

void* NextAllocate(size_t bytes, size_t alignment, bool zeroed) {
  return zeroed ? g_calloc.get()(1, bytes) : g_memalign.get()(alignment, bytes);
}
void* NextReallocate(void* p, size_t bytes) { return g_realloc.get()(p, bytes); }
void NextFree(void* p) { g_free.get()(p); }
size_t NextUsableBytes(void* p) { return g_usable_size.get()(p); }

}  // namespace gleaner::malloc_proxy
