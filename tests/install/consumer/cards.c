// What a program that may also run on Debian's libgc defines for the barrier: no conflict with the
// library's own, static or shared, and the one that the library changes.
#include <gc.h>
#include <gleaner.h>
#include <stdio.h>

GLEANER_DEFINE_CARDS;

int main(void) {
  GC_INIT();
  GC_set_manual_vdb_allowed(1);
  GC_enable_incremental();
  void** slot = GC_MALLOC(sizeof *slot);
  GLEANER_STORE(slot, (void*)slot);
  const uintptr_t card = ((uintptr_t)slot >> GLEANER_CARD_SHIFT) & gleaner_card_mask;
  puts(gleaner_card_mask != 0 && gleaner_card_table[card] == 1 ? "consumer: ok"
                                                               : "consumer: wrong");
  return 0;
}
