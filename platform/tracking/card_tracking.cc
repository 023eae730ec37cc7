#include "platform/tracking/card_tracking.h"

#include <bit>

#include "platform/os/memory.h"

namespace gleaner::platform {

namespace {

// The cards of one tracked page.
using CardWord = uint64_t;
static_assert(kTrackedPageBytes == sizeof(CardWord) * kCardBytes);

}  // namespace

bool CardTracking::Open(Addr base, size_t bytes) {
  const size_t cards = std::bit_ceil(AlignUp(bytes >> kCardShift, OsPageBytes()));
  void* table = ReserveZeroes(cards);
  if (table == nullptr) return false;
  if (!Commit(table, cards)) {
    Release(table, cards);
    return false;
  }
  table_ = static_cast<uint8_t*>(table);
  mask_ = cards - 1;
  base_ = base;
  bytes_ = bytes;
  return true;
}

void CardTracking::Close() {
  if (table_ != nullptr) Release(table_, mask_ + 1);
  *this = {};
}

size_t CardTracking::FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context) {
  DirtyRanges dirty(visit, context);
  for (Addr page = begin; page < end; page += kTrackedPageBytes) {
    auto* word = reinterpret_cast<CardWord*>(table_ + IndexOf(page));
    // Relaxed: a mark that this load does not see stays for the next fetch.
    if (__atomic_load_n(word, __ATOMIC_RELAXED) == 0) continue;
    CountAtomicRmw();
    // Acquire: pairs with the release in MarkDirty. An exchange, because a plain load and store
    // could lose a mark (card_tracking.h).
    CardWord marks = __atomic_exchange_n(word, CardWord{0}, __ATOMIC_ACQUIRE);
    MaybeDelay();
    // The byte at the lowest address is the first card of the page on little-endian machines.
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    for (; marks != 0; marks &= marks - 1) {
      const auto card = static_cast<size_t>(__builtin_ctzll(marks)) / 8;
      dirty.Add(page + card * kCardBytes, page + (card + 1) * kCardBytes);
    }
  }
  return dirty.Finish();
}

}  // namespace gleaner::platform
