// Walking the heap: every committed page, every slot.
//
// Takes no lock. With the world stopped a walk sees one state of the heap. While it runs, threads
// change pages on the way: a page is visited as it was at some instant, or with the slots of before
// and the state of after, and pages that are committed meanwhile may be left out.
#pragma once

#include "alloc/object.h"

namespace gleaner::alloc {

inline size_t CommittedPages(Space space) { return EndCommitted(space) - FirstCommitted(space); }
inline size_t CommittedPages() {
  return CommittedPages(Space::kScanned) + CommittedPages(Space::kPointerFree);
}

// Calls f(page, info) for each committed page of the space, or of both, upwards.
template <class F>
void ForEachPage(Space space, const F& f) {
  const PageNumber end = EndCommitted(space);
  for (PageNumber page = FirstCommitted(space); page < end; ++page) f(page, g_space.info[page]);
}
template <class F>
void ForEachPage(const F& f) {
  ForEachPage(Space::kScanned, f);
  ForEachPage(Space::kPointerFree, f);
}

// Calls f(object) for each slot of the page, allocated or not: one if a large object begins there,
// none if the page holds no objects. f may give the object back.
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
// The same for all committed pages.
template <class F>
void ForEachSlot(const F& f) {
  ForEachPage([&f](PageNumber page, const PageInfo&) { ForEachSlotOf(page, f); });
}

}  // namespace gleaner::alloc
