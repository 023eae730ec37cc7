/* A program that forks while its other threads allocate: by the library's own handlers
   (GC_set_handle_fork(1)), or with handle_fork -1, where the program makes the three calls itself.
   In the child the caller alone remains, and everything works. Rule 22. */
#include "check.h"

enum { kThreads = 4, kForks = 20, kOldDepth = 14, kDepth = 12 };

static struct tree *old_tree; /* from before the forks */
static volatile int stop;

static void *allocate(void *unused) {
  for (size_t i = 0; !stop; i++) {
    CHECK_EQ(count_tree(make_tree(10), 10), 1024);
    if (i % 50 == 0) GC_gcollect();
  }
  return unused;
}

static void *allocate_some(void *arg) {
  *(size_t *)arg = count_tree(make_tree(kDepth), kDepth);
  return NULL;
}

/* The heap, collections, new threads. */
static void use_heap(void) {
  size_t leaves = 0;
  CHECK_EQ(GC_thread_is_registered(), 1);
  CHECK_EQ(count_tree(old_tree, kOldDepth), 1 << kOldDepth);
  for (size_t i = 0; i < 5; i++) {
    GC_gcollect();
    CHECK_EQ(count_tree(make_tree(kDepth), kDepth), 1 << kDepth);
  }
  run_in_thread(allocate_some, &leaves);
  CHECK_EQ(leaves, 1 << kDepth);
  CHECK_EQ(count_tree(old_tree, kOldDepth), 1 << kOldDepth);
}

static pid_t fork_with_calls(void) {
  GC_atfork_prepare();
  pid_t child = fork();
  if (child == 0) {
    GC_atfork_child();
    GC_start_mark_threads();
  } else {
    GC_atfork_parent();
  }
  return child;
}

/* 0 makes no promise for threads, so there are none. */
struct mode {
  int handle_fork;
  pid_t (*fork_function)(void);
  size_t threads;
};
static void fork_often(void *arg) {
  const struct mode *mode = (const struct mode *)arg;
  pthread_t threads[kThreads];
  GC_set_handle_fork(mode->handle_fork);
  GC_INIT();
  old_tree = make_tree(kOldDepth);
  for (size_t i = 0; i < mode->threads; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, allocate, NULL), 0);
  for (size_t i = 0; i < kForks; i++) {
    const pid_t child = mode->fork_function();
    if (child == 0) {
      fail_after(20);
      use_heap();
      _exit(check_result());
    }
    GC_gcollect();
    CHECK_CHILD(child);
  }
  stop = 1;
  for (size_t i = 0; i < mode->threads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  use_heap();
}

int main(void) {
  static struct mode modes[] = {{1, fork, kThreads}, {-1, fork_with_calls, kThreads}, {0, fork, 0}};
  fail_after(55);
  for (size_t i = 0; i < COUNT_OF(modes); i++) CHECK_IN_CHILD(fork_often, &modes[i]);
  return check_result();
}
