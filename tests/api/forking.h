/* A program that forks while its other threads allocate. What the child and the parent do
 * afterwards. */
#ifndef GLEANER_TESTS_API_FORKING_H
#define GLEANER_TESTS_API_FORKING_H

#include "check.h"

#include <sys/wait.h>

struct tree {
  struct tree *left, *right;
  size_t depth;
};

static struct tree *make_tree(size_t depth) {
  struct tree *t = GC_NEW(struct tree);
  t->depth = depth;
  if (depth) {
    t->left = make_tree(depth - 1);
    t->right = make_tree(depth - 1);
  }
  return t;
}

static size_t count_tree(const struct tree *t, size_t depth) {
  if (t == NULL || t->depth != depth) return 0;
  if (depth == 0) return 1;
  return count_tree(t->left, depth - 1) + count_tree(t->right, depth - 1);
}

static struct tree *old_tree; /* from before the forks */

static void *allocate(void *arg) {
  volatile int *stop = (volatile int *)arg;
  size_t i;
  for (i = 0; !*stop; i++) {
    struct tree *t = make_tree(10);
    if (count_tree(t, 10) != 1024) check_fail(__FILE__, __LINE__, "spoilt tree");
    if (i % 50 == 0) GC_gcollect();
  }
  return NULL;
}

static void *allocate_some(void *arg) {
  *(size_t *)arg = count_tree(make_tree(12), 12);
  return NULL;
}

/* Everything still works: the heap, collections, new threads. */
static void use_heap(void) {
  size_t i, leaves = 0;
  CHECK_EQ(count_tree(old_tree, 14), 1 << 14);
  for (i = 0; i < 5; i++) {
    GC_gcollect();
    CHECK_EQ(count_tree(make_tree(12), 12), 1 << 12);
  }
  run_in_thread(allocate_some, &leaves);
  CHECK_EQ(leaves, 1 << 12);
  CHECK_EQ(count_tree(old_tree, 14), 1 << 14);
}

static void fork_often(pid_t (*fork_function)(void)) {
  static volatile int stop;
  pthread_t threads[4];
  size_t i;
  old_tree = make_tree(14);
  for (i = 0; i < 4; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, allocate, (void *)(uintptr_t)&stop), 0);
  for (i = 0; i < 20; i++) {
    int status = 0;
    pid_t child = fork_function();
    CHECK_GE(child, 0);
    if (child == 0) {
      fail_after(20);
      use_heap();
      _exit(check_result());
    }
    GC_gcollect();
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
  }
  stop = 1;
  for (i = 0; i < 4; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  use_heap();
}

#endif
