/* fork() while other threads allocate: what they held and had not handed out is no object in the
 * child. Looked at by finalizers that stand in objects' headers, and as leaks. */
#include "check.h"

#include <fcntl.h>
#include <gc/gc_disclaim.h>

enum { kThreads = 4, kForks = 25, kSizes = 5 };
static const size_t kBytes[kSizes] = {24, 40, 100, 500, 2000};

static volatile int stop;

/* Runs `allocate` on threads, and in the child of each of many forks `in_child`. */
static void fork_among(void *(*allocate)(void *), void (*in_child)(void *)) {
  pthread_t threads[kThreads];
  stop = 0;
  for (size_t i = 0; i < kThreads; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, allocate, NULL), 0);
  for (size_t i = 0; i < kForks; i++) {
    sleep_ms(2);
    CHECK_IN_CHILD(in_child, NULL);
  }
  stop = 1;
  for (size_t i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* --- A finalizer in the header --- */

struct finalized {
  size_t alive;
};
enum { kAlive = 0x600d };

static void finalize(void *object, void *data) {
  struct finalized *f = (struct finalized *)object;
  /* 0: the thread that asked for it has not written it yet. */
  if (f->alive != kAlive && f->alive != 0) check_fail(__FILE__, __LINE__, "finalized twice");
  f->alive = 0xdead;
}
static const struct GC_finalizer_closure closure = {finalize, NULL};

static void *allocate_finalized(void *arg) {
  for (size_t i = 0; !stop; i++) {
    struct finalized *f = (struct finalized *)GC_finalized_malloc(kBytes[i % kSizes], &closure);
    f->alive = kAlive;
  }
  return NULL;
}

static void collect_in_child(void *unused) {
  GC_gcollect();
  GC_gcollect();
}

/* --- Leaks --- */

static void *allocate_and_free(void *arg) {
  void *last[kSizes] = {NULL};
  for (size_t i = 0; !stop; i++) {
    GC_FREE(last[i % kSizes]);
    last[i % kSizes] = GC_MALLOC(kBytes[i % kSizes]);
  }
  for (size_t i = 0; i < kSizes; i++) GC_FREE(last[i]);
  return NULL;
}

/* Those of the threads that are not here are lost, and no others. */
static void count_leaks_in_child(void *unused) {
  char text[1 << 16];
  int messages[2];
  const char *p = text;
  size_t leaks = 0, bytes = 0;
  if (pipe2(messages, O_NONBLOCK) != 0 || fcntl(messages[1], F_SETPIPE_SZ, 1 << 20) < 0) _exit(4);
  dup2(messages[1], STDERR_FILENO);
  GC_gcollect();
  GC_gcollect();
  for (;;) {
    const ssize_t n = read(messages[0], text + bytes, sizeof text - 1 - bytes);
    if (n <= 0) break;
    bytes += (size_t)n;
  }
  text[bytes] = 0;
  while ((p = strstr(p, "Leaked")) != NULL) {
    leaks++;
    p++;
  }
  if (leaks > kThreads * (kSizes + 1)) _exit(3);
}

static void leaks(void *unused) {
  GC_set_find_leak(1);
  GC_INIT();
  fork_among(allocate_and_free, count_leaks_in_child);
}

int main(void) {
  fail_after(55);
  GC_set_handle_fork(1);
  CHECK_IN_CHILD(leaks, NULL);
  GC_INIT();
  GC_init_finalized_malloc();
  fork_among(allocate_finalized, collect_in_child);
  return check_result();
}
