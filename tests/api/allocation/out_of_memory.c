/* Requests that cannot be met: sizes beyond any address space, the function that is asked then, the
   heap limit, and recovery. */
#include "check.h"

#include <gc/gc_mark.h>

static int oom_calls;
static size_t oom_size;
static void *oom_answer;
static void *GC_CALLBACK count_oom(size_t size) {
  oom_calls++;
  oom_size = size;
  return oom_answer;
}

static int warnings;
static void GC_CALLBACK count_warning(char *message, GC_word argument) {
  (void)message, (void)argument;
  warnings++;
}

static const size_t kImpossible[] = {SIZE_MAX,         SIZE_MAX - 1,     SIZE_MAX - 15,
                                     SIZE_MAX - 16,    SIZE_MAX - 4095,  SIZE_MAX - 4096,
                                     SIZE_MAX - 16383, SIZE_MAX - 16384, SIZE_MAX - 65536,
                                     SIZE_MAX / 2,     SIZE_MAX / 2 + 1, SIZE_MAX / 2 - 4096,
                                     SIZE_MAX / 4,     (size_t)1 << 60,  ((size_t)1 << 48) + 1};
enum { kImpossibleCount = sizeof kImpossible / sizeof *kImpossible };

/* The compiler must not see the size: it would warn, rightly. */
static size_t opaque(size_t size) {
  volatile size_t copy = size;
  return copy;
}

static void check_refused(const char *what, void *result, size_t size) {
  if (result == oom_answer && oom_calls == 1 && oom_size == size) return;
  fprintf(stderr, "%s(0x%zx) gave %p instead of %p, oom function called %d times, with 0x%zx\n",
          what, size, result, oom_answer, oom_calls, oom_size);
  check_failures++;
}

#define REFUSED(call)                           \
  do {                                          \
    oom_calls = 0;                              \
    check_refused(#call, (void *)(call), size); \
  } while (0)

static void impossible_sizes(void) {
  for (size_t i = 0; i < kImpossibleCount; i++) {
    size_t size = opaque(kImpossible[i]);
    char *old = (char *)GC_malloc(100);
    void *unchanged = NULL;
    memset(old, 5, 100);
    errno = 0;
    REFUSED(GC_malloc(size));
    if (on_gleaner()) CHECK_EQ(errno, ENOMEM);
    REFUSED(GC_malloc_atomic(size));
    REFUSED(GC_generic_malloc(size, 1));
    REFUSED(GC_malloc_uncollectable(size));
    REFUSED(GC_malloc_atomic_uncollectable(size));
    REFUSED(GC_malloc_ignore_off_page(size));
    REFUSED(GC_malloc_atomic_ignore_off_page(size));
    REFUSED(GC_realloc(NULL, size));
    /* An answer replaces the old object, which is copied and freed; without one it stays. */
    REFUSED(GC_realloc(old, size));
    if (oom_answer != NULL) old = (char *)oom_answer;
    CHECK(old[0] == 5 && old[99] == 5);
    REFUSED(GC_memalign(16, size));
    REFUSED(GC_memalign(256, size));
    if (on_gleaner()) REFUSED(GC_memalign((size_t)1 << 20, size));
    if (oom_answer == NULL) {
      CHECK_EQ(GC_posix_memalign(&unchanged, 16, size), ENOMEM);
      CHECK_EQ(GC_posix_memalign(&unchanged, 4096, size), ENOMEM);
    }
    CHECK_EQ(GC_expand_hp(size), 0);
  }
}

/* The longest list that fits: its bytes. */
static NOINLINE size_t fill(size_t bytes) {
  void **list = NULL, **p;
  size_t count = 0, filled = 0;
  oom_calls = 0;
  while (count < 10000000 && (p = (void **)GC_malloc(bytes)) != NULL) {
    *p = list;
    list = p;
    count++;
  }
  CHECK_EQ(oom_calls, 1);
  /* libgc's small objects ask for their size class. */
  CHECK(on_gleaner() ? oom_size == bytes : oom_size >= bytes);
  for (p = list; p; p = (void **)*p) count--;
  CHECK_EQ(count, 0);
  while (list) {
    filled += bytes;
    p = (void **)*list;
    *list = NULL;
    list = p;
  }
  return filled;
}

static void *fill_in_thread(void *bytes) {
  *(size_t *)bytes = fill(*(size_t *)bytes);
  return NULL;
}

static void heap_limit(void) {
  static const size_t sizes[] = {16, 1000, 8000, 100000};
  const size_t limit = 48 << 20;
  oom_answer = NULL;
  GC_set_max_heap_size(limit);
  for (size_t i = 0; i < 3 * COUNT_OF(sizes); i++) {
    size_t bytes = sizes[i % COUNT_OF(sizes)];
    run_in_thread(fill_in_thread, &bytes);
    CHECK_GE(bytes, on_gleaner() ? limit * 5 / 8 : limit / 3);
    CHECK_LE(bytes, limit);
    CHECK_LE(GC_get_heap_size(), limit + (on_gleaner() ? 0 : 1 << 20)); /* libgc rounds up */
    collect();
  }
  CHECK_EQ(GC_expand_hp(limit), 0);
  oom_calls = 0;
  GC_set_warn_proc(count_warning);
  CHECK_NULL(GC_malloc(limit));
  CHECK_EQ(oom_calls, 1);
  CHECK_EQ(warnings > 0, !on_gleaner()); /* libgc warns of it besides */
  GC_set_warn_proc(GC_ignore_warn_proc);
  CHECK(GC_malloc(100) != NULL);
  GC_set_max_heap_size(0);
  CHECK(GC_malloc_atomic(limit) != NULL);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc);
  CHECK_NULL(GC_malloc(opaque(SIZE_MAX)));
  CHECK_NULL(GC_get_oom_fn()(10));
  GC_set_oom_fn(count_oom);
  CHECK(GC_get_oom_fn() == count_oom);
  CHECK(GC_oom_fn == count_oom);
  impossible_sizes();
  oom_answer = GC_malloc(200);
  impossible_sizes();
  heap_limit();
  /* What succeeds leaves errno alone. */
  GC_set_max_heap_size(0);
  errno = 0;
  CHECK(GC_malloc(100) != NULL);
  GC_gcollect();
  CHECK_EQ(errno, 0);
  return check_result();
}
