/* A thread forks while another one is in the midst of the library's start: the child, which has the
 * first thread alone, uses the heap. */
#define GC_NO_THREAD_REDIRECTS
#include "check.h"

#include <sys/syscall.h>
#include <sys/wait.h>

static volatile int starts, forks, has_forked;

/* Whether the first thread waits. */
static int first_thread_sleeps(void) {
  char path[64], text[512];
  const char *state;
  size_t bytes;
  FILE *file;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
  file = fopen(path, "r");
  if (file == NULL) return 0;
  bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = 0;
  state = strrchr(text, ')');
  return state != NULL && state[1] == ' ' && state[2] == 'S';
}

/* In place of the C library's, for the library's start, which asks for a key. */
int pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
  typedef int (*create_key)(pthread_key_t *, void (*)(void *));
  const create_key create = (create_key)(uintptr_t)dlsym(RTLD_NEXT, "pthread_key_create");
  if (getpid() != (pid_t)syscall(SYS_gettid) && !starts) {
    starts = 1;
    /* Until the first thread has forked, or waits for this start. */
    while (!has_forked && !(forks && first_thread_sleeps())) usleep(1000);
  }
  return create(key, destroy);
}

static void *start(void *arg) {
  GC_INIT();
  return arg;
}

int main(void) {
  pthread_t thread;
  pid_t child;
  int status = 0;
  fail_after(50);
  /* libgc has its handlers of fork from the end of its start on. */
  if (!on_gleaner()) return 0;
  CHECK_EQ(pthread_create(&thread, NULL, start, NULL), 0);
  while (!starts) usleep(1000);
  forks = 1;
  child = fork();
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
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  return check_result();
}
