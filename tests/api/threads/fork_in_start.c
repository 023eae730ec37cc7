/* A thread forks while another one is in the midst of the library's start: the child, which has the
 * first thread alone, uses the heap. */
#define GC_NO_THREAD_REDIRECTS
#include "check.h"

#include <sys/syscall.h>

static volatile int starts, forks, has_forked;

/* In place of the C library's, for the library's start, which asks for a key. */
int pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
  typedef int (*create_key)(pthread_key_t *, void (*)(void *));
  const create_key create = (create_key)(uintptr_t)dlsym(RTLD_NEXT, "pthread_key_create");
  if (getpid() != (pid_t)syscall(SYS_gettid) && !starts) {
    starts = 1;
    /* Until the first thread has forked, or waits for this start. */
    while (!has_forked && !(forks && task_state(getpid()) == 'S')) usleep(1000);
  }
  return create(key, destroy);
}

static void *start(void *arg) {
  GC_INIT();
  return arg;
}

int main(void) {
  pthread_t thread;
  fail_after(50);
  /* libgc has its handlers of fork from the end of its start on. */
  if (!on_gleaner()) return 0;
  CHECK_EQ(pthread_create(&thread, NULL, start, NULL), 0);
  while (!starts) usleep(1000);
  forks = 1;
  pid_t child = fork();
  if (child == 0) {
    void **list = NULL;
    size_t i;
    fail_after(20);
    GC_INIT();
    for (i = 0; i < 1000; i++) {
      void **next = (void **)GC_MALLOC(64);
      *next = list;
      list = next;
      if (i % 300 == 0) GC_gcollect();
    }
    for (i = 0; list != NULL; list = (void **)*list) i++;
    CHECK_EQ(i, 1000);
    _exit(check_result());
  }
  has_forked = 1;
  CHECK_CHILD(child);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  return check_result();
}
