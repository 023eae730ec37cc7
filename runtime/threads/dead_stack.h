// Clearing of the words that returned calls have left below the stack pointer.
#pragma once

#include "platform/os/base.h"

namespace gleaner::runtime {

// Clears `bytes` of the stack below the caller's frame.
void ClearDeadStack(size_t bytes);
// Clears up to 16 KiB if the calling thread has allocated 64 KiB or more since its last clearing.
void ClearDeadStackIfDue();

}  // namespace gleaner::runtime
