// The next allocator in the symbol search order, mostly the C library's: for pointers that this one
// has not made, and for a process in which this one cannot reserve address space.
#pragma once

#include "platform/os/next_call.h"

namespace gleaner::malloc_proxy {

using platform::NextCall;

void* NextAllocate(size_t bytes, size_t alignment, bool zeroed);
void* NextReallocate(void* p, size_t bytes);
void NextFree(void* p);
size_t NextUsableBytes(void* p);

}  // namespace gleaner::malloc_proxy
