/* libgc's environment variables, under their names. */
#include "capture.h"

static void nothing_set(void) {
  GC_INIT();
  CHECK_EQ(GC_get_free_space_divisor(), 3);
  CHECK_EQ(GC_get_full_freq(), 19);
  CHECK_EQ(GC_get_time_limit(), GC_TIME_UNLIMITED);
  CHECK_EQ(GC_get_find_leak(), 0);
  CHECK_EQ(GC_use_entire_heap, 0);
  CHECK_EQ(GC_is_disabled(), 0);
  GC_gcollect();
}

static void settings(void) {
  setenv("GC_FREE_SPACE_DIVISOR", "7", 1);
  setenv("GC_FULL_FREQUENCY", "5", 1);
  setenv("GC_PAUSE_TIME_TARGET", "20", 1);
  setenv("GC_FIND_LEAK", "", 1); /* set is on, whatever the text */
  setenv("GC_USE_ENTIRE_HEAP", "1", 1);
  setenv("GC_FORCE_UNMAP_ON_GCOLLECT", "1", 1);
  GC_INIT();
  CHECK_EQ(GC_get_free_space_divisor(), 7);
  CHECK_EQ(GC_get_full_freq(), 5);
  CHECK_EQ(GC_get_time_limit(), 20);
  CHECK_EQ(GC_get_find_leak(), 1);
  CHECK_NE(GC_use_entire_heap, 0);
  CHECK_NE(GC_get_force_unmap_on_gcollect(), 0);
  _exit(check_result());
}

static void no_collection(void) {
  GC_word before;
  setenv("GC_DONT_GC", "1", 1);
  GC_INIT();
  CHECK_NE(GC_is_disabled(), 0);
  before = GC_get_gc_no();
  GC_gcollect();
  CHECK_EQ(GC_get_gc_no(), before);
}

static void heap_sizes(void) {
  setenv("GC_INITIAL_HEAP_SIZE", "8M", 1);
  setenv("GC_MAXIMUM_HEAP_SIZE", "32M", 1);
  GC_INIT();
  CHECK_GE(GC_get_heap_size(), 4 << 20);
  GC_set_warn_proc(GC_ignore_warn_proc);
  CHECK_NULL(GC_malloc_atomic(64 << 20));
  CHECK_NE((intptr_t)GC_malloc_atomic(1 << 20), 0);
}

static void two_markers(void) {
  setenv("GC_MARKERS", "3", 1);
  GC_INIT();
  GC_start_mark_threads();
  CHECK_EQ(GC_get_parallel(), 2);
}

static void three_processors(void) {
  setenv("GC_NPROCS", "3", 1);
  GC_INIT();
  GC_start_mark_threads();
  CHECK_EQ(GC_get_parallel(), 2);
}

static void one_marker(void) {
  setenv("GC_NPROCS", "3", 1);
  setenv("GC_MARKERS", "1", 1);
  GC_INIT();
  GC_start_mark_threads();
  CHECK_EQ(GC_get_parallel(), 0);
}

static void statistics(void) {
  setenv("GC_PRINT_STATS", "1", 1);
  GC_INIT();
  GC_gcollect();
}

static void statistics_at_exit(void) {
  setenv("GC_PRINT_STATS", "2", 1);
  GC_INIT();
  GC_gcollect();
}

static void verbose_statistics(void) {
  setenv("GC_PRINT_VERBOSE_STATS", "1", 1);
  GC_INIT();
  GC_gcollect();
}

/* Those that mean something only inside libgc. */
static void without_meaning(void) {
  setenv("GC_NO_BLACKLIST_WARNING", "1", 1);
  setenv("GC_LARGE_ALLOC_WARN_INTERVAL", "1", 1);
  setenv("GC_RETRY_SIGNALS", "1", 1);
  setenv("GC_USE_GETWRITEWATCH", "0", 1);
  setenv("GC_UNMAP_THRESHOLD", "6", 1);
  setenv("GC_IGNORE_GCJ_INFO", "1", 1);
  setenv("GC_PRINT_BACK_HEIGHT", "1", 1);
  setenv("GC_BACKTRACES", "1", 1);
  setenv("GC_DISABLE_INCREMENTAL", "1", 1);
  setenv("GC_COLLECT_AT_MALLOC", "100", 1);
  setenv("GC_TRACE", "0x1000", 1);
  GC_INIT();
  GC_gcollect();
}

static void wrong_values(void) {
  setenv("GC_FULL_FREQUENCY", "often", 1);
  setenv("GC_PAUSE_TIME_TARGET", "-1", 1);
  GC_INIT();
  CHECK_EQ(GC_get_full_freq(), 19);
  CHECK_EQ(GC_get_time_limit(), GC_TIME_UNLIMITED);
}

int main(void) {
  static struct captured c;
  fail_after(50);
  capture(&c, nothing_set);
  CHECK_ENDED_WELL(&c);
  CHECK_CAPTURED(&c, c.text[0] == 0);
  capture(&c, settings);
  CHECK_ENDED_WELL(&c);
  capture(&c, no_collection);
  CHECK_ENDED_WELL(&c);
  capture(&c, heap_sizes);
  CHECK_ENDED_WELL(&c);
  capture(&c, two_markers);
  CHECK_ENDED_WELL(&c);
  capture(&c, three_processors);
  CHECK_ENDED_WELL(&c);
  capture(&c, one_marker);
  CHECK_ENDED_WELL(&c);
  capture(&c, statistics);
  CHECK_ENDED_WELL(&c);
  CHECK_CAPTURED(&c, c.text[0] != 0);
  capture(&c, statistics_at_exit);
  CHECK_ENDED_WELL(&c);
  if (on_gleaner()) {
    CHECK_SAYS(&c, "gleaner: gc ");
    CHECK_SAYS(&c, "gleaner: pauses of ");
    CHECK_SAYS(&c, "gleaner: stalls of threads");
  }
  capture(&c, verbose_statistics);
  CHECK_ENDED_WELL(&c);
  CHECK_CAPTURED(&c, c.text[0] != 0);
  capture(&c, without_meaning);
  CHECK_ENDED_WELL(&c);
  if (on_gleaner()) {
    CHECK_CAPTURED(&c, c.text[0] == 0);
    capture(&c, wrong_values);
    CHECK_ENDED_WELL(&c);
    CHECK_SAYS(&c, "GC_FULL_FREQUENCY");
    CHECK_SAYS(&c, "GC_PAUSE_TIME_TARGET");
  }
  return check_result();
}
