/* A program that never calls GC_init, as mmv, chase and others: the first allocation starts it. */
#include "check.h"

struct node {
  struct node *next;
  size_t number;
};

int main(void) {
  struct node *list = NULL;
  size_t i;
  CHECK(!GC_is_init_called());
  for (i = 0; i < 2000000; i++) {
    struct node *n = (struct node *)GC_malloc(sizeof *n);
    if (i == 0) CHECK(GC_is_init_called());
    n->next = i % 1000 ? list : NULL;
    n->number = i;
    list = n;
  }
  CHECK_GE(GC_get_gc_no(), 1);
  for (; list; list = list->next) CHECK_EQ(list->number, --i);
  CHECK_EQ(i, 1999000);
  return check_result();
}
