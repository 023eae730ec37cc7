/* Opened by the program of rule 21: what holds while it is. */
#include <gc.h>

int disabled_while_opened, collected_while_opened;

__attribute__((constructor)) static void look(void) {
  GC_word before = GC_get_gc_no();
  disabled_while_opened = GC_is_disabled();
  GC_gcollect();
  collected_while_opened = GC_get_gc_no() != before;
}
