// The report of leaks: when it is printed, and its form.
#pragma once

#include "platform/os/base.h"

namespace gleaner::malloc_proxy {

// Whether GLEANER_LEAKS is set and the memory for its tables was available. Constant after the
// start of the process's malloc.
bool ReportsLeaks();

// Once, at the start, after Collecting::Start: reads the options and the suppressions.
void PrepareLeakReport();

}  // namespace gleaner::malloc_proxy
