/* Every setting: its default, before and after GC_init, that setter, getter and variable agree, and
   what GC_INIT does with the macros of gc.h. */
#define GC_MAX_RETRIES 2
#define GC_FREE_SPACE_DIVISOR 4
#define GC_FULL_FREQ 21
#define GC_TIME_LIMIT 50
#define GC_ALLOCD_BYTES_PER_FINALIZER 5000
#define GC_INITIAL_HEAP_SIZE (8 << 20)
#define GC_MAXIMUM_HEAP_SIZE (256 << 20)
#define GC_IGNORE_WARN
#include "check.h"

/* Each function pair `name` of `type`: round trips of two values, and back. */
#define ROUND_TRIP(type, name, one, two)  \
  do {                                    \
    type old_value = GC_get_##name();     \
    GC_set_##name(one);                   \
    CHECK_EQ(GC_get_##name(), one);       \
    GC_set_##name(two);                   \
    CHECK_EQ(GC_get_##name(), two);       \
    GC_set_##name(old_value);             \
    CHECK_EQ(GC_get_##name(), old_value); \
  } while (0)

/* The same, with the variable of that name. */
#define WITH_VARIABLE(type, name, one, two) \
  do {                                      \
    type old = GC_##name;                   \
    ROUND_TRIP(type, name, one, two);       \
    GC_set_##name(one);                     \
    CHECK_EQ(GC_##name, one);               \
    GC_##name = two;                        \
    CHECK_EQ(GC_get_##name(), two);         \
    GC_##name = old;                        \
    CHECK_EQ(GC_get_##name(), old);         \
  } while (0)

static void GC_CALLBACK warn(char *format, GC_word argument) {
  (void)format;
  (void)argument;
}
static void GC_CALLBACK say_abort(const char *reason) { (void)reason; }

static void round_trips(void) {
  WITH_VARIABLE(int, finalize_on_demand, 1, 0);
  WITH_VARIABLE(int, java_finalization, 0, 1);
  WITH_VARIABLE(int, dont_expand, 1, 0);
  WITH_VARIABLE(int, full_freq, 3, 100);
  WITH_VARIABLE(int, dont_precollect, 1, 0);
  WITH_VARIABLE(int, no_dls, 1, 0);
  WITH_VARIABLE(GC_word, non_gc_bytes, 123456, 0);
  WITH_VARIABLE(GC_word, free_space_divisor, 1, 10);
  WITH_VARIABLE(GC_word, max_retries, 5, 0);
  WITH_VARIABLE(unsigned long, time_limit, 10, GC_TIME_UNLIMITED);
  ROUND_TRIP(GC_word, allocd_bytes_per_finalizer, 0, 20000);
  ROUND_TRIP(int, max_prior_attempts, 3, 2);
  ROUND_TRIP(size_t, min_bytes_allocd, 100000, 7);
  ROUND_TRIP(int, rate, 1, 20);
  ROUND_TRIP(int, force_unmap_on_gcollect, 1, 0);
  ROUND_TRIP(int, disable_automatic_collection, 1, 0);
  CHECK_EQ(GC_is_disabled(), GC_dont_gc != 0);
  {
    struct GC_timeval_s old = GC_get_time_limit_tv(), limit = {7, 999};
    GC_set_time_limit_tv(limit);
    CHECK_EQ(GC_get_time_limit(), 7);
    CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 999);
    GC_set_time_limit(9);
    CHECK_EQ(GC_get_time_limit_tv().tv_ms, 9);
    GC_set_time_limit_tv(old);
  }
}

/* Whatever may be asked before the start, the way programs' GC_INIT preludes do. */
static void before_the_start(void) {
  CHECK(!GC_is_init_called());
  CHECK_EQ(GC_get_version(), 0x080202);
  CHECK_EQ(GC_get_gc_no(), 0);
  CHECK_EQ(GC_get_all_interior_pointers(), 1);
  CHECK_EQ(GC_get_java_finalization(), 1);
  CHECK_EQ(GC_get_finalize_on_demand(), 0);
  CHECK_EQ(GC_get_free_space_divisor(), 3);
  CHECK_EQ(GC_get_full_freq(), 19);
  CHECK_EQ(GC_get_time_limit(), GC_TIME_UNLIMITED);
  CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 0);
  CHECK_EQ(GC_get_max_retries(), 0);
  CHECK_EQ(GC_get_dont_expand(), 0);
  CHECK_EQ(GC_get_dont_precollect(), 0);
  CHECK_EQ(GC_get_no_dls(), 0);
  CHECK_EQ(GC_get_non_gc_bytes(), 0);
  CHECK_EQ(GC_get_allocd_bytes_per_finalizer(), 10000);
  CHECK_EQ(GC_get_max_prior_attempts(), 1);
  CHECK_EQ(GC_get_min_bytes_allocd(), 1);
  CHECK_EQ(GC_get_rate(), 10);
  CHECK_EQ(GC_get_force_unmap_on_gcollect(), 0);
  CHECK_EQ(GC_get_pages_executable(), 0);
  CHECK_EQ(GC_get_disable_automatic_collection(), 0);
  CHECK_EQ(GC_get_suspend_signal(), 30);
  CHECK_EQ(GC_get_thr_restart_signal(), 24);
  CHECK(GC_get_oom_fn() != NULL && GC_get_warn_proc() != NULL && GC_get_abort_func() != NULL);
  CHECK(GC_get_finalizer_notifier() == NULL && GC_get_on_heap_resize() == NULL);
  CHECK(GC_get_on_collection_event() == NULL && GC_get_on_thread_event() == NULL);
  CHECK(GC_get_await_finalize_proc() == NULL && GC_get_start_callback() == NULL);
  CHECK(GC_get_push_other_roots() != NULL || GC_push_other_roots == NULL);
  CHECK_EQ(GC_use_entire_heap, 0);
  round_trips();
  ROUND_TRIP(int, all_interior_pointers, 0, 1);
  GC_all_interior_pointers = 0;
  CHECK_EQ(GC_get_all_interior_pointers(), 0);
  GC_all_interior_pointers = 1;
  ROUND_TRIP(int, suspend_signal, 44, 45);
  ROUND_TRIP(int, thr_restart_signal, 46, 47);
  CHECK(!GC_is_init_called());
}

static void after_the_start(void) {
  CHECK(GC_is_init_called());
  CHECK_EQ(GC_get_max_retries(), 2);
  CHECK_EQ(GC_get_free_space_divisor(), 4);
  CHECK_EQ(GC_get_full_freq(), 21);
  CHECK_EQ(GC_get_time_limit(), 50);
  CHECK_EQ(GC_get_allocd_bytes_per_finalizer(), 5000);
  CHECK_GE(GC_get_heap_size(), 8 << 20);
  CHECK_EQ(GC_expand_hp(512 << 20), 0);
  CHECK(GC_get_warn_proc() == GC_ignore_warn_proc);
  GC_set_warn_proc(warn);
  CHECK(GC_get_warn_proc() == warn);
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_set_abort_func(say_abort);
  CHECK(GC_get_abort_func() == say_abort);
  CHECK(GC_on_abort == say_abort);
  round_trips();
  /* Fixed by now. */
  GC_set_suspend_signal(44);
  CHECK_EQ(GC_get_suspend_signal(), 30);
  GC_set_thr_restart_signal(44);
  CHECK_EQ(GC_get_thr_restart_signal(), 24);
  CHECK_GE(GC_get_parallel(), 0);
  CHECK_EQ(GC_get_parallel(), GC_parallel);
  CHECK(GC_stackbottom != NULL && GC_stackbottom > (char *)__builtin_frame_address(0));
  GC_set_log_fd(2);
}

int main(void) {
  size_t i;
  before_the_start();
  GC_INIT();
  after_the_start();
  for (i = 0; i < 20000; i++) GC_INIT(); /* homfly does */
  GC_init();
  /* Settings stay what they are while the collector works. */
  for (i = 0; i < 1000000; i++) GC_malloc(64);
  GC_gcollect();
  CHECK_EQ(GC_get_full_freq(), 21);
  GC_noop1((GC_word)i);
  CHECK_PTR(GC_clear_stack(&i), &i);
  GC_deinit();
  CHECK(!GC_is_init_called());
  GC_deinit();
  return check_result();
}
