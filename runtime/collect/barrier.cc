#include "runtime/collect/barrier.h"

#include "platform/faults/delays.h"

extern "C" {

GLEANER_DEFINE_CARDS;

void gleaner_mark_cards(const void* begin, size_t bytes) {
  if (bytes == 0) return;
  constexpr gleaner::Addr kCard = gleaner::Addr{1} << GLEANER_CARD_SHIFT;
  const gleaner::Addr first = gleaner::AlignDown(gleaner::AddressOf(begin), kCard);
  const size_t cards = (gleaner::AddressOf(begin) + bytes - 1 - first) / kCard + 1;
  // Card indices wrap: marking as many cards as the table has marks all of them. Acquire: pairs
  // with UseCards.
  const size_t all = __atomic_load_n(&gleaner_card_mask, __ATOMIC_ACQUIRE) + 1;
  for (size_t i = 0; i < cards && i < all; ++i) {
    gleaner_mark_card(gleaner::PointerAt<void>(first + i * kCard));
  }
}

}  // extern "C"

namespace gleaner::runtime {

void UseCards(uint8_t* table, size_t mask) {
  // Release, both; they pair with the acquire loads of the mask in the barrier. The table's zeroes
  // come before its address, and the address before the mask.
  __atomic_store_n(&gleaner_card_table, table, __ATOMIC_RELEASE);
  platform::MaybeDelay();
  __atomic_store_n(&gleaner_card_mask, mask, __ATOMIC_RELEASE);
}

}  // namespace gleaner::runtime
