// The runtime's implementation of gc::World, the collector's view of the process.
#pragma once

#include "gc/world.h"

namespace gleaner::runtime {

extern const gc::World kWorld;

// Prints the collector's last event as part of a fatal error's message, calls the program's abort
// function, and waits for a debugger if the option says so (g_fatal_context).
void DescribePhase(const char* reason);

}  // namespace gleaner::runtime
