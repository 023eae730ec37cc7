// The program's part of card tracking (platform/tracking/card_tracking.h): the two words that its
// barrier reads, and the barrier for the library's own stores of pointers into objects.
//
// The two words, gleaner_card_table and gleaner_card_mask, change once: from a table of one card to
// the tracker's table. A thread that has read the old words and not yet marked its card has the
// stored pointer in a register or on its stack, at least until its next handshake. Marking begins
// only after the handshakes of all threads. So the pointer is a root of that cycle, and the slot
// was written before any object is scanned.
#pragma once

#include "gleaner.h"
#include "platform/os/base.h"

namespace gleaner::runtime {

// Switches the barrier to the tracker's cards. Called before the first cycle that uses cards; a
// later call has the same arguments. pre: the collector lock is held.
void UseCards(uint8_t* table, size_t mask);

// Relaxed: a thread that reads the old mask marks no card, which the head of this file shows to be
// safe.
inline bool UsesCards() { return __atomic_load_n(&gleaner_card_mask, __ATOMIC_RELAXED) != 0; }

// Marks the cards of [begin, begin + bytes) after the library has stored pointers there. The caller
// holds references to the objects they point to until after this call.
inline void MarkWritten(const void* begin, size_t bytes) {
  if (GLEANER_UNLIKELY(UsesCards())) gleaner_mark_cards(begin, bytes);
}

}  // namespace gleaner::runtime
