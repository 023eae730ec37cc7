/* Rule 12: GC_MARK_AND_PUSH tests the plausible bounds inline, so they cover the heap and only move
   apart; GC_mark_and_push itself takes any address. */
#include <sys/mman.h>

#include "check.h"
#include "gc_mark.h"

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
static volatile int calls;
static struct GC_ms_entry *mark_odd(GC_word *addr, struct GC_ms_entry *msp,
                                    struct GC_ms_entry *limit, GC_word env) {
  size_t i;
  (void)env;
  if (addr[1] == 0) return msp;
  __sync_fetch_and_add(&calls, 1);
  for (i = 0; i < sizeof odd_addresses / sizeof *odd_addresses; i++)
    msp = GC_mark_and_push(odd_addresses[i], msp, limit, NULL);
  return msp;
}

int main(void) {
  static GC_word *odd;
  void *chain = NULL;
  size_t i, n = 0;
  unsigned kind;
  GC_INIT();
  for (i = 0; i < 3000; i++) {
    size_t bytes = i % 300 == 0 ? 1 << 20 : 16 + i % 2000;
    void **p = (void **)GC_malloc(bytes);
    *p = chain;
    chain = p;
    check_bounds(p, bytes);
    check_bounds(GC_malloc_atomic(bytes), bytes);
    if (i % 1000 == 0) GC_gcollect();
  }
  odd_addresses[n++] = NULL;
  odd_addresses[n++] = (void *)1;
  odd_addresses[n++] = (void *)-1;
  odd_addresses[n++] = (void *)-8;
  odd_addresses[n++] = (void *)(~(GC_word)0 >> 1); /* not canonical */
  odd_addresses[n++] = &odd;
  odd_addresses[n++] = &n;
  odd_addresses[n++] = (void *)(uintptr_t)main;
  odd_addresses[n++] = malloc(10);
  odd_addresses[n++] = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  odd_addresses[n++] = (char *)GC_least_plausible_heap_addr - 8;
  odd_addresses[n++] = GC_least_plausible_heap_addr;
  odd_addresses[n++] = GC_greatest_plausible_heap_addr;
  odd_addresses[n++] = (char *)chain + 3;
  odd_addresses[n++] = (char *)GC_malloc(1 << 20) + (1 << 19) + 1;
  CHECK_LE(n, sizeof odd_addresses / sizeof *odd_addresses);
  kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_odd), 0), 0, 1);
  odd = (GC_word *)GC_generic_malloc(32, (int)kind);
  odd[1] = 1;
  collect();
  collect();
  CHECK_GE(calls, 2);
  for (i = 3000; chain != NULL; chain = *(void **)chain) i--;
  CHECK_EQ(i, 0);
  return check_result();
}
