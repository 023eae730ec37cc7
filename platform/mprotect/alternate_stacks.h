// Alternate signal stacks under mprotect tracking.
//
// If the program's SIGSEGV handler asks for the alternate stack, the faults of write tracking use
// that stack, too, and they are frequent. An alternate stack that lies in its own thread's stack,
// for example in the frame of a function that has returned, is harmless in a program that never
// faults. Under tracking the handler would write over frames in use there. So the library replaces
// such a stack by memory of its own.
#pragma once

#include "platform/common/range.h"

namespace gleaner::platform {

// If the stack lies in `own_stack`, the calling thread's stack, replaces it by memory of the
// library that is at least as large. Returns whether it has. The memory belongs to the thread until
// the thread ends; then another thread may get it. Async-signal-safe.
bool MoveOffOwnStack(void** base, size_t* bytes, Range own_stack);

}  // namespace gleaner::platform
