/* The figures (Rule 26: GC_prof_stats has 96 bytes): how they move with allocation, freeing
   and collections, and that they agree. The slack is what threads may hold back in their caches. */
#include "check.h"

enum { kSlack = 256 * 1024 };

static void allocated_bytes(void) {
  GC_disable();
  size_t before = GC_get_bytes_since_gc();
  size_t total = GC_get_total_bytes();
  for (size_t i = 0; i < 100000; i++) GC_malloc(112);
  CHECK_GE(GC_get_bytes_since_gc(), before + 112 * 100000 - kSlack);
  CHECK_LE(GC_get_bytes_since_gc(), before + 128 * 100000 + kSlack);
  CHECK_GE(GC_get_total_bytes(), total + 112 * 100000 - kSlack);
  CHECK_LE(GC_get_total_bytes(), total + 128 * 100000 + kSlack);
  before = GC_get_bytes_since_gc();
  GC_malloc_atomic(5000000);
  CHECK_GE(GC_get_bytes_since_gc(), before + 5000000);
  CHECK_LE(GC_get_bytes_since_gc(), before + 5000000 + kSlack);
  GC_enable();
  total = GC_get_total_bytes();
  GC_gcollect();
  CHECK_LE(GC_get_bytes_since_gc(), kSlack);
  CHECK_GE(GC_get_total_bytes(), total);
}

static void freed_bytes(void) {
  void *objects[50];
  GC_gcollect();
  for (size_t i = 0; i < 50; i++) objects[i] = GC_malloc(100000);
  GC_disable();
  size_t before = GC_get_expl_freed_bytes_since_gc();
  for (size_t i = 0; i < 50; i++) GC_free(objects[i]);
  CHECK_GE(GC_get_expl_freed_bytes_since_gc(), before + 50 * 100000);
  CHECK_LE(GC_get_expl_freed_bytes_since_gc(), before + 50 * 110000 + kSlack);
  GC_enable();
  GC_gcollect();
  CHECK_LE(GC_get_expl_freed_bytes_since_gc(), kSlack);
}

static void uncollectable_bytes(size_t size) {
  GC_word before = GC_get_non_gc_bytes();
  void *objects[100];
  for (size_t i = 0; i < 100; i++)
    objects[i] = i % 2 ? GC_malloc_uncollectable(size) : GC_malloc_atomic_uncollectable(size);
  CHECK_GE(GC_get_non_gc_bytes(), before + 100 * size);
  CHECK_LE(GC_get_non_gc_bytes(), before + 140 * size);
  for (size_t i = 0; i < 100; i++) GC_free(objects[i]);
  CHECK_EQ(GC_get_non_gc_bytes(), before);
}

static void heap_size(void) {
  size_t before = GC_get_heap_size();
  static void *held[40];
  CHECK_EQ(GC_expand_hp(4 << 20), 1);
  CHECK_GE(GC_get_heap_size(), before + (4 << 20));
  for (size_t i = 0; i < 40; i++) held[i] = GC_malloc_atomic(1 << 20);
  CHECK_GE(GC_get_heap_size(), 40 << 20);
  CHECK_GE(GC_get_obtained_from_os_bytes(), GC_get_heap_size());
  GC_gcollect();
  CHECK_GE(GC_get_heap_size(), GC_get_free_bytes() + (40 << 20));
  if (on_gleaner()) {
    /* libgc counts more than the heap. */
    CHECK_GE(GC_get_memory_use(), 40 << 20);
    CHECK_LE(GC_get_memory_use(), GC_get_heap_size());
  }
  memset(held, 0, sizeof held);
  before = GC_get_free_bytes() + GC_get_unmapped_bytes();
  collect();
  CHECK_GE(GC_get_free_bytes() + GC_get_unmapped_bytes(), before + (30 << 20));
  GC_gcollect_and_unmap();
  CHECK_GE(GC_get_unmapped_bytes(), on_gleaner() ? 20 << 20 : 1 << 20);
  /* And it is still usable. */
  for (size_t i = 0; i < 40; i++) {
    held[i] = GC_malloc(1 << 20);
    CHECK(((char *)held[i])[12345] == 0);
  }
  memset(held, 0, sizeof held);
}

static void together(void) {
  GC_word heap, free_bytes, unmapped, since, total;
  struct {
    struct GC_prof_stats_s known;
    GC_word unknown[2];
  } stats;
  CHECK_EQ(sizeof(struct GC_prof_stats_s), 96);
  GC_disable();
  GC_get_heap_usage_safe(&heap, &free_bytes, &unmapped, &since, &total);
  CHECK_EQ(heap, GC_get_heap_size());
  CHECK_EQ(free_bytes, GC_get_free_bytes());
  CHECK_EQ(unmapped, GC_get_unmapped_bytes());
  CHECK_EQ(since, GC_get_bytes_since_gc());
  CHECK_EQ(total, GC_get_total_bytes());
  GC_get_heap_usage_safe(NULL, NULL, NULL, NULL, NULL);

  memset(&stats, 0x55, sizeof stats);
  CHECK_EQ(GC_get_prof_stats((struct GC_prof_stats_s *)&stats, sizeof stats), 96);
  CHECK_EQ(stats.unknown[0], (GC_word)-1);
  CHECK_EQ(stats.unknown[1], (GC_word)-1);
  CHECK_EQ(stats.known.heapsize_full, heap + unmapped);
  CHECK_EQ(stats.known.free_bytes_full, free_bytes + unmapped);
  CHECK_EQ(stats.known.unmapped_bytes, unmapped);
  CHECK_EQ(stats.known.bytes_allocd_since_gc, since);
  CHECK_EQ(stats.known.allocd_bytes_before_gc + since, total);
  CHECK_EQ(stats.known.gc_no, GC_get_gc_no());
  CHECK_EQ(stats.known.markers_m1, (GC_word)GC_get_parallel());
  CHECK_EQ(stats.known.non_gc_bytes, GC_get_non_gc_bytes());
  CHECK_EQ(stats.known.expl_freed_bytes_since_gc, GC_get_expl_freed_bytes_since_gc());
  CHECK_EQ(stats.known.obtained_from_os_bytes, GC_get_obtained_from_os_bytes());

  for (size_t size = 0; size < sizeof stats.known; size += 8) {
    memset(&stats, 0x55, sizeof stats);
    CHECK_EQ(GC_get_prof_stats((struct GC_prof_stats_s *)&stats, size), size);
    if (size != 0) CHECK_EQ(stats.known.heapsize_full, heap + unmapped);
    CHECK_EQ(*(GC_word *)((char *)&stats + size), 0x5555555555555555);
  }
  GC_alloc_lock();
  CHECK_EQ(GC_get_prof_stats_unsafe(&stats.known, sizeof stats.known), 96);
  GC_alloc_unlock();
  CHECK_EQ(stats.known.gc_no, GC_get_gc_no());
  GC_enable();
}

static void reclaimed_bytes(void) {
  struct GC_prof_stats_s before, after;
  collect();
  GC_get_prof_stats(&before, sizeof before);
  GC_disable();
  for (size_t i = 0; i < 20; i++) GC_malloc_atomic(1 << 20);
  GC_enable();
  collect();
  GC_gcollect();
  GC_get_prof_stats(&after, sizeof after);
  CHECK_GE(after.reclaimed_bytes_before_gc + after.bytes_reclaimed_since_gc,
           before.reclaimed_bytes_before_gc + before.bytes_reclaimed_since_gc + (15 << 20));
}

static void collection_time(void) {
  static void *list;
  GC_start_performance_measurement();
  for (size_t i = 0; i < 1000000; i++) {
    void **n = (void **)GC_malloc(32);
    *n = list;
    list = n;
  }
  unsigned long before = GC_get_full_gc_total_time();
  for (size_t i = 0; i < 10; i++) GC_gcollect();
  CHECK_GE(GC_get_full_gc_total_time(), before + 1);
  list = NULL;
  if (getenv("GLEANER_CONCURRENT") != NULL) return;
  /* Nothing has asked for incremental collections, so none is started. */
  before = (unsigned long)GC_get_gc_no();
  CHECK_EQ(GC_is_incremental_mode(), 0);
  GC_start_incremental_collection();
  CHECK_EQ(GC_get_gc_no(), before);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc);
  allocated_bytes();
  freed_bytes();
  /* libgc forgets to add some small objects and all large ones, but subtracts them when freed. */
  if (on_gleaner()) {
    uncollectable_bytes(1000);
    uncollectable_bytes(10000);
  }
  heap_size();
  together();
  reclaimed_bytes();
  collection_time();
  return check_result();
}
