// How much of the process's memory is on each of the machine's memory nodes, by
// /proc/self/numa_maps.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

struct NodeMemory {
  uint64_t heap_bytes;   // of mappings that begin in a range
  uint64_t file_bytes;   // of mappings of files
  uint64_t other_bytes;  // of other ones
};
inline constexpr int kMaxMemoryNodes = 64;  // nodes with larger numbers count for the last one

// Fills `nodes`, of kMaxMemoryNodes elements that are zero. [begin, begin + bytes) is the range of
// the heap. False if the machine has one node, or the kernel does not tell. Takes some 60 ns for
// each OS page that is in memory. Allocates nothing.
[[nodiscard]] bool ReadNodeMemory(Addr begin, size_t bytes, NodeMemory* nodes);

}  // namespace gleaner::platform
