// The process's memory outside the heap, and the soft limit on all of it:
// docs/design/policy.md, "The memory limit".
#pragma once

#include <cstdint>

namespace gleaner::runtime {

// The anonymous resident bytes of the process outside the heap, as last read. Reads them again, and
// the control group's limit, and measures what the first access to memory takes, where it may: see
// memory_limit.cc. Guarded by the collector lock.
uint64_t ProcessBytes();

// Reads the same now, and nothing else; false if it may not yet. Guarded by the collector lock.
bool TryReadProcessBytes(uint64_t* bytes);

// The soft limit in force; 0: none. Any thread.
uint64_t MemoryLimitBytes();

}  // namespace gleaner::runtime
