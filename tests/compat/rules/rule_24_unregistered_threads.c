/* Rule 24: threads that nobody registered (libc's helpers for timers, aio, getaddrinfo) block all
   signals: a collection never waits for them. */
#include <aio.h>
#include <fcntl.h>
#include <signal.h>

#include "check.h"

static int (*system_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*system_join)(pthread_t, void **);
static int (*system_sigmask)(int, const sigset_t *, sigset_t *);
static volatile int waiting, stop, timer_runs;

static void *deaf(void *arg) {
  sigset_t all;
  (void)arg;
  sigfillset(&all);
  system_sigmask(SIG_SETMASK, &all, NULL);
  waiting = 1;
  while (!stop) sleep_ms(1);
  return NULL;
}

static void on_timer(union sigval value) {
  (void)value;
  timer_runs++;
}

int main(void) {
  struct sigevent event;
  struct itimerspec when;
  struct aiocb request;
  static char buffer[64];
  timer_t timer;
  pthread_t thread;
  size_t i;
  int pipes[2];
  fail_after(30);
  GC_INIT();
  *(void **)&system_create = dlsym(RTLD_DEFAULT, "pthread_create");
  *(void **)&system_join = dlsym(RTLD_DEFAULT, "pthread_join");
  *(void **)&system_sigmask = dlsym(RTLD_DEFAULT, "pthread_sigmask");

  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = on_timer;
  CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  memset(&when, 0, sizeof when);
  when.it_value.tv_nsec = when.it_interval.tv_nsec = 2000000;
  CHECK_EQ(timer_settime(timer, 0, &when, NULL), 0);

  CHECK_EQ(pipe(pipes), 0);
  memset(&request, 0, sizeof request);
  request.aio_fildes = pipes[0];
  request.aio_buf = buffer;
  request.aio_nbytes = sizeof buffer;
  CHECK_EQ(aio_read(&request), 0); /* its thread waits in read() */

  CHECK_EQ(system_create(&thread, NULL, deaf, NULL), 0);
  while (!waiting) sleep_ms(1);

  for (i = 0; i < 30 || timer_runs < 3; i++) {
    GC_word before = GC_get_gc_no();
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before + 1);
    sleep_ms(1);
  }
  stop = 1;
  CHECK_EQ(system_join(thread, NULL), 0);
  CHECK_EQ(write(pipes[1], "x", 1), 1);
  while (aio_error(&request) == EINPROGRESS) sleep_ms(1);
  CHECK_EQ(aio_return(&request), 1);
  CHECK_EQ(timer_delete(timer), 0);
  return check_result();
}
