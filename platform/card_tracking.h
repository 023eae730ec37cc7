// Write tracking by announcement: a byte for each 512 bytes of heap, a card.
//
// The mutator stores a pointer and then marks the card of the slot; the collector takes the marks
// away and then scans.
//
//     mutator:    *slot = v;                card = 1 (release)
//     collector:  old = exchange(card, 0)   (acquire);  if old: scan the card
//     forbidden:  card stays 0 and no scan sees v
//
// In the order of modifications of the card, either the mutator's 1 comes after the exchange: then
// it stays for a later fetch. Or it comes before: then the exchange, being a read-modify-write,
// reads it or something later, all of them 1 and the heads of release sequences or parts of them:
// it synchronises with the mutator's release, and the scan sees v. A plain load and a plain store
// of 0 would not do: the 0 could lie in the store buffer while the scan reads the slot early, and
// wipe out a 1 that came between. On x86 the mutator's release is a plain store.
//
// The exchange takes eight cards (4 KiB of heap) at once, the stores one. Per byte the argument is
// the same: accesses to one byte are coherent whatever their width (x86: locked operations are
// atomic to all; ARMv8: mixed-size accesses are, byte by byte).
#pragma once

#include "platform/dirty_ranges.h"
#include "platform/side_table.h"

namespace gleaner::platform {

inline constexpr unsigned kCardShift = 9;
inline constexpr size_t kCardBytes = size_t{1} << kCardShift;

class CardTracking {
 public:
  constexpr CardTracking() = default;

  [[nodiscard]] bool Open(Addr base, size_t bytes) {
    return cards_.Reserve(base, bytes, kCardShift);
  }
  void Close() { cards_.Release(); }
  [[nodiscard]] bool CoverUpTo(Addr end) { return cards_.CoverUpTo(end); }

  void MarkDirty(Addr address) {
    // Release: pairs with the exchange in FetchAndRearm.
    if (cards_.Covers(address)) {
      cards_[cards_.IndexOf(address)].Store(1, memory_order_release);
    }
  }
  size_t FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context);

 private:
  SideTable<Atomic<uint8_t>> cards_;
};

}  // namespace gleaner::platform
