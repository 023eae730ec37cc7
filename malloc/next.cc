#include "malloc/next.h"

namespace gleaner::malloc_proxy {
namespace {

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
