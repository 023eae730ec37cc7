// Alternate signal stacks under mprotect tracking.
//
// Where a program's handler of SIGSEGV asks for the alternate stack, the faults that we cause come
// there, too, and come often. One that lies in the stack of its own thread, in the frame of a
// function that has returned, say, is harmless to a program that never faults, and would now be
// written over frames in use. So memory of ours takes the place of such a stack.
#pragma once

#include "platform/memory.h"

namespace gleaner::platform {

// Puts memory of ours, at least as large, in the place of a stack that lies in `own_stack`, the
// calling thread's. True if it has. The memory is the thread's until it ends, and another's then.
// Async-signal-safe.
bool MoveOffOwnStack(void** base, size_t* bytes, Range own_stack);

}  // namespace gleaner::platform
