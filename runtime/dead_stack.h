// Words that ended calls have left below the stack pointer.
#pragma once

#include "platform/base.h"

namespace gleaner::runtime {

// Clears what earlier calls left in the stack below the caller's frame.
void ClearDeadStack(size_t bytes);
// The same, of a part that is enough, if the thread has allocated much since the last time.
void ClearDeadStackIfDue();

}  // namespace gleaner::runtime
