// The fast path of GC_malloc that programs compile in (include/gleaner/gc/gc_bump.h):
// docs/reference/fibers.md.
#pragma once

namespace gleaner::runtime {

// Offers the path to programs, unless their small objects are not to come from it: if the size
// classes are wider than usual, or another object of the process has taken GC_malloc's place.
// Called once, by Init, after the size classes are settled.
void OfferInlineAllocation();

}  // namespace gleaner::runtime
