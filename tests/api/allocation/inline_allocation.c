/* The fast path of GC_malloc that is compiled into the program: by GC_MALLOC with constant sizes,
   and by the macros of gc_inline.h. Objects are new, zero, of their kind, kept and collected as
   those of GC_malloc are, on threads that come and go, block, and are not registered. */
#define GLEANER_INLINE_MALLOC
#include "check.h"
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

struct node {
  struct node *next;
  GC_word number;
  GC_word rest[4];
};

static struct node *make(struct node *next, GC_word number) {
  struct node *n = GC_NEW(struct node);
  CHECK_NULL(n->next);
  CHECK_EQ(n->number, 0);
  for (size_t i = 0; i < 4; i++) CHECK_EQ(n->rest[i], 0);
  n->next = next;
  n->number = number;
  memset(n->rest, 0x5a, sizeof n->rest);
  GC_end_stubborn_change(n);
  return n;
}

static void check_list(struct node *n, GC_word length) {
  for (; n != NULL; n = n->next) {
    CHECK_EQ(n->number, --length);
    CHECK_EQ(n->rest[3] & 0xff, 0x5a);
  }
  CHECK_EQ(length, 0);
}

#define ONE_SIZE(bytes)                                                                  \
  do {                                                                                   \
    unsigned char *p = (unsigned char *)GC_MALLOC(bytes);                                \
    unsigned char *q = (unsigned char *)GC_MALLOC_ATOMIC(bytes);                         \
    size_t one_size_i;                                                                   \
    CHECK_GE(GC_size(p), bytes);                                                         \
    CHECK_GE(GC_size(q), bytes);                                                         \
    CHECK_PTR(GC_base(p), p);                                                            \
    CHECK_PTR(GC_base(q), q);                                                            \
    CHECK_EQ((uintptr_t)p % 16, 0);                                                      \
    for (one_size_i = 0; one_size_i < (bytes); one_size_i++) CHECK_EQ(p[one_size_i], 0); \
    memset(p, 0xee, bytes);                                                              \
    memset(q, 0xee, bytes);                                                              \
    if (on_gleaner()) {                                                                  \
      CHECK_EQ(GC_get_kind_and_size(p, NULL), GC_I_NORMAL);                              \
      CHECK_EQ(GC_get_kind_and_size(q, NULL), GC_I_PTRFREE);                             \
    }                                                                                    \
  } while (0)

static void sizes(void) {
  for (int round = 0; round < 3000; round++) {
    ONE_SIZE(1);
    ONE_SIZE(8);
    ONE_SIZE(16);
    ONE_SIZE(17);
    ONE_SIZE(32);
    ONE_SIZE(48);
    ONE_SIZE(64);
    ONE_SIZE(80);
    ONE_SIZE(96);
    ONE_SIZE(112);
    ONE_SIZE(113);
    ONE_SIZE(128);
    ONE_SIZE(129);
    ONE_SIZE(1000);
    if (round % 1000 == 999) GC_gcollect();
  }
  CHECK(GC_MALLOC(0) != NULL);
}

static void *lists(void *arg) {
  GC_word i;
  for (int round = 0; round < 20; round++) {
    struct node *list = NULL;
    void *tiny[GC_TINY_FREELISTS];
    void *pairs = NULL, *pair;
    GC_word *words;
    memset(tiny, 0, sizeof tiny);
    for (i = 0; i < 3000; i++) {
      list = make(list, i);
      if (on_gleaner()) {
        GC_CONS(pair, (void *)(i * 2 + 1), pairs, tiny);
        pairs = pair;
      }
      GC_MALLOC_WORDS(words, 7, tiny);
      CHECK_EQ(words[0], 0);
      CHECK_EQ(words[6], 0);
      memset(words, 0xee, 7 * sizeof *words);
      if (gleaner_offers_bump()) { /* the chain of a pointer-free list would not outlive a
                                      collection */
        GC_MALLOC_ATOMIC_WORDS(words, 5, tiny);
        memset(words, 0xee, 5 * sizeof *words);
      }
    }
    check_list(list, 3000);
    /* With interior pointers libgc does not search the last word of a pair. */
    if (on_gleaner()) {
      for (; pairs != NULL; pairs = ((void **)pairs)[1])
        CHECK_EQ(((GC_word *)pairs)[0], --i * 2 + 1);
      CHECK_EQ(i, 0);
    }
  }
  return NULL;
}

/* Inside a blocking section the path is closed: the call ends the section. */
static void *allocate_blocked(void *arg) {
  struct node **list = (struct node **)arg;
  if (on_gleaner()) {
    for (GC_word i = 0; i < 1000; i++) *list = make(*list, i);
  }
  return NULL;
}

static void blocking(void) {
  static struct node *list;
  GC_do_blocking(allocate_blocked, &list);
  GC_gcollect();
  if (on_gleaner()) check_list(list, 1000);
  list = NULL;
}

static void *short_life(void *arg) {
  *(struct node **)arg = make(make(NULL, 0), 1);
  return NULL;
}

static void short_threads(void) {
  static struct node *last[64];
  for (size_t i = 0; i < 64; i++) run_in_thread(short_life, &last[i]);
  GC_gcollect();
  for (size_t i = 0; i < 64; i++) check_list(last[i], 2);
  memset(last, 0, sizeof last);
}

static size_t gone;
static void GC_CALLBACK count_gone(void *object, void *data) { gone++; }
static void *make_garbage(void *arg) {
  for (size_t i = 0; i < 1000; i++)
    GC_REGISTER_FINALIZER_NO_ORDER(make(NULL, i), count_gone, NULL, NULL, NULL);
  return NULL;
}

int main(void) {
  GC_INIT();
  GC_allow_register_threads();
  /* The word is the library's: the path is in use. Without it the checks below are of calls. */
#ifdef GLEANER_HAS_BUMP
  if (on_gleaner()) {
    void *object;
    size_t fast = 0, i;
    CHECK(gleaner_offers_bump());
    for (i = 0; i < 10000; i++) {
      if (gleaner_try_bump(2, GC_I_NORMAL, &object)) {
        fast++;
        CHECK_NULL(((void **)object)[3]);
      } else {
        CHECK(GC_malloc(32) != NULL);
      }
    }
    CHECK_GE(fast, 9500);
    CHECK(!gleaner_try_bump(0, GC_I_NORMAL, &object));
    CHECK(!gleaner_try_bump(GLEANER_BUMP_GRANULES + 1, GC_I_NORMAL, &object));
    CHECK(!gleaner_try_bump(1, GLEANER_BUMP_KINDS, &object));
    CHECK(!gleaner_try_bump(1, -1, &object));
  } else {
    CHECK(!gleaner_offers_bump());
  }
#endif
  sizes();
  lists(NULL);
  run_in_threads(4, lists, NULL, 30);
  blocking();
  short_threads();
  run_in_thread(make_garbage, NULL);
  collect();
  GC_invoke_finalizers();
  CHECK_MOSTLY(gone, 1000);
  return check_result();
}
