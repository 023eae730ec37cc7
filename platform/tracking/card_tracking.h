// Write tracking by announcement: a byte for each 512 bytes of heap, a card.
//
// The mutator stores a pointer and then marks the card of the slot; the collector clears the mark
// and then scans the card.
//
//     mutator:    *slot = v;                card = 1 (release)
//     collector:  old = exchange(card, 0)   (acquire);  if old: scan the card
//     forbidden:  card stays 0 and no scan sees v
//
// In the modification order of the card, the mutator's 1 comes either after the exchange or before
// it. If after, the 1 stays for a later fetch. If before, the exchange, being a read-modify-write,
// reads this 1 or a later one; each of them heads a release sequence or belongs to one, so the
// exchange synchronises with the mutator's release, and the scan sees v. A plain load and a plain
// store of 0 would not do: the 0 could lie in the store buffer while the scan reads the slot early,
// and erase a 1 that came between. On x86 the mutator's release is a plain store.
//
// The exchange covers eight cards (4 KiB of heap) at once, each store one card. The argument holds
// for each byte: accesses to one byte are coherent whatever their width (x86: locked operations are
// atomic to all processors; ARMv8: mixed-size accesses are coherent byte by byte).
//
// The card of an address has the number (address / 512) & mask, so a barrier need not ask whether a
// slot lies in the heap: every address has a card, and the whole table is writable. The tracked
// range is no longer than the memory that the table covers, so no two places of the range share a
// card. A slot elsewhere shares its card with some place of the range, which is then scanned once
// more than needed.
//
// A forked child inherits the table, which lives as long as the tracker is open.
#pragma once

#include "platform/common/dirty_ranges.h"
#include "platform/faults/delays.h"
#include "platform/os/atomic.h"

namespace gleaner::platform {

inline constexpr unsigned kCardShift = 9;
inline constexpr size_t kCardBytes = size_t{1} << kCardShift;

class CardTracking {
 public:
  constexpr CardTracking() = default;

  // Takes 1/512 of `bytes`, rounded up to a power of two, in writable address space; only its
  // touched pages cost memory. False if the system refuses. Open and Close: no other thread uses
  // the tracker.
  [[nodiscard]] bool Open(Addr base, size_t bytes);
  void Close();

  // For the barrier in the program's stores. Constant while the tracker is open.
  uint8_t* table() const { return table_; }
  size_t mask() const { return mask_; }

  // Marks the card of an address in the range; ignores other addresses. Any thread.
  void MarkDirty(Addr address) {
    if (address - base_ >= bytes_) return;
    MaybeDelay();  // the pointer is stored, and its card is not marked yet
    // Release: pairs with the exchange in FetchAndRearm.
    __atomic_store_n(table_ + IndexOf(address), 1, __ATOMIC_RELEASE);
  }
  size_t FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context);

 private:
  size_t IndexOf(Addr address) const { return (address >> kCardShift) & mask_; }

  uint8_t* table_ = nullptr;
  size_t mask_ = 0;
  Addr base_ = 0;
  size_t bytes_ = 0;
};

}  // namespace gleaner::platform
