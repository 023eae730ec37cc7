// The collector's state in words, to standard output (GC_dump): for people, not for programs.
//
// pre of all: the collector lock is held, or no other thread runs. Other threads may allocate
// meanwhile, so figures of their pages are approximate.
#pragma once

#include "alloc/page.h"

namespace gleaner::runtime {

// All of the following under a name; null: the number of the last collection.
void DumpState(const char* name);

// Each run of equal pages with its addresses.
void DumpRegions();
// Registered links and finalizers.
void DumpFinalization();
// The free slots of pages with such a kind and slot size.
void DumpFreeSlots(alloc::Kind kind, size_t slot_bytes);

}  // namespace gleaner::runtime
