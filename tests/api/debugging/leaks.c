/* Leak finding: what became unreachable without GC_free is reported with the place of its
   allocation, and nothing else is. */
#define GC_DEBUG
#include "capture.h"

#include <gc/gc_mark.h>

enum { kCount = 20 };

static void *reachable[kCount];

static void *make(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    GC_debug_malloc(40 + i, "composite.c", 11);
    GC_debug_malloc_atomic(200, "pointerfree.c", 12);
    GC_debug_malloc(100000, "large.c", 13);
    GC_malloc(48);
    GC_debug_free(GC_debug_malloc(40, "freed.c", 14));
    GC_free(GC_malloc(48));
    GC_debug_malloc_uncollectable(40, "uncollectable.c", 15);
    reachable[i] = GC_debug_malloc(40, "reachable.c", 16);
  }
  return NULL;
}

static void start(void) {
  GC_set_find_leak(1);
  CHECK_EQ(GC_get_find_leak(), 1);
  GC_INIT();
}

static void check_places(struct captured *c, void (*fn)(void)) {
  CAPTURE_WELL(c, fn);
  CHECK_SAYS(c, "composite.c:11");
  CHECK_SAYS(c, "pointerfree.c:12");
  CHECK_SAYS(c, "large.c:13");
  CHECK_SAYS(c, "NORMAL");
  CHECK_SAYS(c, "PTRFREE");
  CHECK_SILENT_ABOUT(c, "freed.c");
  CHECK_SILENT_ABOUT(c, "uncollectable.c");
  CHECK_SILENT_ABOUT(c, "reachable.c");
}

static void by_collection(void) {
  start();
  run_in_thread(make, NULL);
  collect();
  CHECK_EQ(fprintf(stderr, "second\n"), 7);
  collect();
  _exit(check_result());
}

static void at_exit(void) {
  start();
  GC_disable(); /* or a collection that allocation starts may find some */
  run_in_thread(make, NULL);
  GC_enable();
  scrub_stack();
}

static void by_environment(void) {
  setenv("GC_FIND_LEAK", "1", 1);
  GC_INIT();
  CHECK_EQ(GC_get_find_leak(), 1);
  run_in_thread(make, NULL);
}

static void by_variable(void) {
  GC_find_leak = 1;
  GC_INIT();
  run_in_thread(make, NULL);
}

static void none(void) {
  start();
  GC_FREE(GC_MALLOC(100));
  reachable[0] = GC_MALLOC(100);
  collect();
}

static void not_asked_for(void) {
  GC_INIT();
  run_in_thread(make, NULL);
  collect();
}

static void aborting(void) {
  setenv("GC_ABORT_ON_LEAK", "1", 1);
  start();
  run_in_thread(make, NULL);
  collect();
  fprintf(stderr, "went on\n");
}

static void GC_CALLBACK nothing(void *object, void *data) {}

static void *finalizable(void *arg) {
  GC_finalization_proc old_fn = nothing;
  void *old_data = arg;
  void **link = (void **)malloc(sizeof *link);
  void *p = GC_malloc(40);
  GC_register_finalizer(p, nothing, NULL, &old_fn, &old_data);
  CHECK(old_fn == nothing); /* unchanged: nothing is registered */
  *link = NULL;
  CHECK_EQ(GC_general_register_disappearing_link(link, p), GC_UNIMPLEMENTED);
  CHECK_EQ(GC_register_long_link(link, p), GC_UNIMPLEMENTED);
  free(link);
  for (size_t i = 0; i < 10; i++) {
    p = GC_debug_malloc(40, "finalizable.c", 17);
    GC_debug_register_finalizer(p, nothing, NULL, &old_fn, &old_data);
    CHECK(old_fn == nothing); /* unchanged: nothing is registered */
  }
  return NULL;
}

static void finalizers(void) {
  start();
  run_in_thread(finalizable, &reachable);
  collect();
}

static void delayed(void) {
  setenv("GC_FINDLEAK_DELAY_FREE", "1", 1);
  start();
  void *p = GC_debug_malloc(40, "delayed.c", 18);
  GC_debug_free(p);
  GC_debug_free(p);
  p = NULL;
  collect();
}

/* What leaks refer to is leaked itself; a cycle is found. */
static void *structures(void *arg) {
  void **a, **b;
  for (size_t i = 0; i < 100; i++) {
    a = (void **)GC_debug_malloc(16, "cycle.c", 19);
    b = (void **)GC_debug_malloc(16, "cycle.c", 20);
    *a = b;
    *b = a;
  }
  return NULL;
}

static void many_at_once(void) {
  start();
  for (size_t i = 0; i < 10; i++) {
    run_in_thread(structures, NULL);
    collect();
  }
}

/* Threads that leak nothing while another one collects all the time. */
static void threads(void) {
  start();
  run_in_threads(3, use_and_free, NULL, 30);
}

/* Several threads that leak and collect: no leak is reported twice. */
enum { kLeaksEach = 100 };

static void *leak_and_collect(void *arg) {
  for (size_t i = 0; i < kLeaksEach; i++) {
    GC_debug_malloc(40, "several.c", 22);
    if (i % 10 == 9) collect();
  }
  return NULL;
}

static void several_reporters(void) {
  start();
  run_in_threads(4, leak_and_collect, NULL, 0);
}

static void GC_CALLBACK describe(void *object, char *text) {
  CHECK_EQ(*(int *)object, 4711);
  strcpy(text, "my type");
}

/* A leak stays what it was until its report is printed, whatever is allocated and collected. */
static size_t not_what_it_was;
static void *others[1000];

static void GC_CALLBACK describe_late(void *object, char *text) {
  for (size_t i = 0; i < 1000; i++) {
    others[i] = GC_malloc(80);
    memset(others[i], 0xff, 80);
  }
  GC_gcollect();
  for (size_t i = 0; i < 1000; i++) {
    GC_free(others[i]);
    others[i] = GC_malloc(80);
    memset(others[i], 0xff, 80);
  }
  if (*(int *)object != 4711) not_what_it_was++;
  strcpy(text, "late");
}

static void *make_described(void *arg) {
  for (size_t i = 0; i < 10; i++) *(int *)GC_debug_malloc(40, "described.c", 21) = 4711;
  return NULL;
}

static void described(void) {
  start();
  GC_register_describe_type_fn(1, describe);
  run_in_thread(make_described, NULL);
  collect();
}

static void described_late(void) {
  start();
  GC_register_describe_type_fn(1, describe_late);
  run_in_thread(make_described, NULL);
  collect();
  GC_register_describe_type_fn(1, NULL);
  CHECK_EQ(not_what_it_was, 0);
}

int main(void) {
  static struct captured c;
  fail_after(50);
  check_places(&c, by_collection);
  if (on_gleaner()) {
    const char *second = strstr(c.text, "second");
    CHECK_CAPTURED(&c, count_text(&c, "composite.c:11") <= kCount);
    CHECK_CAPTURED(&c, count_text(&c, "composite.c:11") >= kCount - 2);
    CHECK_CAPTURED(&c, count_text(&c, "large.c:13") <= kCount);
    CHECK_CAPTURED(&c, second != NULL && strstr(second, "pointerfree.c") == NULL);
    CHECK_SAYS(&c, "Leaked composite object");
    CHECK_SAYS(&c, "Leaked atomic object");
  }
  check_places(&c, at_exit);
  check_places(&c, by_environment);
  check_places(&c, by_variable);
  CAPTURE_WELL(&c, none);
  CHECK_SILENT_ABOUT(&c, "eaked");
  CAPTURE_WELL(&c, not_asked_for);
  CHECK_SILENT_ABOUT(&c, "composite.c");
  capture(&c, aborting);
  CHECK_CAPTURED(&c, was_aborted(&c));
  CHECK_SAYS(&c, "composite.c:11");
  CHECK_SILENT_ABOUT(&c, "went on");
  CAPTURE_WELL(&c, finalizers);
  CHECK_SAYS(&c, "finalizable.c:17");
  CAPTURE_WELL(&c, delayed);
  CHECK_SAYS(&c, "GC_debug_free");
  CHECK_SILENT_ABOUT(&c, "delayed.c:18, sz= 40, N");
  if (on_gleaner()) CHECK_CAPTURED(&c, count_text(&c, "delayed.c:18") == 1);
  CAPTURE_WELL(&c, many_at_once);
  CHECK_SAYS(&c, "cycle.c:19");
  CHECK_SAYS(&c, "cycle.c:20");
  if (on_gleaner()) CHECK_CAPTURED(&c, count_text(&c, "cycle.c:19") <= 1000);
  CAPTURE_WELL(&c, described);
  CHECK_SAYS(&c, "my type");
  if (!on_gleaner()) return check_result();
  CAPTURE_WELL(&c, several_reporters);
  CHECK_CAPTURED(&c, count_text(&c, "several.c:22") <= 4 * kLeaksEach);
  CHECK_CAPTURED(&c, count_text(&c, "several.c:22") >= 4 * kLeaksEach * 9 / 10);
  CAPTURE_WELL(&c, described_late);
  CHECK_SAYS(&c, "late");
  CAPTURE_WELL(&c, threads);
  CHECK_SILENT_ABOUT(&c, "eaked");
  return check_result();
}
