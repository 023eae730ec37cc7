// The program's space of card tracking (platform/card_tracking.h): the words that its barrier uses,
// and the library's own stores of pointers into objects.
//
// The words change once, from a table of one card to the tracker's. A thread that has read the old
// ones and not yet marked its card has the value in a register or on its stack. It stays there at
// least until the thread's next handshake, and no marker begins before all threads have had theirs:
// the value is a root of that cycle, and the slot was written before anything was scanned.
#pragma once

#include "gleaner.h"
#include "platform/base.h"

namespace gleaner::runtime {

// Once, before a cycle starts.
void UseCards(uint8_t* table, size_t mask);

// Relaxed: without cards nobody asks for them, and with them see above.
inline bool UsesCards() { return __atomic_load_n(&gleaner_card_mask, __ATOMIC_RELAXED) != 0; }

// The library has stored pointers in [begin, begin + bytes) of an object. The caller holds
// references to what they point to, beyond this call.
inline void NoteWritten(const void* begin, size_t bytes) {
  if (GLEANER_UNLIKELY(UsesCards())) gleaner_mark_cards(begin, bytes);
}

}  // namespace gleaner::runtime
