// The collector's view of the process: what gc::World asks.
#pragma once

#include "gc/world.h"

namespace gleaner::runtime {

extern const gc::World kWorld;

// Says what the collector did last, for the message of a fatal error (platform: g_fatal_context).
void DescribePhase(const char* reason);

}  // namespace gleaner::runtime
