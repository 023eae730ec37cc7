/* Defaults before and after the start, and round trips of every setter. */
#include "gc_mark.h"
#include "oracle.h"

static void defaults(void) {
  struct GC_timeval_s limit = GC_get_time_limit_tv();
  SHOW(GC_get_version());
  SHOW(GC_get_gc_no() > 1);
  SHOW(GC_get_all_interior_pointers());
  SHOW(GC_get_finalize_on_demand());
  SHOW(GC_get_java_finalization());
  SHOW(GC_get_find_leak());
  SHOW(GC_get_dont_expand());
  SHOW(GC_get_dont_precollect());
  SHOW(GC_get_full_freq());
  SHOW(GC_get_non_gc_bytes());
  SHOW(GC_get_no_dls());
  SHOW(GC_get_free_space_divisor());
  SHOW(GC_get_max_retries());
  SHOW(GC_get_time_limit());
  SHOW(limit.tv_ms);
  SHOW(limit.tv_nsec);
  SHOW(GC_get_allocd_bytes_per_finalizer());
  SHOW(GC_get_pages_executable());
  SHOW(GC_get_min_bytes_allocd());
  SHOW(GC_get_rate());
  SHOW(GC_get_max_prior_attempts());
  SHOW(GC_get_disable_automatic_collection());
  SHOW(GC_get_force_unmap_on_gcollect());
  SHOW(GC_get_manual_vdb_allowed());
  SHOW(GC_get_suspend_signal());
  SHOW(GC_get_thr_restart_signal());
  SHOW(GC_is_disabled());
  SHOW(GC_is_incremental_mode());
  SHOW(GC_get_oom_fn() != NULL);
  SHOW(GC_get_warn_proc() != NULL);
  SHOW(GC_get_abort_func() != NULL);
  SHOW(GC_get_stop_func() != NULL);
  SHOW(GC_get_finalizer_notifier() != NULL);
  SHOW(GC_get_on_heap_resize() != NULL);
  SHOW(GC_get_on_collection_event() != NULL);
  SHOW(GC_get_on_thread_event() != NULL);
  SHOW(GC_get_await_finalize_proc() != NULL);
  SHOW(GC_get_start_callback() != NULL);
  SHOW(GC_get_toggleref_func() != NULL);
  SHOW(GC_get_push_other_roots() != NULL);
  SHOW(GC_get_full_gc_total_time());
  SHOW(GC_get_expl_freed_bytes_since_gc());
  SHOW(GC_get_unmapped_bytes());
  SHOW(GC_get_debug_header_size());
  SHOW(GC_debug_header_size);
  SHOW(GC_all_interior_pointers);
  SHOW(GC_dont_expand);
  SHOW(GC_dont_gc);
  SHOW(GC_dont_precollect);
  SHOW(GC_finalize_on_demand);
  SHOW(GC_finalizer_notifier != NULL);
  SHOW(GC_find_leak);
  SHOW(GC_free_space_divisor);
  SHOW(GC_full_freq);
  SHOW(GC_java_finalization);
  SHOW(GC_max_retries);
  SHOW(GC_no_dls);
  SHOW(GC_non_gc_bytes);
  SHOW(GC_on_heap_resize != NULL);
  SHOW(GC_oom_fn != NULL);
  SHOW(GC_push_other_roots != NULL);
  SHOW(GC_time_limit);
  SHOW(GC_use_entire_heap);
}

static void before(void) {
  SHOW(GC_is_init_called());
  defaults();
  SHOW(GC_get_heap_size());
  SHOW(GC_get_total_bytes());
  SHOW(GC_get_bytes_since_gc());
  SHOW(GC_get_free_bytes());
  SHOW(GC_get_parallel());
  SHOW(GC_stackbottom != NULL);
  SHOW(GC_is_init_called());
}

static void after(void) {
  SHOW(GC_is_init_called());
  defaults();
  SHOW(GC_stackbottom > (char *)__builtin_frame_address(0));
  SHOW(GC_get_parallel() == GC_parallel);
  SHOW(GC_thread_is_registered());
  SHOW(GC_get_heap_size() > 0);
  SHOW(GC_get_memory_use() > 0);
  SHOW(GC_get_obtained_from_os_bytes() >= GC_get_heap_size());
  SHOW(GC_incremental_protection_needs() & ~1); /* whether the heap is, depends on the kernel */
  SHOW(GC_collect_a_little());
  SHOW(GC_expand_hp(1 << 20));
  SHOW(GC_expand_hp(1));
  GC_init();
  SHOW(GC_get_full_freq());
}

#define ROUND_TRIP(name, value)                        \
  do {                                                 \
    GC_set_##name(value);                              \
    oracle_show(#name " <- " #value, GC_get_##name()); \
  } while (0)

static void *GC_CALLBACK oom(size_t bytes) {
  (void)bytes;
  return NULL;
}
static void GC_CALLBACK nothing(void) {}
static void GC_CALLBACK ignore_word(GC_word word) { (void)word; }
static void GC_CALLBACK ignore_warning(char *format, GC_word word) {
  (void)format;
  (void)word;
}
static void GC_CALLBACK ignore_reason(const char *reason) { (void)reason; }
static void GC_CALLBACK ignore_object(void *object) { (void)object; }
static void GC_CALLBACK ignore_event(GC_EventType event) { (void)event; }
static void GC_CALLBACK ignore_thread(GC_EventType event, void *thread) {
  (void)event;
  (void)thread;
}
static int GC_CALLBACK never(void) { return 0; }
static GC_ToggleRefStatus GC_CALLBACK keep(void *object) {
  (void)object;
  return GC_TOGGLE_REF_STRONG;
}

static void round_trips(void) {
  struct GC_timeval_s limit;
  ROUND_TRIP(finalize_on_demand, 1);
  ROUND_TRIP(finalize_on_demand, 0);
  ROUND_TRIP(java_finalization, 0);
  ROUND_TRIP(java_finalization, 1);
  ROUND_TRIP(dont_expand, 1);
  ROUND_TRIP(dont_expand, 0);
  ROUND_TRIP(dont_precollect, 1);
  ROUND_TRIP(full_freq, 0);
  ROUND_TRIP(full_freq, 1000);
  ROUND_TRIP(non_gc_bytes, 12345);
  ROUND_TRIP(non_gc_bytes, 0);
  ROUND_TRIP(no_dls, 1);
  ROUND_TRIP(no_dls, 0);
  ROUND_TRIP(free_space_divisor, 1);
  ROUND_TRIP(free_space_divisor, 100);
  ROUND_TRIP(max_retries, 3);
  ROUND_TRIP(time_limit, 1);
  ROUND_TRIP(time_limit, GC_TIME_UNLIMITED);
  ROUND_TRIP(allocd_bytes_per_finalizer, 0);
  ROUND_TRIP(allocd_bytes_per_finalizer, 5);
  ROUND_TRIP(min_bytes_allocd, 1);
  ROUND_TRIP(min_bytes_allocd, 100000);
  ROUND_TRIP(rate, 1);
  ROUND_TRIP(rate, 50);
  ROUND_TRIP(max_prior_attempts, 0);
  ROUND_TRIP(max_prior_attempts, 7);
  ROUND_TRIP(disable_automatic_collection, 1);
  ROUND_TRIP(disable_automatic_collection, 0);
  ROUND_TRIP(force_unmap_on_gcollect, 1);
  ROUND_TRIP(force_unmap_on_gcollect, 0);
  ROUND_TRIP(find_leak, 1);
  ROUND_TRIP(find_leak, 0);
  ROUND_TRIP(pages_executable, 1);
  ROUND_TRIP(pages_executable, 0);
  ROUND_TRIP(manual_vdb_allowed, 1);
  ROUND_TRIP(manual_vdb_allowed, 0);
  limit.tv_ms = 12;
  limit.tv_nsec = 345678;
  GC_set_time_limit_tv(limit);
  SHOW(GC_get_time_limit_tv().tv_ms);
  SHOW(GC_get_time_limit_tv().tv_nsec);
  SHOW(GC_get_time_limit());
  GC_set_time_limit(8);
  SHOW(GC_get_time_limit_tv().tv_ms);
  SHOW(GC_get_time_limit_tv().tv_nsec);
  GC_set_time_limit(GC_TIME_UNLIMITED);
  GC_set_oom_fn(oom);
  SHOW(GC_get_oom_fn() == oom);
  SHOW(GC_oom_fn == oom);
  GC_set_warn_proc(ignore_warning);
  SHOW(GC_get_warn_proc() == ignore_warning);
  GC_set_warn_proc(GC_ignore_warn_proc);
  SHOW(GC_get_warn_proc() == GC_ignore_warn_proc);
  GC_set_abort_func(ignore_reason);
  SHOW(GC_get_abort_func() == ignore_reason);
  GC_set_stop_func(never);
  SHOW(GC_get_stop_func() == never);
  GC_set_finalizer_notifier(nothing);
  SHOW(GC_get_finalizer_notifier() == nothing);
  SHOW(GC_finalizer_notifier == nothing);
  GC_set_finalizer_notifier(NULL);
  SHOW(GC_get_finalizer_notifier() == NULL);
  GC_set_on_heap_resize(ignore_word);
  SHOW(GC_get_on_heap_resize() == ignore_word);
  SHOW(GC_on_heap_resize == ignore_word);
  GC_set_on_heap_resize(NULL);
  GC_set_on_collection_event(ignore_event);
  SHOW(GC_get_on_collection_event() == ignore_event);
  GC_set_on_collection_event(NULL);
  GC_set_on_thread_event(ignore_thread);
  SHOW(GC_get_on_thread_event() == ignore_thread);
  GC_set_on_thread_event(NULL);
  GC_set_await_finalize_proc(ignore_object);
  SHOW(GC_get_await_finalize_proc() == ignore_object);
  GC_set_await_finalize_proc(NULL);
  GC_set_start_callback(nothing);
  SHOW(GC_get_start_callback() == nothing);
  GC_set_start_callback(NULL);
  GC_set_toggleref_func(keep);
  SHOW(GC_get_toggleref_func() == keep);
  GC_set_toggleref_func(NULL);
  SHOW(GC_get_toggleref_func() == NULL);
  GC_disable();
  GC_disable();
  SHOW(GC_is_disabled() != 0);
  SHOW(GC_dont_gc);
  SHOW(GC_try_to_collect(never));
  GC_enable();
  SHOW(GC_is_disabled() != 0);
  GC_enable();
  SHOW(GC_is_disabled() != 0);
  SHOW(GC_try_to_collect(never));
  GC_set_suspend_signal(44);
  SHOW(GC_get_suspend_signal());
  GC_set_thr_restart_signal(45);
  SHOW(GC_get_thr_restart_signal());
}

static void early_round_trips(void) {
  ROUND_TRIP(all_interior_pointers, 0);
  ROUND_TRIP(all_interior_pointers, 1);
  ROUND_TRIP(suspend_signal, 44);
  ROUND_TRIP(thr_restart_signal, 45);
  ROUND_TRIP(pages_executable, 1);
  ROUND_TRIP(find_leak, 1);
  ROUND_TRIP(find_leak, 0);
  ROUND_TRIP(dont_precollect, 1);
  GC_disable();
  SHOW(GC_dont_gc);
  SHOW(GC_is_init_called());
  GC_INIT();
  SHOW(GC_get_suspend_signal());
  SHOW(GC_get_thr_restart_signal());
  SHOW(GC_dont_gc);
  SHOW(GC_is_init_called());
  GC_enable();
  GC_deinit();
  SHOW(GC_is_init_called());
}

static void constants(void) {
  SHOW(GC_SUCCESS);
  SHOW(GC_DUPLICATE);
  SHOW(GC_NO_THREADS);
  SHOW(GC_NO_MEMORY);
  SHOW(GC_UNIMPLEMENTED);
  SHOW(GC_NOT_FOUND);
  SHOW(GC_TIME_UNLIMITED);
  SHOW(GC_PROTECTS_POINTER_HEAP);
  SHOW(GC_PROTECTS_PTRFREE_HEAP);
  SHOW(GC_PROTECTS_STATIC_DATA);
  SHOW(GC_PROTECTS_STACK);
  SHOW(GC_PROTECTS_NONE);
  SHOW(GC_TOGGLE_REF_DROP);
  SHOW(GC_TOGGLE_REF_STRONG);
  SHOW(GC_TOGGLE_REF_WEAK);
  SHOW(GC_EVENT_START);
  SHOW(GC_EVENT_MARK_START);
  SHOW(GC_EVENT_MARK_END);
  SHOW(GC_EVENT_RECLAIM_START);
  SHOW(GC_EVENT_RECLAIM_END);
  SHOW(GC_EVENT_END);
  SHOW(GC_EVENT_PRE_STOP_WORLD);
  SHOW(GC_EVENT_POST_STOP_WORLD);
  SHOW(GC_EVENT_PRE_START_WORLD);
  SHOW(GC_EVENT_POST_START_WORLD);
  SHOW(GC_EVENT_THREAD_SUSPENDED);
  SHOW(GC_EVENT_THREAD_UNSUSPENDED);
  SHOW(sizeof(GC_word));
  SHOW(sizeof(struct GC_prof_stats_s));
  SHOW(sizeof(struct GC_stack_base));
  SHOW(sizeof(struct GC_timeval_s));
  SHOW((GC_word)GC_HIDE_POINTER(0x1234));
}

static void statistics(void) {
  struct GC_prof_stats_s stats;
  GC_word heap = 1, free_bytes = 1, unmapped = 1, since = 1, total = 1;
  size_t i, before;
  static const size_t sizes[] = {0, 8, 16, 40, 88, 96};
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    memset(&stats, 0x11, sizeof stats);
    SHOW_AT("GC_get_prof_stats", sizes[i], GC_get_prof_stats(&stats, sizes[i]));
    SHOW_AT("bytes filled in", sizes[i],
            sizes[i] < sizeof stats && ((unsigned char *)&stats)[sizes[i]] == 0x11);
  }
  {
    char large[sizeof stats + 16];
    memset(large, 0x11, sizeof large);
    SHOW_AT("GC_get_prof_stats", sizeof large,
            GC_get_prof_stats((struct GC_prof_stats_s *)large, sizeof large));
    SHOW((unsigned char)large[sizeof stats]);
    SHOW((unsigned char)large[sizeof large - 1]);
    SHOW(GC_get_prof_stats_unsafe(&stats, sizeof stats));
  }
  GC_gcollect();
  GC_get_prof_stats(&stats, sizeof stats);
  SHOW(stats.gc_no == GC_get_gc_no());
  SHOW(stats.markers_m1 == (GC_word)GC_get_parallel());
  SHOW(stats.non_gc_bytes == GC_get_non_gc_bytes());
  SHOW(stats.heapsize_full == GC_get_heap_size() + GC_get_unmapped_bytes());
  SHOW(stats.free_bytes_full <= stats.heapsize_full);
  SHOW(stats.obtained_from_os_bytes == GC_get_obtained_from_os_bytes());
  SHOW(stats.expl_freed_bytes_since_gc == GC_get_expl_freed_bytes_since_gc());
  GC_get_heap_usage_safe(&heap, &free_bytes, &unmapped, &since, &total);
  SHOW(heap == GC_get_heap_size());
  SHOW(unmapped == GC_get_unmapped_bytes());
  SHOW(free_bytes <= heap);
  SHOW(since <= total);
  GC_get_heap_usage_safe(NULL, NULL, NULL, NULL, NULL);
  before = GC_get_total_bytes();
  for (i = 0; i < 1000; i++) GC_malloc(1 << 14);
  SHOW(GC_get_total_bytes() - before >= (size_t)1000 << 14);
  before = GC_get_non_gc_bytes();
  GC_free(GC_malloc_uncollectable(10000));
  SHOW(GC_get_non_gc_bytes() - before);
  before = (size_t)GC_get_gc_no();
  GC_gcollect();
  SHOW(GC_get_gc_no() - before);
  GC_gcollect_and_unmap();
  SHOW(GC_get_gc_no() - before);
  SHOW(GC_get_expl_freed_bytes_since_gc());
  SHOW(GC_is_incremental_mode());
  GC_start_incremental_collection();
  SHOW(GC_get_gc_no() - before);
  GC_start_performance_measurement();
  GC_gcollect();
  SHOW(GC_get_full_gc_total_time() < 10000);
}

static char events[200];
static void GC_CALLBACK note_event(GC_EventType event) {
  size_t n = strlen(events);
  snprintf(events + n, sizeof events - n, "%s%d", n ? " " : "", (int)event);
}
static int asked;
static int GC_CALLBACK at_once(void) {
  asked++;
  return 1;
}
static void collections(void) {
  GC_set_on_collection_event(note_event);
  GC_gcollect();
  SHOW_TEXT("events of GC_gcollect", events);
  events[0] = 0;
  SHOW(GC_try_to_collect(never));
  SHOW_TEXT("events of GC_try_to_collect", events);
  SHOW(GC_try_to_collect(at_once));
  SHOW(asked > 0);
  GC_set_on_collection_event(NULL);
  SHOW(GC_collect_a_little());
}

const struct oracle_section settings_sections[] = {{"constants", constants, 0},
                                                   {"before", before, 0},
                                                   {"after", after, 1},
                                                   {"round_trips", round_trips, 1},
                                                   {"early_round_trips", early_round_trips, 0},
                                                   {"statistics", statistics, 1},
                                                   {"collections", collections, 1},
                                                   {NULL, NULL, 0}};
