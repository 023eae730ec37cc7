// Printing of pauses by part and stalls by cause (docs/reference/statistics.md), and of the last
// collection.
#pragma once

#include "runtime/process/printing.h"

namespace gleaner::runtime {

// pre: the collector lock is held, or the caller accepts half-updated figures of a collection under
// way.
void PrintLatency(Stream stream);

// One or two lines to the log about the collection that has just ended. pre: the collector lock is
// held.
void PrintCollection();

}  // namespace gleaner::runtime
