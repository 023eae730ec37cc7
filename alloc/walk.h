// Walking the heap: every slot of every committed page.
//
// Takes no lock. With the world stopped a walk sees one state of the heap. While the world runs,
// threads change pages during the walk: a page is visited as it was at some instant, or with its
// old slots and its new state, and pages that are committed meanwhile may be left out.
#pragma once

#include "alloc/object.h"

namespace gleaner::alloc {

// Calls f(object) for each slot of the page, allocated or not. A large object that begins on the
// page counts as one slot; a page without objects has none. f may free the object.
template <class F>
void ForEachSlotOf(PageNumber page, const F& f) {
  const PageInfo& info = g_space.info[page];
  const bool small = info.state == PageState::kSmall;
  if (!small && info.state != PageState::kLarge) return;
  const size_t bytes = small ? info.slot_bytes : info.object_bytes;
  const uint32_t slots = small ? info.slot_count : 1;
  const Addr base = g_space.AddressOfPage(page);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    f(ObjectRef{base + slot * bytes, bytes, page, slot});
  }
}
// Calls f(object) for each slot of all committed pages.
template <class F>
void ForEachSlot(const F& f) {
  ForEachPage([&f](PageNumber page, const PageInfo&) { ForEachSlotOf(page, f); });
}

}  // namespace gleaner::alloc
