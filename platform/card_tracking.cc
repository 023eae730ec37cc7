#include "platform/card_tracking.h"

namespace gleaner::platform {

namespace {

// The cards of one tracked page.
using CardWord = uint64_t;
static_assert(kTrackedPageBytes == sizeof(CardWord) * kCardBytes);

}  // namespace

size_t CardTracking::FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context) {
  DirtyRanges dirty(visit, context);
  auto* words = reinterpret_cast<CardWord*>(cards_.data() + cards_.IndexOf(begin));
  for (Addr page = begin; page < end; page += kTrackedPageBytes, ++words) {
    // Relaxed: a mark that is not seen yet stays for the next fetch.
    if (__atomic_load_n(words, __ATOMIC_RELAXED) == 0) continue;
    CountAtomicRmw();
    // Acquire: pairs with MarkDirty. Not a plain load and store; see the head of the header.
    CardWord marks = __atomic_exchange_n(words, CardWord{0}, __ATOMIC_ACQUIRE);
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
