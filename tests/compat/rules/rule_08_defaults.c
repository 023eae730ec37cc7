/* Rule 8: the defaults that programs find. */
#include "check.h"

static void defaults(void) {
  CHECK_EQ(GC_get_all_interior_pointers(), 1);
  CHECK_EQ(GC_all_interior_pointers, 1);
  CHECK_EQ(GC_get_java_finalization(), 1);
  CHECK_EQ(GC_java_finalization, 1);
  CHECK_EQ(GC_get_finalize_on_demand(), 0);
  CHECK_EQ(GC_finalize_on_demand, 0);
  CHECK_EQ(GC_get_free_space_divisor(), 3);
  CHECK_EQ(GC_free_space_divisor, 3);
  CHECK_EQ(GC_get_full_freq(), 19);
  CHECK_EQ(GC_full_freq, 19);
  CHECK_EQ(GC_get_time_limit(), 999999);
  CHECK_EQ(GC_time_limit, 999999);
  CHECK_EQ(GC_TIME_UNLIMITED, 999999);
  CHECK_EQ(GC_get_suspend_signal(), 30);
  CHECK_EQ(GC_get_thr_restart_signal(), 24);
  CHECK_EQ(GC_get_no_dls(), 0);
  CHECK_EQ(GC_get_dont_expand(), 0);
  CHECK_EQ(GC_get_dont_precollect(), 0);
  CHECK_EQ(GC_get_non_gc_bytes(), 0);
  CHECK_EQ(GC_get_max_retries(), 0);
  CHECK_EQ(GC_is_disabled(), 0);
  CHECK_EQ(GC_dont_gc, 0);
  CHECK(GC_get_finalizer_notifier() == NULL);
}

int main(void) {
  defaults();
  GC_INIT();
  defaults();
  return check_result();
}
