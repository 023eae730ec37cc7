// Printing of pauses by part and stalls by cause (docs/reference/statistics.md).
#pragma once

#include "runtime/debug/printing.h"

namespace gleaner::runtime {

// pre: the collector lock is held, or the caller accepts half-updated figures of a collection under
// way.
void PrintLatency(Stream stream);

}  // namespace gleaner::runtime
