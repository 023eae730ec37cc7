// Walking the calling thread's stack from inside malloc: no memory is allocated, no lock is taken.
//
// x86-64: by the call frame information of .eh_frame, which says for each instruction how to find
// the caller's frame (DWARF 5, section 6.4; the System V ABI's supplement for x86-64, 3.7). The
// object that an address lies in comes from glibc's _dl_find_object, which takes no lock and may be
// called in signal handlers; before glibc 2.35 there is none, and a walk ends at once. What was
// found out about an address is kept in a cache, so that a frame costs some nanoseconds.
//
// Other processors: by frame pointers.
//
// Any kind of damage ends the walk:
//   [inv.unwind-stack]  the stack is read between the stack pointer and the end of the known stack,
//                       and elsewhere by a system call that fails where there is no memory.
//   [inv.unwind-up]     each frame lies above the one it called, but for what a signal interrupted.
#pragma once

#include "platform/thread.h"

namespace gleaner::malloc_proxy {

// Addresses of the calls that are under way, innermost first; for a call that is the address behind
// it less one, so that it lies in the call's own line. Frames with addresses in `skip` are left out
// at the beginning. `stack` is that of the calling thread if known, else empty. Returns how many
// there are, at most `max`. Any thread, at any time, also in signal handlers.
GLEANER_NOINLINE size_t CaptureStack(platform::Range stack, platform::Range skip, Addr* out,
                                     size_t max);

// The addresses of the shared object or program that this function is in; empty if unknown.
platform::Range ThisObject();

// Makes the cache, once, before other threads walk. It is in reserved memory of its own: its words
// are none that a conservative scan should see.
void InitUnwinder();

// An object has been unloaded, and others may get its addresses: nothing is known any more.
void ForgetUnwindRules();

}  // namespace gleaner::malloc_proxy
