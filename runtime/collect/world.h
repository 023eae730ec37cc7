// The runtime's implementation of gc::World, the collector's view of the process.
#pragma once

#include "gc/world.h"

namespace gleaner::runtime {

extern const gc::World kWorld;

// How far the last thread of the program has come that gives the collector lock to a waiting one. A
// collection waits until it is done, and a moment longer, before it stops the program, since
// programs finish after the lock what they did under it: Guile moves a stack of its own under the
// lock, and then its stack pointer. Otherwise the thread that waits would wake up, and stop the
// other one in the system call that has woken it. Any thread.
enum class LockHandover : uint8_t { kNone, kBegun, kDone };
void SetLockHandover(LockHandover handover);

// Prints the collector's last event as part of a fatal error's message, calls the program's abort
// function, and waits for a debugger if the option says so (g_fatal_context).
void DescribePhase(const char* reason);

}  // namespace gleaner::runtime
