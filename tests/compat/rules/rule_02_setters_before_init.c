/* Rule 2: GC_INIT() is setters and then GC_init(): setters and getters work before the start, start
   nothing, and the start keeps what they said. */
#include "check.h"

#define BEFORE(name, value)           \
  do {                                \
    GC_set_##name(value);             \
    CHECK_EQ(GC_get_##name(), value); \
  } while (0)

static void *GC_CALLBACK no_memory(size_t bytes) {
  (void)bytes;
  return NULL;
}
static void GC_CALLBACK notified(void) {}
static void GC_CALLBACK warned(char *format, GC_word argument) {
  (void)format;
  (void)argument;
}

int main(void) {
  int round;
  for (round = 0; round < 2; round++) {
    if (round == 0) {
      BEFORE(all_interior_pointers, 0);
      BEFORE(finalize_on_demand, 1);
      BEFORE(java_finalization, 0);
      BEFORE(dont_expand, 1);
      BEFORE(full_freq, 7);
      BEFORE(non_gc_bytes, 4096);
      BEFORE(no_dls, 1);
      BEFORE(free_space_divisor, 5);
      BEFORE(max_retries, 2);
      BEFORE(dont_precollect, 1);
      BEFORE(time_limit, 33);
      BEFORE(allocd_bytes_per_finalizer, 77);
      BEFORE(min_bytes_allocd, 555);
      BEFORE(rate, 6);
      BEFORE(max_prior_attempts, 2);
      BEFORE(disable_automatic_collection, 1);
      BEFORE(force_unmap_on_gcollect, 1);
      GC_set_oom_fn(no_memory);
      GC_set_finalizer_notifier(notified);
      GC_set_warn_proc(warned);
      GC_set_suspend_signal(41);
      GC_set_thr_restart_signal(42);
      GC_disable();
      CHECK_EQ(GC_is_init_called(), 0);
      GC_INIT();
      CHECK(GC_is_init_called());
    }
    CHECK_EQ(GC_get_all_interior_pointers(), 0);
    CHECK_EQ(GC_get_finalize_on_demand(), 1);
    CHECK_EQ(GC_get_java_finalization(), 0);
    CHECK_EQ(GC_get_dont_expand(), 1);
    CHECK_EQ(GC_get_full_freq(), 7);
    CHECK_EQ(GC_get_no_dls(), 1);
    CHECK_EQ(GC_get_non_gc_bytes(), 4096);
    CHECK_EQ(GC_get_free_space_divisor(), 5);
    CHECK_EQ(GC_get_max_retries(), 2);
    CHECK_EQ(GC_get_dont_precollect(), 1);
    CHECK_EQ(GC_get_time_limit(), 33);
    CHECK_EQ(GC_get_allocd_bytes_per_finalizer(), 77);
    CHECK_EQ(GC_get_min_bytes_allocd(), 555);
    CHECK_EQ(GC_get_rate(), 6);
    CHECK_EQ(GC_get_max_prior_attempts(), 2);
    CHECK_EQ(GC_get_disable_automatic_collection(), 1);
    CHECK_EQ(GC_get_force_unmap_on_gcollect(), 1);
    CHECK(GC_get_oom_fn() == no_memory);
    CHECK(GC_get_finalizer_notifier() == notified);
    CHECK(GC_get_warn_proc() == warned);
    CHECK_EQ(GC_get_suspend_signal(), 41);
    CHECK_EQ(GC_get_thr_restart_signal(), 42);
    CHECK_NE(GC_is_disabled(), 0);
  }
  GC_enable();
  CHECK_EQ(GC_is_disabled(), 0);
  return check_result();
}
