// The mappings of the process, as the system lists them. Allocates nothing; for the collecting
// thread, also with the world stopped.
#pragma once

#include "platform/thread.h"

namespace gleaner::platform {

// Calls f(context, range) for each private mapping that may be read and written. False if the
// system's list cannot be read.
[[nodiscard]] bool VisitPrivateWritableMappings(void (*f)(void* context, Range range),
                                                void* context);

// Calls f(context, part) for the parts of a range that were ever touched, as far as the system
// says: what was not reads as zero, and reading it would cost memory. Parts that are near each
// other are joined.
void VisitTouched(Range range, void (*f)(void* context, Range part), void* context);

}  // namespace gleaner::platform
