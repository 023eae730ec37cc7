/* gleaner.h: the parts of pauses and the histogram of stalls. Passes by default on libgc, which has
   neither. */
#include "check.h"

#include <gleaner.h>

static volatile int stop;
static volatile size_t allocated;

static void *allocate(void *unused) {
  while (!stop) {
    GC_MALLOC(64);
    allocated++;
  }
  return NULL;
}

static struct gleaner_pause_parts get_pause(int which) {
  struct gleaner_pause_parts parts;
  memset(&parts, 0x55, sizeof parts);
  CHECK_EQ(gleaner_get_pause_parts(which, &parts, sizeof parts), sizeof parts);
  return parts;
}

static uint64_t sum(struct gleaner_pause_parts p) {
  return p.stop_ns + p.roots_ns + p.dirty_ns + p.mark_ns + p.weak_ns + p.sweep_ns + p.resume_ns;
}

static void pauses(void) {
  uint64_t before = get_pause(GLEANER_PAUSE_TOTAL).pause_ns;
  GC_gcollect();
  struct gleaner_pause_parts total = get_pause(GLEANER_PAUSE_TOTAL);
  struct gleaner_pause_parts longest = get_pause(GLEANER_PAUSE_LONGEST);
  struct gleaner_pause_parts last = get_pause(GLEANER_PAUSE_LAST);
  struct gleaner_pause_parts maxima = get_pause(GLEANER_PAUSE_MAXIMA);
  CHECK_GE(last.stop_ns, 1);
  CHECK_GE(last.mark_ns, 1);
  CHECK_GE(last.resume_ns, 1);
  CHECK_EQ(sum(last), last.pause_ns);
  CHECK_EQ(sum(longest), longest.pause_ns);
  CHECK_EQ(sum(total), total.pause_ns);
  CHECK_EQ(total.pause_ns, before + last.pause_ns);
  CHECK_GE(longest.pause_ns, last.pause_ns);
  CHECK_EQ(maxima.pause_ns, longest.pause_ns);
  CHECK_GE(maxima.mark_ns, longest.mark_ns);
  CHECK_GE(total.mark_ns, maxima.mark_ns);
}

static void short_structures(void) {
  struct gleaner_pause_parts parts;
  memset(&parts, 0x55, sizeof parts);
  CHECK_EQ(gleaner_get_pause_parts(GLEANER_PAUSE_LAST, &parts, sizeof parts.pause_ns),
           sizeof parts.pause_ns);
  CHECK_EQ(parts.stop_ns, 0x5555555555555555);
}

static uint64_t count(int cause) {
  struct gleaner_stall_stats stats;
  CHECK_EQ(gleaner_get_stall_stats(cause, &stats, sizeof stats), sizeof stats);
  return stats.count;
}

static void stalls(void) {
  struct gleaner_stall_stats all;
  static struct gleaner_stall_bucket buckets[1000];
  uint64_t before = count(GLEANER_STALL_PAUSE) + count(GLEANER_STALL_WAIT);
  uint64_t found = 0, causes = 0;
  size_t seen;
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
  for (size_t i = 0; i < 10; i++) {
    /* It runs the program between any two collections, so that no stall of it covers both. */
    seen = allocated;
    while (allocated == seen) {
    }
    GC_gcollect();
  }
  stop = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
  /* Each collection was made by one thread and has stopped the other, or made it wait. */
  CHECK_GE(count(GLEANER_STALL_PAUSE) + count(GLEANER_STALL_WAIT), before + 20);
  CHECK_GE(count(GLEANER_STALL_PAUSE), 10);

  CHECK_EQ(gleaner_get_stall_stats(GLEANER_STALL_ANY, &all, sizeof all), sizeof all);
  for (int cause = GLEANER_STALL_ALLOCATION; cause <= GLEANER_STALL_PAUSE; cause++)
    causes += count(cause);
  CHECK_EQ(all.count, causes);
  CHECK_LE(all.p50_ns, all.p99_ns);
  CHECK_LE(all.p99_ns, all.p999_ns);
  CHECK_LE(all.p999_ns, all.max_ns);
  CHECK_LE(all.max_ns, all.total_ns);
  CHECK_GE(all.max_ns, 1);

  size_t n = gleaner_get_stall_histogram(GLEANER_STALL_ANY, buckets, 1000);
  CHECK_GE(n, 1);
  CHECK_LE(n, 592);
  for (size_t i = 0; i < n; i++) {
    CHECK(buckets[i].from_ns < buckets[i].until_ns);
    if (i != 0) CHECK_LE(buckets[i - 1].until_ns, buckets[i].from_ns);
    CHECK_GE(buckets[i].count, 1);
    found += buckets[i].count;
  }
  CHECK_EQ(found, all.count);
  CHECK_LE(buckets[n - 1].from_ns, all.max_ns);
  CHECK(all.max_ns < buckets[n - 1].until_ns);
  CHECK_EQ(gleaner_get_stall_histogram(GLEANER_STALL_ANY, NULL, 0), n);
  buckets[1].count = 12345678;
  CHECK_EQ(gleaner_get_stall_histogram(GLEANER_STALL_ANY, buckets, 1), n);
  CHECK_EQ(buckets[1].count, 12345678);
}

static void bad_use(void) {
  struct gleaner_pause_parts parts;
  struct gleaner_stall_stats stats;
  struct gleaner_stall_bucket bucket;
  CHECK_EQ(gleaner_get_pause_parts(99, &parts, sizeof parts), 0);
  CHECK_EQ(gleaner_get_pause_parts(GLEANER_PAUSE_LAST, NULL, sizeof parts), 0);
  CHECK_EQ(gleaner_get_stall_stats(-1, &stats, sizeof stats), 0);
  CHECK_EQ(gleaner_get_stall_stats(GLEANER_STALL_PAUSE + 1, &stats, sizeof stats), 0);
  CHECK_EQ(gleaner_get_stall_stats(GLEANER_STALL_ANY, NULL, sizeof stats), 0);
  CHECK_EQ(gleaner_get_stall_histogram(99, &bucket, 1), 0);
  CHECK_EQ(gleaner_get_stall_histogram(GLEANER_STALL_ANY, NULL, 1), 0);
}

int main(void) {
  if (!on_gleaner()) return 0;
  GC_INIT();
  CHECK_EQ(get_pause(GLEANER_PAUSE_TOTAL).pause_ns, 0);
  pauses();
  short_structures();
  stalls();
  bad_use();
  return check_result();
}
