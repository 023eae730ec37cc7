/* libgc's environment variables, under their names. */
#include "capture.h"

static void nothing_set(void) {
  GC_INIT();
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
  setenv("GC_DONT_GC", "1", 1);
  GC_INIT();
  CHECK_NE(GC_is_disabled(), 0);
  GC_word before = GC_get_gc_no();
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

/* How many markers help. */
static const struct {
  const char *nprocs, *markers;
  int helpers;
} marker_rows[] = {{NULL, "3", 2}, {"3", NULL, 2}, {"3", "1", 0}};
static size_t row;
static void markers(void) {
  if (marker_rows[row].nprocs != NULL) setenv("GC_NPROCS", marker_rows[row].nprocs, 1);
  if (marker_rows[row].markers != NULL) setenv("GC_MARKERS", marker_rows[row].markers, 1);
  GC_INIT();
  GC_start_mark_threads();
  CHECK_EQ(GC_get_parallel(), marker_rows[row].helpers);
}

static const char *const statistics_rows[][2] = {
    {"GC_PRINT_STATS", "1"}, {"GC_PRINT_VERBOSE_STATS", "1"}, {"GC_PRINT_STATS", "2"}};
static void statistics(void) {
  setenv(statistics_rows[row][0], statistics_rows[row][1], 1);
  GC_INIT();
  GC_gcollect();
}

/* Those that mean something only inside libgc. */
static void without_meaning(void) {
  static const char *const variables[][2] = {{"GC_NO_BLACKLIST_WARNING", "1"},
                                             {"GC_LARGE_ALLOC_WARN_INTERVAL", "1"},
                                             {"GC_RETRY_SIGNALS", "1"},
                                             {"GC_USE_GETWRITEWATCH", "0"},
                                             {"GC_UNMAP_THRESHOLD", "6"},
                                             {"GC_IGNORE_GCJ_INFO", "1"},
                                             {"GC_PRINT_BACK_HEIGHT", "1"},
                                             {"GC_BACKTRACES", "1"},
                                             {"GC_DISABLE_INCREMENTAL", "1"},
                                             {"GC_COLLECT_AT_MALLOC", "100"},
                                             {"GC_TRACE", "0x1000"}};
  for (size_t i = 0; i < COUNT_OF(variables); i++) setenv(variables[i][0], variables[i][1], 1);
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
  CAPTURE_WELL(&c, nothing_set);
  CHECK_CAPTURED(&c, c.text[0] == 0);
  CAPTURE_WELL(&c, settings);
  CAPTURE_WELL(&c, no_collection);
  CAPTURE_WELL(&c, heap_sizes);
  for (row = 0; row < COUNT_OF(marker_rows); row++) CAPTURE_WELL(&c, markers);
  for (row = 0; row < COUNT_OF(statistics_rows); row++) {
    CAPTURE_WELL(&c, statistics);
    CHECK_CAPTURED(&c, c.text[0] != 0);
  }
  if (on_gleaner()) { /* at exit, too */
    CHECK_SAYS(&c, "gleaner: gc ");
    CHECK_SAYS(&c, "gleaner: pauses of ");
    CHECK_SAYS(&c, "gleaner: stalls of threads");
  }
  CAPTURE_WELL(&c, without_meaning);
  if (on_gleaner()) {
    CHECK_CAPTURED(&c, c.text[0] == 0);
    CAPTURE_WELL(&c, wrong_values);
    CHECK_SAYS(&c, "GC_FULL_FREQUENCY");
    CHECK_SAYS(&c, "GC_PAUSE_TIME_TARGET");
  }
  return check_result();
}
