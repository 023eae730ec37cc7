/* Lists of objects that a program holds and takes its objects from: the macros of gc_inline.h and
   what copies of them in programs rely on (granules of 16 bytes, 25 lists, kinds 0 and 1, lists
   linked through word 0, objects otherwise zero, the out-of-memory function when there is nothing),
   GC_generic_malloc_many and GC_malloc_many. The objects on such a list live only by being traced:
   normal ones through word 0, pointer-free ones because a mark procedure walks the chain and marks
   each in an unbounded loop, as guile's does. Rules 9, 10. */
#include "check.h"

#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

enum { kBytes = 48, kChain = 20000 };

static void constants(void) {
  CHECK_EQ(GC_GRANULE_BYTES, 16);
  CHECK_EQ(GC_GRANULE_WORDS, 2);
  CHECK_EQ(GC_TINY_FREELISTS, 25);
  CHECK_EQ(GC_I_PTRFREE, 0);
  CHECK_EQ(GC_I_NORMAL, 1);
  CHECK_EQ(GC_RAW_BYTES_FROM_INDEX(3), 48);
}

static void *lists[2][GC_TINY_FREELISTS];
static void *kept[1000];
static size_t granules_of(size_t i) { return i % (GC_TINY_FREELISTS + 3); }

static void *by_default(size_t granules, int kind) {
  return kind == GC_I_PTRFREE ? GC_malloc_atomic(granules * GC_GRANULE_BYTES)
                              : GC_malloc(granules * GC_GRANULE_BYTES);
}

static void macros(size_t direct) {
  for (int kind = 0; kind < 2; kind++) {
    GC_disable(); /* the chain of a pointer-free list would not outlive a collection */
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
      size_t granules = granules_of(i), bytes = granules * GC_GRANULE_BYTES;
      void *p, **words;
      if (kind == GC_I_NORMAL) {
        GC_FAST_MALLOC_GRANS(p, granules, lists[1], direct, GC_I_NORMAL, by_default(granules, 1),
                             *(void **)p = NULL);
        words = (void **)p;
        for (size_t j = 0; j < bytes / sizeof *words; j++) CHECK_NULL(words[j]);
      } else {
        GC_FAST_MALLOC_GRANS(p, granules, lists[0], direct, GC_I_PTRFREE, by_default(granules, 0),
                             (void)0);
      }
      CHECK(p != NULL);
      CHECK_GE(GC_size(p), bytes);
      CHECK_PTR(GC_base(p), p);
      CHECK_EQ((uintptr_t)p % GC_GRANULE_BYTES, 0);
      memset(p, (int)i, bytes);
      kept[i] = p;
    }
    memset(lists[0], 0, sizeof lists[0]);
    GC_enable();
    GC_gcollect();
    for (size_t i = 0; i < COUNT_OF(kept); i++)
      for (size_t j = 0; j < granules_of(i) * GC_GRANULE_BYTES; j++)
        CHECK_EQ(((unsigned char *)kept[i])[j], (unsigned char)i);
    memset(kept, 0, sizeof kept);
  }
}

static void pairs(void) {
  static void *pair_lists[GC_TINY_FREELISTS];
  void *list = NULL;
  size_t i;
  for (i = 0; i < 100000; i++) {
    void *pair, *words;
    GC_CONS(pair, (void *)(i * 2 + 1), list, pair_lists);
    CHECK(pair != NULL);
    list = pair;
    GC_MALLOC_WORDS(words, 4, pair_lists);
    CHECK(words != NULL && ((GC_word *)words)[0] == 0 && ((GC_word *)words)[3] == 0);
    memset(words, 0xee, 4 * sizeof(GC_word));
    if (i % 25000 == 0) GC_gcollect();
  }
  for (; list != NULL; list = ((void **)list)[1]) CHECK_EQ(((GC_word *)list)[0], --i * 2 + 1);
  CHECK_EQ(i, 0);
}

/* Its length, if all words but the first are zero. */
static size_t length(void *list, size_t words) {
  size_t n = 0, i, dirty = 0;
  for (; list != NULL && n <= 100000; list = *(void **)list, n++)
    for (i = 1; i < words; i++) dirty += ((GC_word *)list)[i] != 0;
  return dirty ? 0 : n;
}

void *list; /* not static: the compiler would drop stores nobody reads */

/* Sizes come rounded to whole granules. */
static void many(void) {
  for (int kind = 0; kind < 2; kind++)
    for (size_t granules = 1; granules < GC_TINY_FREELISTS; granules++) {
      const size_t bytes = GC_RAW_BYTES_FROM_INDEX(granules);
      list = NULL;
      GC_generic_malloc_many(bytes, kind, &list);
      CHECK_GE(length(list, kind == GC_I_NORMAL ? 2 * granules : 1), 1);
      CHECK_LE(length(list, 1), 100000);
      for (void *p = list; p != NULL; p = *(void **)p) {
        CHECK_GE(GC_size(p), bytes);
        CHECK_PTR(GC_base(p), p);
        CHECK_EQ(GC_get_kind_and_size(p, NULL), kind);
      }
    }
  GC_generic_malloc_many(100000, GC_I_NORMAL, &list); /* a large one */
  CHECK_EQ(length(list, 10), 1);
  for (size_t i = 8; i <= 512; i *= 2) CHECK_GE(length(GC_malloc_many(i), i / sizeof(GC_word)), 1);
  list = GC_malloc_many(24);
  size_t before = length(list, 2);
  CHECK_GE(before, 2);
  collect();
  CHECK_EQ(length(list, 2), before); /* kept by its links */
  /* Pointer-free objects are not zeroed, but the list ends all the same: also of used memory. */
  for (size_t i = 0; i < 1000; i++) {
    void *used = GC_MALLOC_ATOMIC(2000);
    memset(used, 0xa5, 2000);
    GC_FREE(used);
    GC_generic_malloc_many(2000, GC_I_PTRFREE, &list);
    CHECK_GE(length(list, 1), 1);
    for (; list != NULL; list = used) {
      used = *(void **)list;
      memset(list, 0xa5, 2000);
      GC_FREE(list);
    }
  }
}

/* The links of pointer-free objects are not traced: a collection that comes while a list of them is
   made keeps the list all the same. */
static void collected_while_made(void) {
  enum { kSmall = 16, kMax = 1024 };
  size_t collections = 0;
  while (collections < 20) {
    const GC_word before = GC_get_gc_no();
    size_t n = 0;
    GC_generic_malloc_many(kSmall, GC_I_PTRFREE, &list);
    collections += GC_get_gc_no() != before;
    for (void *object = list; object != NULL; object = *(void **)object) {
      CHECK(++n <= kMax); /* else an object is on the list twice */
      CHECK_EQ(GC_base(object), object);
    }
  }
  list = NULL;
}

/* The holder of a chain that only its mark procedure can follow: the pointer is hidden. */
struct holder {
  GC_word number;
  GC_hidden_pointer chain;
};
static struct holder *holder;

static struct GC_ms_entry *mark_holder(GC_word *addr, struct GC_ms_entry *msp,
                                       struct GC_ms_entry *limit, GC_word env) {
  if (((struct holder *)addr)->chain == 0) return msp; /* on a free list, or new */
  for (void *p = GC_REVEAL_POINTER(((struct holder *)addr)->chain); p != NULL; p = *(void **)p)
    msp = GC_MARK_AND_PUSH(p, msp, limit, NULL);
  return msp;
}

struct making {
  struct watch watch;
  int kind;
};
static void *make_chain(void *arg) {
  struct making *m = (struct making *)arg;
  void *chain = NULL;
  size_t n = 0;
  while (n < kChain) {
    void *some = NULL, *next;
    GC_generic_malloc_many(kBytes, m->kind, &some);
    for (; some != NULL && n < kChain; some = next) {
      next = *(void **)some;
      *(void **)some = chain;
      chain = some;
      watch_object(&m->watch, n++, some);
    }
  }
  if (m->kind == GC_I_NORMAL)
    list = chain;
  else
    holder->chain = GC_HIDE_POINTER(chain);
  return NULL;
}
/* Nothing of it stays on the caller's stack. */
static NOINLINE size_t chain_length(int kind) {
  return kind == GC_I_NORMAL ? length(list, kBytes / 8)
                             : length(GC_REVEAL_POINTER(holder->chain), 1);
}

/* A chain of objects of the kind, held by `list` or by `holder`. */
static void traced(int kind) {
  struct making m;
  m.kind = kind;
  watch_init(&m.watch, kChain);
  make_in_thread(make_chain, &m);
  for (size_t round = 0; round < 3; round++) {
    collect();
    for (size_t i = 0; i < 200000; i++) {
      memset(GC_malloc(kBytes), 0x55, kBytes);
      memset(GC_malloc_atomic(kBytes), 0x55, kBytes);
    }
    CHECK_EQ(watch_gone(&m.watch), 0);
    CHECK_EQ(chain_length(kind), kChain);
  }
  list = NULL;
  holder->chain = 0;
  CHECK_GONE(&m.watch);
  watch_end(&m.watch);
}

static size_t asked;
static char emergency[16];
static void *GC_CALLBACK out_of_memory(size_t bytes) {
  asked = bytes;
  return emergency;
}

static void exhausted(void) {
  void *chain = NULL;
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_set_oom_fn(out_of_memory);
  GC_set_max_heap_size(GC_get_heap_size() + (4 << 20));
  for (size_t i = 0; i < 10000000 && asked == 0; i++) {
    void *p;
    GC_FAST_MALLOC_GRANS(p, (size_t)4, lists[1], 0, GC_I_NORMAL, NULL, *(void **)p = NULL);
    if (p == emergency) break;
    *(void **)p = chain;
    chain = p;
  }
  CHECK_EQ(asked, 4 * GC_GRANULE_BYTES);
  GC_reachable_here(chain);
}

/* Once with interior pointers, and once without, as guile has it. */
static void all(void *all_interior_pointers) {
  void *(*by_address)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "GC_malloc");
  GC_set_all_interior_pointers(all_interior_pointers != NULL);
  GC_INIT();
  CHECK(by_address == GC_malloc); /* guile's machine code has the address */
  CHECK_GE(GC_size(by_address(40)), 40);
  holder = (struct holder *)GC_generic_malloc(
      sizeof *holder,
      (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_holder), 0), 0, 1));
  macros(0);
  macros(20);
  /* With interior pointers libgc does not search the last word of such an object: it takes it for
     the padding. */
  if (all_interior_pointers == NULL || on_gleaner()) pairs();
  many();
  collected_while_made();
  traced(GC_I_NORMAL);
  traced(GC_I_PTRFREE);
  exhausted();
}

int main(void) {
  fail_after(60);
  constants();
  CHECK_IN_CHILD(all, lists);
  all(NULL);
  return check_result();
}
