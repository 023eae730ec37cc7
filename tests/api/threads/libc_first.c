/* The C library stands before the collector in the search order (see CMakeLists.txt): what the
 * collector wraps must still reach the C library. */
#include "check.h"

static void *allocate(void *arg) {
  CHECK(GC_malloc(100) != NULL);
  return arg;
}

int main(void) {
  sigset_t all, old;
  int token;
  fail_after(30);
  GC_INIT();
  sigfillset(&all);
  sigemptyset(&old);
  CHECK_EQ(GC_pthread_sigmask(SIG_SETMASK, NULL, &old), 0);
  CHECK_EQ(sigismember(&old, SIGUSR1), 0);
  CHECK_EQ(GC_pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
  CHECK_EQ(GC_pthread_sigmask(SIG_SETMASK, NULL, &old), 0);
  CHECK_EQ(sigismember(&old, SIGUSR1), 1);
  CHECK_EQ(sigismember(&old, GC_get_suspend_signal()), 0);
  CHECK_PTR(run_in_thread(allocate, &token), &token);
  collect();
  return check_result();
}
