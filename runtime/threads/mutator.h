// What a thread does that is about to use the heap.
#pragma once

#include "runtime/threads/threads.h"

namespace gleaner::runtime {

// Makes the calling thread a mutator with a heap; starts the runtime first if need be. False
// without memory. Cheap for a thread that is a mutator already.
bool AttachThread();
// AttachThread for a caller that is about to use the heap: a blocking section ends, too
// (DoBlocking).
bool AttachToHeap();

// Clears up to 16 KiB of the words that returned calls have left below the stack pointer, if the
// calling thread has allocated 64 KiB or more since its last clearing.
void ClearDeadStackIfDue();

}  // namespace gleaner::runtime
