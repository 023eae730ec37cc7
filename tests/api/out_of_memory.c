/* Requests that cannot be met: sizes beyond any address space, the function that is asked then, the
   heap limit, and recovery. */
#include "check.h"

#include <sys/wait.h>

static int oom_calls;
static size_t oom_size;
static void *oom_answer;
static void *GC_CALLBACK count_oom(size_t size) {
  oom_calls++;
  oom_size = size;
  return oom_answer;
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
  if (result == oom_answer && oom_calls == 1) return;
  fprintf(stderr, "%s(0x%zx) gave %p instead of %p, oom function called %d times\n", what, size,
          result, oom_answer, oom_calls);
  check_failures++;
}

#define REFUSED(call)                           \
  do {                                          \
    oom_calls = 0;                              \
    check_refused(#call, (void *)(call), size); \
  } while (0)

static void impossible_sizes(void) {
  size_t i;
  for (i = 0; i < kImpossibleCount; i++) {
    size_t size = opaque(kImpossible[i]);
    char *old = (char *)GC_malloc(100);
    void *unchanged = NULL;
    memset(old, 5, 100);
    REFUSED(GC_malloc(size));
    CHECK_EQ(oom_size, size);
    REFUSED(GC_malloc_atomic(size));
    CHECK_EQ(oom_size, size);
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
    if (oom_answer == NULL) {
      CHECK_EQ(GC_posix_memalign(&unchanged, 16, size), ENOMEM);
      CHECK_EQ(GC_posix_memalign(&unchanged, 4096, size), ENOMEM);
    }
    CHECK_EQ(GC_expand_hp(size), 0);
  }
}

struct node {
  struct node *next;
  char payload[1000];
};

/* The longest list that fits. */
static NOINLINE size_t fill(void) {
  struct node *list = NULL, *n;
  size_t count = 0;
  oom_calls = 0;
  while (count < 1000000 && (n = GC_NEW(struct node)) != NULL) {
    n->next = list;
    list = n;
    count++;
  }
  CHECK_EQ(oom_calls, 1);
  for (n = list; n; n = n->next) count--;
  CHECK_EQ(count, 0);
  count = 0;
  while (list) {
    count += sizeof *list;
    n = list->next;
    list->next = NULL;
    list = n;
  }
  return count;
}

static void *fill_in_thread(void *arg) {
  *(size_t *)arg = fill();
  return NULL;
}

static void heap_limit(void) {
  const size_t limit = 48 << 20;
  size_t round;
  oom_answer = NULL;
  GC_set_max_heap_size(limit);
  for (round = 0; round < 3; round++) {
    size_t bytes = 0;
    run_in_thread(fill_in_thread, &bytes);
    CHECK_GE(bytes, limit / 2);
    CHECK_LE(bytes, limit);
    CHECK_LE(GC_get_heap_size(), limit);
    collect();
  }
  CHECK_EQ(GC_expand_hp(limit), 0);
  oom_calls = 0;
  CHECK_NULL(GC_malloc(limit));
  CHECK_EQ(oom_calls, 1);
  CHECK(GC_malloc(100) != NULL);
  GC_set_max_heap_size(0);
  CHECK(GC_malloc_atomic(limit) != NULL);
}

static const char *abort_reason = "not called";
static void GC_CALLBACK note_abort(const char *reason) { abort_reason = reason; }
static void note_exit(void) { _exit(abort_reason == NULL ? 33 : 34); }

/* GC_abort_on_oom calls the abort function with NULL and exits. */
static void abort_on_oom(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    GC_set_abort_func(note_abort);
    atexit(note_exit);
    GC_abort_on_oom();
    _exit(0);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 33);
}

int main(void) {
  GC_set_handle_fork(1);
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc);
  CHECK_NULL(GC_malloc(opaque(SIZE_MAX)));
  CHECK(GC_get_oom_fn() != NULL);
  GC_set_oom_fn(count_oom);
  CHECK(GC_get_oom_fn() == count_oom);
  CHECK(GC_oom_fn == count_oom);
  impossible_sizes();
  oom_answer = GC_malloc(200);
  impossible_sizes();
  heap_limit();
  abort_on_oom();
  return check_result();
}
