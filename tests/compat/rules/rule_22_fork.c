/* Rule 22: GC_set_handle_fork(1 | 0 | -1) before the start; in the child the caller alone remains;
   for -1 the program calls GC_atfork_prepare, _parent and _child itself. */
#include <sys/wait.h>

#include "check.h"

static volatile int stop;

struct node {
  struct node *next;
  size_t number;
};
static struct node *list;

static void grow(void) {
  size_t i;
  for (i = 0; i < 5000; i++) {
    struct node *n = GC_NEW(struct node);
    n->next = list;
    n->number = i;
    list = n;
  }
}
static void check_list(void) {
  size_t i = 5000;
  struct node *n;
  for (n = list; n != NULL; n = n->next) CHECK_EQ(n->number, --i);
  CHECK_EQ(i, 0);
}

static void *allocate(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; !stop; i++) {
    memset(GC_malloc(64), 0x5f, 64);
    if (i % 20000 == 0) GC_gcollect();
  }
  return NULL;
}
static void *allocate_little(void *arg) {
  GC_malloc(64);
  return arg;
}

static pid_t plain_fork(void) { return fork(); }
static pid_t fork_by_hand(void) {
  pid_t child;
  GC_atfork_prepare();
  child = fork();
  if (child == 0)
    GC_atfork_child();
  else
    GC_atfork_parent();
  return child;
}

static void go_on(void) {
  size_t i;
  CHECK_EQ(GC_thread_is_registered(), 1);
  for (i = 0; i < 3; i++) {
    GC_gcollect();
    check_list();
  }
  run_in_thread(allocate_little, NULL);
  list = NULL;
  grow();
  GC_gcollect();
  check_list();
}

/* Mode 0 makes no promise for threads, so there are none. */
static void in_mode(int mode, pid_t (*fork_function)(void), int thread_count) {
  pthread_t threads[3];
  int i;
  GC_set_handle_fork(mode);
  GC_INIT();
  grow();
  for (i = 0; i < thread_count; i++) CHECK_EQ(pthread_create(&threads[i], NULL, allocate, NULL), 0);
  for (i = 0; i < 10; i++) {
    int status = 0;
    pid_t child = fork_function();
    CHECK_GE(child, 0);
    if (child == 0) {
      fail_after(20);
      go_on();
      _exit(check_result());
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
  }
  stop = 1;
  for (i = 0; i < thread_count; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  go_on();
}

int main(void) {
  static const struct {
    int mode;
    pid_t (*fork_function)(void);
    int threads;
  } modes[] = {{1, plain_fork, 3}, {-1, fork_by_hand, 3}, {0, plain_fork, 0}};
  size_t i;
  fail_after(50);
  for (i = 0; i < sizeof modes / sizeof *modes; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      in_mode(modes[i].mode, modes[i].fork_function, modes[i].threads);
      _exit(check_result());
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status != 0) {
      fprintf(stderr, "mode %d: status 0x%x\n", modes[i].mode, status);
      check_failures++;
    }
  }
  return check_result();
}
