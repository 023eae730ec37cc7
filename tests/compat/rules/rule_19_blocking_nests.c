/* Rule 19: GC_do_blocking and GC_call_with_gc_active nest; a blocked thread is scanned up to the
   stack pointer that was saved, and is not signalled. */
#include <semaphore.h>
#include <signal.h>

#include "check.h"

enum { kDepth = 6 };

static sem_t blocked, go_on;

static void wait_for(sem_t *s) {
  while (sem_wait(s) != 0) {
  }
}

static void *new_object(size_t mark) {
  size_t *p = (size_t *)GC_malloc(64);
  p[0] = p[7] = mark;
  return p;
}
static int is_intact(const size_t *p, size_t mark) { return p[0] == mark && p[7] == mark; }

static void *GC_CALLBACK active_level(void *data);
static void *GC_CALLBACK blocked_level(void *data) {
  size_t depth = (size_t)data;
  if (depth == 0) {
    sigset_t all;
    sigfillset(&all);
    /* A signal could not be served now. */
    ((int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_DEFAULT, "pthread_sigmask"))(
        SIG_BLOCK, &all, NULL);
    sem_post(&blocked);
    wait_for(&go_on);
    ((int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_DEFAULT, "pthread_sigmask"))(
        SIG_UNBLOCK, &all, NULL);
    return (void *)1;
  }
  return (void *)((size_t)GC_call_with_gc_active(active_level, (void *)(depth - 1)) + 1);
}
static void *GC_CALLBACK active_level(void *data) {
  size_t mark = 0x9000 + (size_t)data;
  void *volatile p = new_object(mark);
  size_t result = (size_t)GC_do_blocking(blocked_level, data);
  GC_malloc(64);
  CHECK(is_intact((size_t *)p, mark));
  return (void *)(result + 1);
}
static void *nest(void *arg) { return active_level(arg); }

static void disturb(void) {
  size_t i;
  for (i = 0; i < 50000; i++) memset(GC_malloc(64), 0xff, 64);
}

int main(void) {
  pthread_t thread;
  size_t depth;
  fail_after(30);
  GC_INIT();
  sem_init(&blocked, 0, 0);
  sem_init(&go_on, 0, 0);
  for (depth = 0; depth <= kDepth; depth++) {
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, nest, (void *)depth), 0);
    wait_for(&blocked);
    collect();
    disturb();
    collect();
    sem_post(&go_on);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ((size_t)result, 2 * depth + 2);
  }
  /* Outside a blocking section it is a plain call. */
  sem_post(&go_on);
  CHECK_EQ((size_t)GC_call_with_gc_active(active_level, (void *)2), 6);
  wait_for(&blocked);
  return check_result();
}
