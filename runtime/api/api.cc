#include "runtime/api/api.h"

namespace gleaner::runtime {

void* OutOfMemory(size_t bytes) {
  errno = ENOMEM;
  return GC_oom_fn != nullptr ? GC_oom_fn(bytes) : nullptr;
}

void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment, bool ignore_off_page) {
  void* p =
      AttachToHeap() ? alloc::AllocateObject(kind, bytes, alignment, ignore_off_page) : nullptr;
  ClearDeadStackIfDue();  // not where bytes are counted, since the library's own frames lie between
  return p != nullptr ? p : OutOfMemory(bytes);
}

}  // namespace gleaner::runtime
