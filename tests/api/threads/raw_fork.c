/* A program with one thread of its own forks by system calls, or with GC_set_handle_fork(0): parent
 * and child go on with the heap, and neither touches the other's write tracking. */
#include "check.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>

enum { kObjects = 40000, kRounds = 12 };

struct object {
  struct object *next;
  size_t number;
  size_t check;
  size_t rest[5];
};

static struct object **table;

/* Young objects at random old ones, and garbage. Each is looked at in each round. */
static void mutate(unsigned seed) {
  static size_t number;
  for (size_t round = 0; round < kRounds; round++) {
    for (size_t i = 0; i < 5000; i++) {
      struct object *young = GC_NEW(struct object);
      seed = seed * 1664525 + 1013904223;
      young->number = ++number;
      young->check = ~young->number;
      table[(seed >> 8) % kObjects]->next = young;
      (void)GC_MALLOC(400);
    }
    for (size_t i = 0; i < kObjects; i++) {
      const struct object *young = table[i]->next;
      if (young != NULL && young->check != ~young->number) {
        check_fail(__FILE__, __LINE__, "lost");
        return;
      }
    }
  }
}

enum how { kFork, kClone, kClone3, kNoHandlers, kNewNamespace, kWays };

static pid_t fork_by(enum how how) {
  struct clone_args arguments;
  switch (how) {
#ifdef SYS_fork
    case kFork:
      return (pid_t)syscall(SYS_fork);
#endif
    case kClone3:
      memset(&arguments, 0, sizeof arguments);
      arguments.exit_signal = SIGCHLD;
      return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    case kNoHandlers:
      return _Fork();
    case kNewNamespace:
      return (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0);
    default:
      return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  }
}

static void fork_and_mutate(pid_t child, unsigned seed) {
  if (child < 0 && (errno == EPERM || errno == ENOSYS))
    return; /* needs a right, or another kernel */
  CHECK_GE(child, 0);
  mutate(seed);
  if (child == 0) _exit(check_result());
  CHECK_CHILD(child);
}

struct way {
  enum how how;
  int handle_fork;
  unsigned seed;
};
static void run(void *arg) {
  const struct way *way = (const struct way *)arg;
  fail_after(50);
  GC_set_handle_fork(way->handle_fork);
  GC_INIT();
  table = (struct object **)GC_MALLOC(kObjects * sizeof *table);
  for (size_t i = 0; i < kObjects; i++) table[i] = GC_NEW(struct object);
  mutate(way->seed);
  pid_t child = way->handle_fork == 0 ? fork() : fork_by(way->how);
  if (child == 0) fail_after(40);
  fork_and_mutate(child, way->seed + 1);
}

int main(int argc, char **argv) {
  struct way way;
  way.seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)getpid();
  printf("seed %u\n", way.seed);
  fail_after(55);
  for (int how = 0; how <= kWays; how++) {
    way.how = (enum how)how;
    way.handle_fork = how != kWays;
    CHECK_IN_CHILD(run, &way);
  }
  return check_result();
}
