// Placements in words, as GLEANER_NUMA has them (docs/reference/numa.md), and the heap's own.
#pragma once

#include "alloc/placement.h"

namespace gleaner::runtime {

// Reads a placement: "local", "interleave[:NODES]", "cyclic[:NODES[:BLOCK]]", "bind:NODES" or
// "preferred:NODE". NODES is a list as "0-3,5", or "all"; BLOCK a number of bytes, also as 64k or
// 2m. Returns null, or what is wrong, as a clause for a message; then *placement is unchanged.
const char* ParsePlacement(const char* text, alloc::Placement* placement);

// Sets the heap's placement as GLEANER_NUMA says, or says why not. Before the heap's Init.
void SetHeapPlacement();

}  // namespace gleaner::runtime
