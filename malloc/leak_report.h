// The report of leaks: when the process exits, and in which form.
#pragma once

#include "platform/base.h"

namespace gleaner::malloc_proxy {

// GLEANER_LEAKS. Known from the start on; false, too, if its tables could not be had.
bool ReportsLeaks();

// Once, at the start, after Collecting::Start: takes the options, reads the suppressions.
void PrepareLeakReport();

}  // namespace gleaner::malloc_proxy
