// Calls of the C library by which the system writes into the program's memory, under mprotect
// tracking: where a store would raise a signal, the system refuses the call. So the program's
// objects get functions that pin the buffers first (call_buffers.h), and functions that do not let
// the program block or take SIGSEGV. Nothing is exported, and nothing changes before
// InterposeSystemCalls. docs/design/write_tracking.md says what is covered.
#pragma once

#include "platform/threads/stop_world.h"

namespace gleaner::platform {

// Looks the calls up in the C library. Any thread, any number of times; takes the loader's locks.
void FindSystemCalls();
bool SystemCallsAreFound();

// Replaces the calls in all loaded objects. Any thread, any number of times. Takes the loader's
// locks, unless `loader_can_be_asked` is false (loaded_objects.h). pre: in this case
// SystemCallsAreFound().
void InterposeSystemCalls(bool loader_can_be_asked = true);

// Replaces the calls in objects loaded since; does nothing before InterposeSystemCalls. Inside
// WithLoaderLocked.
void InterposeInNewObjects();

// `set_mask`, a pthread_sigmask, for functions of this library that the program calls: as
// SigmaskKeepingSuspend, `old` may lie in the heap, and SIGSEGV stays unblocked once
// InterposeSystemCalls has been called.
int SigmaskOfProgram(int how, const sigset_t* set, sigset_t* old,
                     int (*set_mask)(int, const sigset_t*, sigset_t*));

}  // namespace gleaner::platform
