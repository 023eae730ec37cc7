/* Every setting: its default, before and after the start, that setter, getter and variable agree,
   that the start keeps what was set before it, and what GC_INIT does with the macros of gc.h.
   Rules 1 (GC_init again does nothing), 2 (setters before the start), 5 (version), 8
   (defaults). */
#define GC_MAX_RETRIES 2
#define GC_FREE_SPACE_DIVISOR 4
#define GC_FULL_FREQ 21
#define GC_TIME_LIMIT 50
#define GC_ALLOCD_BYTES_PER_FINALIZER 5000
#define GC_INITIAL_HEAP_SIZE (8 << 20)
#define GC_MAXIMUM_HEAP_SIZE (256 << 20)
#define GC_IGNORE_WARN
#include "check.h"

#include <gc/gc_mark.h>
#include <gc/javaxfc.h>

/* Name, default, two other values. Those with a variable of their name; those without; and those
   that the start fixes. */
#define VARIABLES(S)               \
  S(finalize_on_demand, 0, 1, 2)   \
  S(java_finalization, 1, 0, 2)    \
  S(dont_expand, 0, 1, 2)          \
  S(full_freq, 19, 7, 1000)        \
  S(dont_precollect, 0, 1, 2)      \
  S(no_dls, 0, 1, 2)               \
  S(non_gc_bytes, 0, 4096, 123456) \
  S(free_space_divisor, 3, 5, 100) \
  S(max_retries, 0, 2, 5)          \
  S(time_limit, GC_TIME_UNLIMITED, 33, 1)
#define FUNCTIONS_ALONE(S)                    \
  S(allocd_bytes_per_finalizer, 10000, 77, 0) \
  S(max_prior_attempts, 1, 2, 7)              \
  S(min_bytes_allocd, 1, 555, 100000)         \
  S(rate, 10, 6, 50)                          \
  S(force_unmap_on_gcollect, 0, 1, 1)         \
  S(disable_automatic_collection, 0, 1, 1)    \
  S(pages_executable, 0, 1, 1)                \
  S(manual_vdb_allowed, 0, 1, 1)
#define FIXED_AT_THE_START(S)       \
  S(all_interior_pointers, 1, 0, 0) \
  S(suspend_signal, 30, 41, 44)     \
  S(thr_restart_signal, 24, 42, 45)

/* Name, whether there is one by default, another one, twice. With a variable, and without. */
#define CALLBACK_VARIABLES(S)                    \
  S(oom_fn, 1, no_memory, no_memory)             \
  S(finalizer_notifier, 0, nothing, nothing)     \
  S(on_heap_resize, 0, ignore_word, ignore_word) \
  S(push_other_roots, 1, nothing, nothing)
#define CALLBACKS_ALONE(S)                                \
  S(warn_proc, 1, ignore_warning, ignore_warning)         \
  S(abort_func, 1, ignore_reason, ignore_reason)          \
  S(stop_func, 1, never, never)                           \
  S(on_collection_event, 0, ignore_event, ignore_event)   \
  S(on_thread_event, 0, ignore_thread, ignore_thread)     \
  S(await_finalize_proc, 0, ignore_object, ignore_object) \
  S(start_callback, 0, nothing, nothing)                  \
  S(toggleref_func, 0, keep, keep)

static void *GC_CALLBACK no_memory(size_t bytes) { return NULL; }
static void GC_CALLBACK nothing(void) {}
static void GC_CALLBACK ignore_word(GC_word word) { (void)word; }
static void GC_CALLBACK ignore_warning(char *format, GC_word word) {}
static void GC_CALLBACK ignore_reason(const char *reason) { (void)reason; }
static void GC_CALLBACK ignore_object(void *object) { (void)object; }
static void GC_CALLBACK ignore_event(GC_EventType event) { (void)event; }
static void GC_CALLBACK ignore_thread(GC_EventType event, void *thread) {}
static int GC_CALLBACK never(void) { return 0; }
static GC_ToggleRefStatus GC_CALLBACK keep(void *object) { return GC_TOGGLE_REF_STRONG; }

#define IS_DEFAULT(name, usual, one, two) CHECK_EQ(GC_get_##name(), usual);
#define IS_DEFAULT_VARIABLE(name, usual, one, two) CHECK_EQ(GC_##name, usual);
#define IS_THERE(name, usual, one, two) CHECK_EQ(GC_get_##name() != NULL, usual);
#define IS_VARIABLE_THERE(name, usual, one, two) CHECK_EQ(GC_##name != NULL, usual);
static void defaults(void) {
  VARIABLES(IS_DEFAULT)
  VARIABLES(IS_DEFAULT_VARIABLE)
  FUNCTIONS_ALONE(IS_DEFAULT)
  FIXED_AT_THE_START(IS_DEFAULT)
  CALLBACK_VARIABLES(IS_THERE)
  CALLBACK_VARIABLES(IS_VARIABLE_THERE)
  CALLBACKS_ALONE(IS_THERE)
  CHECK_EQ(GC_all_interior_pointers, 1);
  CHECK_EQ(GC_get_find_leak() + GC_find_leak, 0);
  CHECK_EQ(GC_use_entire_heap, 0);
  CHECK_EQ(GC_get_time_limit_tv().tv_ms, GC_TIME_UNLIMITED);
  CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 0);
  CHECK_EQ(GC_get_debug_header_size(), 32);
  CHECK_EQ(GC_debug_header_size, 32);
  CHECK_EQ(GC_is_disabled(), 0);
  CHECK_EQ(GC_dont_gc, 0);
  CHECK_EQ(GC_get_full_gc_total_time(), 0);
  CHECK_EQ(GC_get_expl_freed_bytes_since_gc(), 0);
  CHECK_EQ(GC_get_unmapped_bytes(), 0);
  CHECK_LE(GC_get_gc_no(), 1);
  CHECK_EQ(GC_get_version(), 0x080202);
  CHECK_EQ((GC_VERSION_MAJOR << 16) | (GC_VERSION_MINOR << 8) | GC_VERSION_MICRO, GC_get_version());
}

/* There and back. */
#define GO(name, to) \
  GC_set_##name(to); \
  CHECK_EQ(GC_get_##name(), to);
#define ROUND_TRIP(name, usual, one, two)              \
  do {                                                 \
    __typeof__(GC_get_##name()) old = GC_get_##name(); \
    GO(name, one) GO(name, two) GO(name, old)          \
  } while (0);
#define VARIABLE_TRIP(name, usual, one, two)           \
  do {                                                 \
    __typeof__(GC_get_##name()) old = GC_get_##name(); \
    GC_set_##name(one);                                \
    CHECK_EQ(GC_##name, one);                          \
    GC_##name = two;                                   \
    CHECK_EQ(GC_get_##name(), two);                    \
    GC_##name = old;                                   \
    CHECK_EQ(GC_get_##name(), old);                    \
  } while (0);
static void round_trips(void) {
  struct GC_timeval_s old = GC_get_time_limit_tv(), limit = {7, 999};
  VARIABLES(ROUND_TRIP)
  VARIABLES(VARIABLE_TRIP)
  FUNCTIONS_ALONE(ROUND_TRIP)
  CALLBACK_VARIABLES(ROUND_TRIP)
  CALLBACK_VARIABLES(VARIABLE_TRIP)
  CALLBACKS_ALONE(ROUND_TRIP)
  GC_set_find_leak(1);
  CHECK_EQ(GC_get_find_leak() + GC_find_leak, 2);
  GC_find_leak = 0;
  CHECK_EQ(GC_get_find_leak(), 0);
  CHECK_EQ(GC_is_disabled(), GC_dont_gc != 0);
  GC_set_time_limit_tv(limit);
  CHECK_EQ(GC_get_time_limit(), 7);
  CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 999);
  GC_set_time_limit(9);
  CHECK_EQ(GC_get_time_limit_tv().tv_ms, 9);
  CHECK_EQ(GC_get_time_limit_tv().tv_nsec, 999);
  GC_set_time_limit_tv(old);
}

static void constants(void) {
  CHECK_EQ(GC_SUCCESS, 0);
  CHECK_EQ(GC_DUPLICATE, 1);
  CHECK_EQ(GC_NO_THREADS, 2);
  CHECK_EQ(GC_NO_MEMORY, 2);
  CHECK_EQ(GC_UNIMPLEMENTED, 3);
  CHECK_EQ(GC_NOT_FOUND, 4);
  CHECK_EQ(GC_TIME_UNLIMITED, 999999);
  CHECK_EQ(GC_PROTECTS_POINTER_HEAP, 1);
  CHECK_EQ(GC_PROTECTS_PTRFREE_HEAP, 2);
  CHECK_EQ(GC_PROTECTS_STATIC_DATA, 4);
  CHECK_EQ(GC_PROTECTS_STACK, 8);
  CHECK_EQ(GC_PROTECTS_NONE, 0);
  CHECK_EQ(GC_TOGGLE_REF_DROP, 0);
  CHECK_EQ(GC_TOGGLE_REF_STRONG, 1);
  CHECK_EQ(GC_TOGGLE_REF_WEAK, 2);
  CHECK_EQ(GC_EVENT_START, 0);
  CHECK_EQ(GC_EVENT_RECLAIM_END, 4);
  CHECK_EQ(GC_EVENT_PRE_STOP_WORLD, 6);
  CHECK_EQ(GC_EVENT_POST_START_WORLD, 9);
  CHECK_EQ(GC_EVENT_THREAD_UNSUSPENDED, 11);
  CHECK_EQ(sizeof(GC_word), 8);
  CHECK_EQ(sizeof(struct GC_stack_base), 8);
  CHECK_EQ(sizeof(struct GC_timeval_s), 16);
  CHECK_EQ(GC_HIDE_POINTER(0x1234), ~(GC_word)0x1234);
}

/* Whatever may be asked before the start, the way programs' GC_INIT preludes do. */
static void before_the_start(void) {
  CHECK(!GC_is_init_called());
  constants();
  defaults();
  CHECK_EQ(GC_get_heap_size() + GC_get_total_bytes() + GC_get_bytes_since_gc(), 0);
  CHECK_EQ(GC_get_free_bytes() + (size_t)GC_get_parallel(), 0);
  CHECK_NULL(GC_stackbottom);
  round_trips();
  FIXED_AT_THE_START(ROUND_TRIP)
  GC_all_interior_pointers = 0;
  CHECK_EQ(GC_get_all_interior_pointers(), 0);
  GC_all_interior_pointers = 1;
  CHECK_EQ(GC_get_all_interior_pointers(), 1);
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
  GC_set_abort_func(ignore_reason);
  CHECK(GC_on_abort == ignore_reason);
  round_trips();
  GC_set_suspend_signal(44);
  CHECK_EQ(GC_get_suspend_signal(), 30);
  GC_set_thr_restart_signal(44);
  CHECK_EQ(GC_get_thr_restart_signal(), 24);
  CHECK_GE(GC_get_parallel(), 0);
  CHECK_EQ(GC_get_parallel(), GC_parallel);
  CHECK_EQ(GC_thread_is_registered(), 1);
  CHECK(GC_stackbottom != NULL && GC_stackbottom > (char *)__builtin_frame_address(0));
  GC_set_log_fd(2);
}

static void defaults_after_the_start(void *unused) {
  GC_init();
  defaults();
  /* Gleaner takes the first memory at the first allocation. */
  if (!on_gleaner()) CHECK_GE(GC_get_heap_size(), 1);
  CHECK_GE(GC_get_obtained_from_os_bytes(), GC_get_heap_size());
  CHECK_EQ(GC_get_memory_use(), 0);
  CHECK_EQ(GC_incremental_protection_needs() & ~GC_PROTECTS_POINTER_HEAP, 0); /* by the kernel */
  CHECK_EQ(GC_collect_a_little(), 0);
  CHECK_EQ(GC_expand_hp(1 << 20), 1);
  CHECK_EQ(GC_expand_hp(1), 1);
}

#define SET(name, usual, one, two) GC_set_##name(one);
#define IS_SET(name, usual, one, two) CHECK_EQ(GC_get_##name(), one);
static void start_keeps_what_was_set(void *unused) {
  VARIABLES(SET)
  FUNCTIONS_ALONE(SET)
  FIXED_AT_THE_START(SET)
  CALLBACKS_ALONE(SET)
  GC_set_oom_fn(no_memory);
  GC_set_finalizer_notifier(nothing);
  GC_disable();
  CHECK_EQ(GC_is_init_called(), 0);
  for (int round = 0; round < 2; round++) {
    VARIABLES(IS_SET)
    FUNCTIONS_ALONE(IS_SET)
    FIXED_AT_THE_START(IS_SET)
    CALLBACKS_ALONE(IS_SET)
    CHECK(GC_get_oom_fn() == no_memory);
    CHECK(GC_get_finalizer_notifier() == nothing);
    CHECK_NE(GC_is_disabled(), 0);
    CHECK_EQ(GC_dont_gc, 1);
    if (round == 0) GC_init();
    CHECK(GC_is_init_called());
  }
  GC_enable();
  CHECK_EQ(GC_is_disabled(), 0);
}

int main(void) {
  size_t i;
  CHECK_IN_CHILD(defaults_after_the_start, NULL);
  CHECK_IN_CHILD(start_keeps_what_was_set, NULL);
  before_the_start();
  GC_INIT();
  after_the_start();
  GC_word collections = GC_get_gc_no();
  size_t heap = GC_get_heap_size();
  for (i = 0; i < 20000; i++) { /* homfly does */
    GC_INIT();
    GC_init();
  }
  CHECK_EQ(GC_get_gc_no(), collections);
  CHECK_EQ(GC_get_heap_size(), heap);
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
