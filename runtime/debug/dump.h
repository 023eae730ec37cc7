// The collector's state in words, to standard output (GC_dump): for people, not for programs.
//
// pre of all: the collector lock is held, or no other thread runs. Other threads may allocate
// during a dump, so figures of their pages are approximate.
#pragma once

#include "alloc/page.h"

namespace gleaner::runtime {

// Roots, heap, use, finalization counts and latency, under the heading `name`; null: the number of
// the last collection.
void DumpState(const char* name);

// Address range of each run of pages that are alike.
void DumpRegions();
// All registered links and finalizers.
void DumpFinalization();
// The free slots of pages with this kind and slot size.
void DumpFreeSlots(alloc::Kind kind, size_t slot_bytes);

}  // namespace gleaner::runtime
