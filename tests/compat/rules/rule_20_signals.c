/* Rule 20: the numbers of the suspend and restart signals are valid; GC_pthread_sigmask keeps the
   suspend signal open. */
#include <signal.h>

#include "check.h"

static volatile int stop, masked;

static void *block_all(void *arg) {
  sigset_t all, now;
  void *volatile object = GC_malloc(64);
  (void)arg;
  memset(object, 0x21, 64);
  sigfillset(&all);
  CHECK_EQ(GC_pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
  sigemptyset(&now);
  CHECK_EQ(GC_pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
  CHECK_EQ(sigismember(&now, SIGUSR1), 1);
  CHECK_EQ(sigismember(&now, SIGTERM), 1);
  CHECK_EQ(sigismember(&now, GC_get_suspend_signal()), 0);
  CHECK_EQ(GC_pthread_sigmask(SIG_SETMASK, &all, &now), 0);
  CHECK_EQ(sigismember(&now, SIGUSR1), 1);
  CHECK_EQ(GC_pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
  CHECK_EQ(sigismember(&now, GC_get_suspend_signal()), 0);
  masked = 1;
  while (!stop) {
  }
  CHECK_EQ(((char *)object)[63], 0x21);
  CHECK_EQ(GC_pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
  CHECK_EQ(GC_pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
  CHECK_EQ(sigismember(&now, SIGUSR1), 0);
  return NULL;
}

int main(void) {
  pthread_t thread;
  sigset_t set;
  int i;
  fail_after(30);
  CHECK_EQ(GC_get_suspend_signal(), SIGPWR);
  CHECK_EQ(GC_get_thr_restart_signal(), SIGXCPU);
  GC_INIT();
  sigemptyset(&set);
  CHECK_EQ(sigaddset(&set, GC_get_suspend_signal()), 0);
  CHECK_EQ(sigaddset(&set, GC_get_thr_restart_signal()), 0);
  CHECK_NE(GC_get_suspend_signal(), GC_get_thr_restart_signal());
  CHECK_EQ(pthread_create(&thread, NULL, block_all, NULL), 0);
  while (!masked) {
  }
  for (i = 0; i < 10; i++) {
    GC_word before = GC_get_gc_no();
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before + 1);
  }
  stop = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
  return check_result();
}
