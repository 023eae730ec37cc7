/* Rule 9: the macros of gc_inline.h and what copies of them in programs rely on: granules of 16
   bytes, 25 lists, kinds 0 and 1, lists linked through word 0, objects otherwise zero, and the
   out-of-memory function when there is nothing. Once as guile has it, with all_interior_pointers 0,
   and once with 1. */
#include <sys/wait.h>

#include "check.h"
#include "gc_inline.h"

static void *lists[2][GC_TINY_FREELISTS];
static void *kept[2][1000];
static size_t granules_of(size_t i) { return i % (GC_TINY_FREELISTS + 3); }

static void *by_default(size_t granules, int kind) {
  return kind == GC_I_PTRFREE ? GC_malloc_atomic(granules * GC_GRANULE_BYTES)
                              : GC_malloc(granules * GC_GRANULE_BYTES);
}

static void macros(size_t direct) {
  int kind;
  size_t i, j;
  for (kind = 0; kind < 2; kind++) {
    /* The chain of a pointer-free list would not outlive a collection (rule 10). */
    GC_disable();
    for (i = 0; i < 1000; i++) {
      size_t granules = granules_of(i), bytes = granules * GC_GRANULE_BYTES;
      void *p, **words;
      if (kind == GC_I_NORMAL) {
        GC_FAST_MALLOC_GRANS(p, granules, lists[1], direct, GC_I_NORMAL, by_default(granules, 1),
                             *(void **)p = NULL);
        words = (void **)p;
        for (j = 0; j < bytes / sizeof *words; j++) CHECK_NULL(words[j]);
      } else {
        GC_FAST_MALLOC_GRANS(p, granules, lists[0], direct, GC_I_PTRFREE, by_default(granules, 0),
                             (void)0);
      }
      CHECK(p != NULL);
      CHECK_GE(GC_size(p), bytes);
      CHECK_PTR(GC_base(p), p);
      CHECK_EQ((uintptr_t)p % GC_GRANULE_BYTES, 0);
      memset(p, (int)i, bytes);
      kept[kind][i] = p;
    }
    memset(lists[0], 0, sizeof lists[0]);
    GC_enable();
    GC_gcollect();
    for (i = 0; i < 1000; i++) {
      size_t bytes = granules_of(i) * GC_GRANULE_BYTES;
      for (j = 0; j < bytes; j++) CHECK_EQ(((unsigned char *)kept[kind][i])[j], (unsigned char)i);
    }
    memset(kept, 0, sizeof kept);
  }
}

static void pairs(void) {
  static void *pair_lists[GC_TINY_FREELISTS];
  void *list = NULL;
  size_t i;
  for (i = 0; i < 20000; i++) {
    void *pair;
    GC_CONS(pair, (void *)(i * 2 + 1), list, pair_lists);
    CHECK(pair != NULL);
    list = pair;
    if (i % 5000 == 0) GC_gcollect();
  }
  for (; list != NULL; list = ((void **)list)[1]) CHECK_EQ(((GC_word *)list)[0], --i * 2 + 1);
  CHECK_EQ(i, 0);
}

/* Sizes come rounded to whole granules. */
static void many(void) {
  size_t granules;
  int kind;
  for (kind = 0; kind < 2; kind++) {
    for (granules = 1; granules < GC_TINY_FREELISTS; granules++) {
      size_t bytes = GC_RAW_BYTES_FROM_INDEX(granules), count = 0, j;
      void *list = NULL, *p;
      GC_generic_malloc_many(bytes, kind, &list);
      CHECK(list != NULL);
      for (p = list; p != NULL && count < 100000; p = *(void **)p, count++) {
        CHECK_GE(GC_size(p), bytes);
        CHECK_PTR(GC_base(p), p);
        for (j = 1; kind == GC_I_NORMAL && j < bytes / sizeof(void *); j++)
          CHECK_NULL(((void **)p)[j]);
      }
      CHECK_GE(count, 1);
      CHECK_LE(count, 100000);
    }
  }
}

static size_t asked;
static char emergency[16];
static void *GC_CALLBACK out_of_memory(size_t bytes) {
  asked = bytes;
  return emergency;
}

static void exhausted(void) {
  void *chain = NULL;
  size_t i;
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_set_oom_fn(out_of_memory);
  GC_set_max_heap_size(GC_get_heap_size() + (4 << 20));
  for (i = 0; i < 10000000 && asked == 0; i++) {
    void *p;
    GC_FAST_MALLOC_GRANS(p, (size_t)4, lists[1], 0, GC_I_NORMAL, NULL, *(void **)p = NULL);
    if (p == emergency) break;
    *(void **)p = chain;
    chain = p;
  }
  CHECK_EQ(asked, 4 * GC_GRANULE_BYTES);
  GC_reachable_here(chain);
}

static void all(int all_interior_pointers) {
  void *(*malloc_by_address)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "GC_malloc");
  GC_set_all_interior_pointers(all_interior_pointers);
  GC_INIT();
  CHECK(malloc_by_address == GC_malloc);
  CHECK_GE(GC_size(malloc_by_address(40)), 40);
  macros(0);
  macros(20);
  /* With 1, libgc does not search the last word of such an object: it takes it for the padding. */
  if (!all_interior_pointers || on_gleaner()) pairs();
  many();
  exhausted();
}

int main(void) {
  int status = 0;
  pid_t child;
  CHECK_EQ(GC_GRANULE_BYTES, 16);
  CHECK_EQ(GC_GRANULE_WORDS, 2);
  CHECK_EQ(GC_TINY_FREELISTS, 25);
  CHECK_EQ(GC_I_PTRFREE, 0);
  CHECK_EQ(GC_I_NORMAL, 1);
  child = fork();
  if (child == 0) {
    all(1);
    _exit(check_result());
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  all(0);
  return check_result();
}
