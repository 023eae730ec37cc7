/* Objects of disclaim kinds on several threads at once: nobody is accused, what is freed makes
 * room, and what is wrong is told once of each sort. */
#include "capture.h"

#include <gc/gc_disclaim.h>
#include <gc/gc_mark.h>

enum { kThreads = 3, kObjects = 60000 };

static size_t finalized; /* under the allocation lock */

static void finalize(void *object, void *data) { finalized++; }
static const struct GC_finalizer_closure closure = {finalize, NULL};

static void *allocate(void *arg) {
  static const size_t bytes[] = {24, 40, 100, 500, 2000};
  for (size_t i = 0; i < kObjects; i++) {
    size_t *object = (size_t *)GC_finalized_malloc(bytes[i % 5], &closure);
    CHECK_EQ(object[2], 0);
    object[2] = i;
  }
  return NULL;
}

static void no_wrong(void) {
  GC_INIT();
  GC_init_finalized_malloc();
  run_in_threads(kThreads, allocate, NULL, 0);
  size_t heap = GC_get_heap_size();
  collect();
  collect();
  CHECK_MOSTLY(finalized, kThreads * kObjects);
  /* A collection frees all but the newest: 536 bytes an object would be 96 MB. */
  if (on_gleaner()) CHECK_LE(heap, 32 << 20);
}

static void finalize_and_collect(void *object, void *data) { GC_gcollect(); }
static const struct GC_finalizer_closure wrong = {finalize_and_collect, NULL};

static void *allocate_wrong(void *arg) {
  for (size_t i = 0; i < 50; i++) GC_finalized_malloc(40, &wrong);
  return NULL;
}

static void *collect_under_lock(void *arg) {
  GC_gcollect();
  return arg;
}

static void wrong_of_both_sorts(void) {
  GC_INIT();
  GC_init_finalized_malloc();
  run_in_threads(kThreads, allocate, NULL, 0); /* nothing is told yet */
  fprintf(stderr, "from here\n");
  for (size_t i = 0; i < 3; i++) {
    GC_call_with_alloc_lock(collect_under_lock, NULL);
    run_in_thread(allocate_wrong, NULL);
    collect();
  }
}

int main(void) {
  static struct captured c;
  fail_after(55);
  CAPTURE_WELL(&c, no_wrong);
  CHECK_SILENT_ABOUT(&c, "gleaner");
  if (!on_gleaner()) return check_result(); /* libgc waits for ever for the lock that it holds */
  CAPTURE_WELL(&c, wrong_of_both_sorts);
  CHECK_CAPTURED(&c, count_text(&c, "no collection can start there") == 2);
  CHECK_SAYS(&c, "callback of a collection");
  CHECK_SAYS(&c, "by a thread that holds the allocation lock");
  CHECK_CAPTURED(&c, strncmp(c.text, "from here", 9) == 0);
  return check_result();
}
