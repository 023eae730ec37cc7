// Memory for the heap's own tables, outside the heap and never scanned.
//
// No allocation fast path comes here. MetaAllocate's memory is never returned to the system; users
// keep free lists of their own where they need them.
#pragma once

#include "alloc/metadata/reserved_array.h"
#include "platform/os/lock.h"
#include "platform/os/memory.h"

namespace gleaner::alloc {

// Zeroed memory that lives as long as the process; null if the system refuses. Thread-safe.
// pre: alignment is a power of two of at most one OS page.
void* MetaAllocate(size_t bytes, size_t alignment = kCacheLineBytes);

// Bytes of metadata handed out by MetaAllocate so far.
size_t MetaBytes();
// Where that number is, for readers of another process.
const size_t& MetaBytesPlace();

void MetaResetLockAfterFork();

}  // namespace gleaner::alloc
