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
//
// The card of an address is number (address / 512) & mask, so that a barrier need not ask whether a
// slot lies in the heap: every address has a card, all of the table is writable, and the tracked
// range is no longer than what the table covers, so that no two places of it share a card. A slot
// elsewhere shares that of some place of the range, which is then scanned once more than needed.
//
// The table is inherited by a forked child, and lives as long as the tracker is open.
#pragma once

#include "platform/atomic.h"
#include "platform/delays.h"
#include "platform/dirty_ranges.h"

namespace gleaner::platform {

inline constexpr unsigned kCardShift = 9;
inline constexpr size_t kCardBytes = size_t{1} << kCardShift;

class CardTracking {
 public:
  constexpr CardTracking() = default;

  // Needs 1/512 of `bytes`, rounded up to a power of two, in writable address space, of which only
  // what is touched becomes memory. False if the system refuses it.
  [[nodiscard]] bool Open(Addr base, size_t bytes);
  void Close();

  // For the program's own stores. Constant while the tracker is open.
  uint8_t* table() const { return table_; }
  size_t mask() const { return mask_; }

  // Ignores addresses outside of the range.
  void MarkDirty(Addr address) {
    if (address - base_ >= bytes_) return;
    MaybeDelay();  // the pointer is stored, and its card not yet marked
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
