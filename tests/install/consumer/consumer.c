// A plain C program: makes garbage, keeps a list, collects, and writes a variable of the library.
#include <gc.h>
#include <stdio.h>

struct cell {
  struct cell* next;
  long value;
};

int main(void) {
  GC_dont_expand = 0;  // copy-relocated data
  GC_INIT();
  struct cell* list = NULL;
  for (long i = 0; i < 100000; i++) {
    struct cell* cell = GC_MALLOC(sizeof *cell);
    if (i % 100 == 0) {
      cell->next = list;
      cell->value = i;
      list = cell;
    }
  }
  GC_gcollect();
  long cells = 0, sum = 0;
  for (; list != NULL; list = list->next) {
    cells++;
    sum += list->value;
  }
  puts(cells == 1000 && sum == 49950000 && GC_get_gc_no() > 0 ? "consumer: ok" : "consumer: wrong");
  return 0;
}
