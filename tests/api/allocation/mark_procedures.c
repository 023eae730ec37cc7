/* The protocol of mark procedures. The stack pointer and its limit are opaque; a procedure may push
   as much as it likes, of any address; it is called for objects on free lists, too, whose words
   beyond the first are zero, and from several markers at once. GC_MARK_AND_PUSH tests the plausible
   bounds inline, so they cover the heap and only move apart. Rules 11, 12. */
#include "check.h"

#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <sys/mman.h>

enum { kChildren = 3000, kParents = 40, kEnvironment = 0x1234, kMagic = 0xacce55 };

/* A parent names its children by hidden pointers: nobody else finds them. */
struct parent {
  GC_word magic; /* on a free list: the link */
  GC_word count;
  GC_hidden_pointer children[kChildren];
};

static volatile int calls, wrong, empty_returns;

static struct GC_ms_entry *mark_parent(GC_word *addr, struct GC_ms_entry *msp,
                                       struct GC_ms_entry *limit, GC_word env) {
  struct parent *parent = (struct parent *)addr;
  __sync_fetch_and_add(&calls, 1);
  if (env != kEnvironment || msp == NULL || limit == NULL) __sync_fetch_and_add(&wrong, 1);
  if (parent->count == 0) {
    __sync_fetch_and_add(&empty_returns, 1);
    return msp;
  }
  if (parent->magic != kMagic) {
    __sync_fetch_and_add(&wrong, 1);
    return msp;
  }
  for (size_t i = 0; i < parent->count; i++)
    msp = GC_MARK_AND_PUSH(GC_REVEAL_POINTER(parent->children[i]), msp, limit, NULL);
  return msp;
}

static struct parent *parents[kParents];
static int kind;
static void *list_of_kind;

static void *make(void *arg) {
  struct watch *w = (struct watch *)arg;
  size_t n = 0;
  for (size_t i = 0; i < kParents; i++) {
    parents[i] = (struct parent *)GC_generic_malloc(sizeof *parents[i], kind);
    parents[i]->magic = kMagic;
    for (size_t j = 0; j < kChildren; j++) {
      /* A child with a grandchild: what is pushed is searched. */
      void **child = (void **)GC_malloc(32);
      child[1] = GC_malloc(16);
      parents[i]->children[j] = GC_HIDE_POINTER(child);
      watch_object(w, n++, child);
      watch_object(w, n++, child[1]);
    }
    parents[i]->count = kChildren;
  }
  return NULL;
}

static void many_pushes(void) {
  const size_t all = (size_t)2 * kParents * kChildren;
  struct watch w;
  kind = (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_parent), kEnvironment),
                          0, 1);
  watch_init(&w, all);
  make_in_thread(make, &w);
  for (size_t i = 0; i < 3; i++) {
    calls = 0;
    collect();
    CHECK_GE(calls, kParents);
    CHECK_EQ(watch_gone(&w), 0);
  }
  /* A list of small objects of this kind: the procedure sees them, zero but for the link. */
  empty_returns = 0;
  GC_generic_malloc_many(64, kind, &list_of_kind);
  CHECK(list_of_kind != NULL);
  collect();
  CHECK_GE(empty_returns, 1);
  CHECK_EQ(wrong, 0);
  memset(parents, 0, sizeof parents);
  list_of_kind = NULL;
  CHECK_GONE(&w);
  watch_end(&w);
}

static char *least = (char *)-1, *greatest;
static void check_bounds(const void *object, size_t bytes) {
  char *low = (char *)GC_least_plausible_heap_addr, *high = (char *)GC_greatest_plausible_heap_addr;
  CHECK(low <= (const char *)object);
  CHECK((const char *)object + bytes <= high + 1);
  CHECK(low <= least && high >= greatest);
  least = low;
  greatest = high;
}

static void *odd_addresses[16];
static volatile int odd_calls;
static struct GC_ms_entry *mark_odd(GC_word *addr, struct GC_ms_entry *msp,
                                    struct GC_ms_entry *limit, GC_word env) {
  if (addr[1] == 0) return msp;
  __sync_fetch_and_add(&odd_calls, 1);
  for (size_t i = 0; i < COUNT_OF(odd_addresses); i++)
    msp = GC_mark_and_push(odd_addresses[i], msp, limit, NULL);
  return msp;
}

static void any_address(void) {
  static GC_word *odd;
  void *chain = NULL;
  size_t i, n = 0;
  for (i = 0; i < 3000; i++) {
    size_t bytes = i % 300 == 0 ? 1 << 20 : 16 + i % 2000;
    void **p = (void **)GC_malloc(bytes);
    *p = chain;
    chain = p;
    check_bounds(p, bytes);
    check_bounds(GC_malloc_atomic(bytes), bytes);
    if (i % 1000 == 0) GC_gcollect();
  }
  odd_addresses[n++] = (void *)1;
  odd_addresses[n++] = (void *)-1;
  odd_addresses[n++] = (void *)-8;
  odd_addresses[n++] = (void *)(~(GC_word)0 >> 1); /* not canonical */
  odd_addresses[n++] = &odd;
  odd_addresses[n++] = &n;
  odd_addresses[n++] = (void *)(uintptr_t)mark_odd;
  odd_addresses[n++] = malloc(10);
  odd_addresses[n++] = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  odd_addresses[n++] = (char *)GC_least_plausible_heap_addr - 8;
  odd_addresses[n++] = GC_least_plausible_heap_addr;
  odd_addresses[n++] = GC_greatest_plausible_heap_addr;
  odd_addresses[n++] = (char *)chain + 3;
  odd_addresses[n++] = (char *)GC_malloc(1 << 20) + (1 << 19) + 1;
  CHECK_LE(n, COUNT_OF(odd_addresses) - 1); /* and NULL */
  odd = (GC_word *)GC_generic_malloc(
      32, (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_odd), 0), 0, 1));
  odd[1] = 1;
  collect();
  collect();
  CHECK_GE(odd_calls, 2);
  for (i = 3000; chain != NULL; chain = *(void **)chain) i--;
  CHECK_EQ(i, 0);
}

int main(void) {
  fail_after(50);
  GC_INIT();
  many_pushes();
  any_address();
  return check_result();
}
