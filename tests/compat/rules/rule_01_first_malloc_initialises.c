/* Rule 1: the first GC_malloc initialises, without GC_init; GC_init again is a no-op, 20,000 times
   (homfly). */
#include "check.h"

struct node {
  struct node *next;
  size_t number;
};

int main(void) {
  struct node *list = NULL;
  GC_word collections;
  size_t i, heap;
  CHECK_EQ(GC_is_init_called(), 0);
  for (i = 0; i < 1000; i++) {
    struct node *n = GC_NEW(struct node);
    CHECK(n != NULL && n->next == NULL && n->number == 0);
    n->next = list;
    n->number = i;
    list = n;
  }
  CHECK(GC_is_init_called());
  collections = GC_get_gc_no();
  heap = GC_get_heap_size();
  for (i = 0; i < 20000; i++) {
    GC_INIT();
    GC_init();
  }
  CHECK_EQ(GC_get_gc_no(), collections);
  CHECK_EQ(GC_get_heap_size(), heap);
  GC_gcollect();
  for (i = 1000; list != NULL; list = list->next) CHECK_EQ(list->number, --i);
  CHECK_EQ(i, 0);
  return check_result();
}
