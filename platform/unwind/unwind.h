// Walking the calling thread's stack from inside malloc: no memory is allocated, no lock is taken.
//
// x86-64: by the call frame information of .eh_frame, which tells for each instruction how to find
// the caller's frame (DWARF 5, section 6.4; the System V ABI's supplement for x86-64, 3.7). The
// object that contains an address is found by glibc's _dl_find_object, which takes no lock and may
// be called in signal handlers. Before glibc 2.35 that function is missing, and a walk ends at
// once. The rule of each address is kept in a cache, so that a frame costs some nanoseconds.
//
// Other processors: by frame pointers.
//
// Any kind of damage ends the walk:
//   [inv.unwind-stack]  the stack is read between the stack pointer and the end of the known stack,
//                       and elsewhere by a system call that fails where there is no memory.
//   [inv.unwind-up]     each frame lies above the frame it called, except frames that a signal
//                       interrupted.
#pragma once

#include "platform/threads/thread.h"

namespace gleaner::platform {

// Stores the addresses of the calls under way, innermost first, and returns their number, at most
// `max`. A call's address is its return address minus one, so that it belongs to the call's source
// line. Innermost frames with addresses in `skip` are omitted. `stack` is the calling thread's
// stack if known, else empty. Any thread, at any time, also in signal handlers.
GLEANER_NOINLINE size_t CaptureStack(Range stack, Range skip, Addr* out, size_t max);

// The addresses of the shared object or program that contains this function; empty if unknown.
Range ThisObject();

// Makes the cache. Once, before other threads walk. The cache is in reserved memory of its own, so
// that a conservative scan does not see its words.
void InitUnwinder();

// Empties the cache. Called after an object was unloaded, since another may get its addresses.
void ForgetUnwindRules();

}  // namespace gleaner::platform
