// SIGSEGV stays unblocked while its handler is installed (platform/threads/fault_signal.h): a fault
// of a thread that blocks it ends the process.
//
// A thread that blocked SIGSEGV before the handler was installed unblocks it when it registers, at
// the end of a stop, and when it leaves a blocking section (a thread in such a section is not
// stopped). From then on no thread can block it (system_calls.h).
#pragma once

#include <spawn.h>  // sigset_t; <signal.h> is for .cc files alone

#include "platform/common/range.h"

namespace gleaner::platform {

// From here on threads keep SIGSEGV unblocked where the library changes or restores their masks
// (FaultSignalHooks). Called before the handler is installed, each time.
void KeepSignalOpenEverywhere();

// Unblocks SIGSEGV for the calling thread, if the handler is installed and the thread has not done
// so since. Async-signal-safe, but the return of a signal handler undoes it.
void OpenFaultSignal();
// Removes SIGSEGV from a mask that the thread is about to get, if the handler is installed.
// Async-signal-safe.
void KeepFaultSignalOpen(sigset_t* mask);
// Replaces an alternate stack that the thread is about to get, with these flags, by memory of ours
// if the stack lies in `own_stack` (alternate_stacks.h) and the handler is installed. Returns
// whether it has. Async-signal-safe.
bool KeepAlternateStackApart(int flags, void** base, size_t* bytes, Range own_stack);

}  // namespace gleaner::platform
