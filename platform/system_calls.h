// Calls of the C library that have the system write into the program's memory, under mprotect
// tracking: the system does not deliver the signal that a store would, it refuses the call. So the
// objects of the program are given functions that pin the buffers first (call_buffers.h), and that
// let nobody block or take SIGSEGV. Until they are asked for nothing is changed, and nothing is
// exported. docs/write_tracking.md says what they cover.
#pragma once

#include "platform/stop_world.h"

namespace gleaner::platform {

// Looks the calls up in the C library. Any thread, any number of times; takes the loader's locks.
void FindSystemCalls();
bool SystemCallsAreFound();

// In all objects that are loaded. Any thread, any number of times; takes the loader's locks, unless
// the loader cannot be asked (loaded_objects.h). pre: then the calls are found.
void InterposeSystemCalls(bool loader_can_be_asked = true);

// In those that have been loaded since; nothing if InterposeSystemCalls has not been called. Inside
// WithLoaderLocked.
void InterposeInNewObjects();

// SigmaskKeepingSuspend as the program calls it, through a function of this library: `old` may lie
// in the heap, and SIGSEGV stays open once InterposeSystemCalls has been called.
int SigmaskOfProgram(int how, const sigset_t* set, sigset_t* old);

}  // namespace gleaner::platform
