// Placements as the program gives them.
#pragma once

#include "alloc/placement.h"
#include "gleaner.h"

namespace gleaner::runtime {

// Reads the program's structure. False, after a message that begins with the call, if it makes no
// sense, or this process may use none of the nodes.
bool ReadPlacement(const char* call, const gleaner_placement* given, alloc::Placement* placement);

}  // namespace gleaner::runtime
