// The start of the runtime: of all that there is below (kWholeRuntime).
#pragma once

namespace gleaner::runtime {

// Init that does not abort: false, and nothing is usable, if the system refuses the minimum of
// address space. pre: the first call of all, with no other thread inside the library.
[[nodiscard]] bool TryInit();

// Offers the fast path of GC_malloc that programs compile in (docs/reference/extensions.md), unless
// their small objects are not to come from it: if the size classes are wider than usual, or another
// object of the process has taken GC_malloc's place. Called once, by the start, after the size
// classes are settled.
void OfferInlineAllocation();

}  // namespace gleaner::runtime
