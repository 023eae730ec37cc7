// Sets of memory nodes, by their numbers in the system.
#pragma once

#include "platform/common/number_set.h"

namespace gleaner::platform {

// As many as a kernel can have.
inline constexpr int kMaxNodes = 1024;

using NodeSet = NumberSet<kMaxNodes>;

// Reads a list like "0-3,5": NumberSet::Parse.
inline bool ParseNodes(const char* text, const char** end, NodeSet* nodes) {
  return nodes->Parse(text, end);
}

}  // namespace gleaner::platform
