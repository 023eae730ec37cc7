// Pauses by their parts and stalls by their causes, for people (docs/latency.md).
#pragma once

#include "runtime/printing.h"

namespace gleaner::runtime {

// pre: the collector lock is held, or nobody minds figures of a collection that is under way.
void PrintLatency(Stream stream);

}  // namespace gleaner::runtime
