/* A program that never calls GC_init, as mmv, chase and others: whatever the first call is, it
   starts the library. Rule 1. */
#include "check.h"

static void *by_malloc(void) { return GC_malloc(10); }
static void *by_malloc_atomic(void) { return GC_malloc_atomic(10); }
static void *by_large_malloc(void) { return GC_malloc(1000000); }
static void *by_uncollectable(void) { return GC_malloc_uncollectable(10); }
static void *by_realloc(void) { return GC_realloc(NULL, 10); }
static void *by_strdup(void) { return GC_strdup("text"); }
static void *by_memalign(void) { return GC_memalign(64, 10); }
static void *by_ignore_off_page(void) { return GC_malloc_ignore_off_page(200000); }
static void *by_collecting(void) {
  GC_gcollect();
  return GC_malloc(10);
}
static void *by_expanding(void) {
  CHECK_EQ(GC_expand_hp(1 << 20), 1);
  return GC_malloc(10);
}

static void call_first(void *call) {
  void *volatile object = (*(void *(**)(void))call)();
  CHECK(object != NULL);
  CHECK(GC_base(object) != NULL);
  GC_gcollect();
}

struct node {
  struct node *next;
  size_t number;
};

int main(void) {
  static void *(*first[])(void) = {
      by_malloc, by_malloc_atomic, by_large_malloc,    by_uncollectable, by_realloc,
      by_strdup, by_memalign,      by_ignore_off_page, by_collecting,    by_expanding};
  struct node *list = NULL;
  size_t i;
  for (i = 0; i < COUNT_OF(first); i++) CHECK_IN_CHILD(call_first, &first[i]);
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
