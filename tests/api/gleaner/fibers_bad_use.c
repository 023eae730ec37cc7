/* gleaner_fiber_* used wrongly: the result, a message that names the call, and nothing changed. */
#include "fibers.h"

#include <sys/resource.h>

static int messages[2]; /* a pipe in place of standard error */
static int real_stderr;

static void listen(void) {
  fflush(stderr);
  real_stderr = dup(2);
  CHECK_EQ(pipe(messages), 0);
  dup2(messages[1], 2);
}

/* What was written since listen(). */
static void expect(const char *call, const char *reason) {
  char text[1024];
  dup2(real_stderr, 2);
  close(real_stderr);
  close(messages[1]);
  ssize_t n = read(messages[0], text, sizeof text - 1);
  close(messages[0]);
  text[n > 0 ? n : 0] = 0;
  CHECK(strstr(text, call) != NULL);
  CHECK(strstr(text, reason) != NULL);
  CHECK(strchr(text, '\n') != NULL && strchr(text, '\n')[1] == 0);
  if (check_failures) fprintf(stderr, "  it said: %s", text);
}

#define REFUSED(expression, result, call, reason) \
  do {                                            \
    long long value;                              \
    listen();                                     \
    value = (long long)(intptr_t)(expression);    \
    expect(call, reason);                         \
    CHECK_EQ(value, result);                      \
  } while (0)
#define NOT_CREATED(expression, number, reason)             \
  do {                                                      \
    errno = 0;                                              \
    REFUSED(expression, 0, "gleaner_fiber_create", reason); \
    CHECK_EQ(errno, number);                                \
  } while (0)

static int switches;
static void count_switch(void *unused) { switches++; }

static void bad_ranges(char *stack) {
  char local[4096] __attribute__((aligned(16)));
  gleaner_fiber *fiber = gleaner_fiber_create(stack + 4096, 8192);
  NOT_CREATED(gleaner_fiber_create(NULL, 4096), EINVAL, "NULL");
  NOT_CREATED(gleaner_fiber_create(stack, 0), EINVAL, "no bytes");
  NOT_CREATED(gleaner_fiber_create(stack + 1, 4096), EINVAL, "multiples of 8");
  NOT_CREATED(gleaner_fiber_create(stack, 4095), EINVAL, "multiples of 8");
  NOT_CREATED(gleaner_fiber_create(stack, SIZE_MAX - 7), EINVAL, "wraps around");
  NOT_CREATED(gleaner_fiber_create(stack + 4096, 8192), EEXIST, "overlaps");
  NOT_CREATED(gleaner_fiber_create(stack, 4096 + 8), EEXIST, "overlaps");
  NOT_CREATED(gleaner_fiber_create(stack, 65536), EEXIST, "overlaps");
  NOT_CREATED(gleaner_fiber_create(stack + 4096 + 8, 8), EEXIST, "overlaps");
  NOT_CREATED(gleaner_fiber_create(stack + 4096 + 8192 - 8, 4096), EEXIST, "overlaps");
  NOT_CREATED(gleaner_fiber_create(local, sizeof local), EEXIST, "overlaps");
  { /* Neighbours do not overlap; and what was refused is not there. */
    gleaner_fiber *below = gleaner_fiber_create(stack, 4096);
    gleaner_fiber *above = gleaner_fiber_create(stack + 4096 + 8192, 4096);
    CHECK(below != NULL && above != NULL);
    CHECK_EQ(gleaner_fiber_destroy(fiber), 0);
    CHECK_EQ(gleaner_fiber_destroy(below), 0);
    CHECK_EQ(gleaner_fiber_destroy(above), 0);
  }
  fiber = gleaner_fiber_create(stack, 65536);
  CHECK(fiber != NULL);
  CHECK_EQ(gleaner_fiber_destroy(fiber), 0);
}

static void *own_stack_of_a_thread(void *unused) {
  pthread_attr_t attributes;
  void *stack;
  size_t bytes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &bytes);
  pthread_attr_destroy(&attributes);
  NOT_CREATED(gleaner_fiber_create((char *)stack + bytes - 8192, 8192), EEXIST, "overlaps");
  return NULL;
}

static void bad_handles(char *stack) {
  gleaner_fiber *fiber = gleaner_fiber_create(stack, kStackBytes);
  gleaner_fiber *inside = (gleaner_fiber *)((char *)fiber + 8);
  gleaner_fiber *elsewhere = (gleaner_fiber *)stack;
  CHECK_EQ(gleaner_fiber_destroy(fiber), 0);
  CHECK_EQ(gleaner_fiber_get_state(fiber), GLEANER_FIBER_NONE);
  CHECK_EQ(gleaner_fiber_get_state(NULL), GLEANER_FIBER_NONE);
  CHECK_EQ(gleaner_fiber_get_state(elsewhere), GLEANER_FIBER_NONE);
  REFUSED(gleaner_fiber_destroy(fiber), EINVAL, "gleaner_fiber_destroy", "no fiber");
  REFUSED(gleaner_fiber_destroy(elsewhere), EINVAL, "gleaner_fiber_destroy", "no fiber");
  REFUSED(gleaner_fiber_destroy(NULL), EINVAL, "gleaner_fiber_destroy", "NULL");
  REFUSED(gleaner_fiber_set_context(fiber, stack, 8), EINVAL, "gleaner_fiber_set_context",
          "no fiber");
  REFUSED(gleaner_fiber_set_context(NULL, stack, 8), EINVAL, "gleaner_fiber_set_context", "NULL");
  REFUSED(gleaner_fiber_announce(fiber), EINVAL, "gleaner_fiber_announce", "no fiber");
  REFUSED(gleaner_fiber_announce(elsewhere), EINVAL, "gleaner_fiber_announce", "no fiber");
  REFUSED(gleaner_fiber_announce(NULL), EBUSY, "gleaner_fiber_announce", "own stack");
  fiber = gleaner_fiber_create(stack, kStackBytes);
  REFUSED(gleaner_fiber_destroy(inside), EINVAL, "gleaner_fiber_destroy", "no fiber");
  REFUSED(gleaner_fiber_switch(inside, count_switch, NULL), EINVAL, "gleaner_fiber_switch",
          "no fiber");
  REFUSED(gleaner_fiber_switch(fiber, NULL, NULL), EINVAL, "gleaner_fiber_switch", "NULL");
  REFUSED(gleaner_fiber_switch(NULL, count_switch, NULL), EBUSY, "gleaner_fiber_switch",
          "own stack");
  REFUSED(gleaner_fiber_set_context(fiber, NULL, 8), EINVAL, "gleaner_fiber_set_context",
          "no range");
  REFUSED(gleaner_fiber_set_context(fiber, stack, SIZE_MAX), EINVAL, "gleaner_fiber_set_context",
          "no range");
  CHECK_EQ(gleaner_fiber_get_state(fiber), GLEANER_FIBER_FRESH);
  CHECK_NULL(gleaner_fiber_current());
  CHECK_EQ(switches, 0);
  CHECK_EQ(gleaner_fiber_destroy(fiber), 0);
}

static void *try_elsewhere(void *argument) {
  struct coroutine *self = (struct coroutine *)argument;
  REFUSED(gleaner_fiber_switch(self->fiber, count_switch, NULL), EBUSY, "gleaner_fiber_switch",
          "running");
  REFUSED(gleaner_fiber_destroy(self->fiber), EBUSY, "gleaner_fiber_destroy", "running");
  CHECK_NULL(gleaner_fiber_current());
  return NULL;
}

static void on_fiber(struct coroutine *self) {
  CHECK_PTR(gleaner_fiber_current(), self->fiber);
  REFUSED(gleaner_fiber_switch(self->fiber, count_switch, NULL), EBUSY, "gleaner_fiber_switch",
          "running");
  REFUSED(gleaner_fiber_destroy(self->fiber), EBUSY, "gleaner_fiber_destroy", "running");
  run_in_thread(try_elsewhere, self);
  /* Announced, and not done: the next switch comes from a stack that is not the announced one. */
  CHECK_EQ(gleaner_fiber_announce(NULL), 0);
  REFUSED(gleaner_fiber_destroy(self->fiber), EBUSY, "gleaner_fiber_destroy", "running");
  CHECK_EQ(gleaner_fiber_announce(self->fiber), 0); /* back, before it was done */
  CHECK_PTR(gleaner_fiber_current(), self->fiber);
  CHECK_EQ(switches, 0);
}

static void not_there(struct coroutine *c) {
  CHECK_EQ(gleaner_fiber_announce(c->fiber), 0);
  /* The thread stays where it is, and wants to go back. */
  REFUSED(gleaner_fiber_announce(NULL), EINVAL, "gleaner_fiber_announce", "not on the stack");
  CHECK_PTR(gleaner_fiber_current(), c->fiber);
}

static void *run_not_there(void *c) {
  not_there((struct coroutine *)c);
  return NULL;
}

/* As many as there can be in a bounded address space, in a process of its own. */
static void too_many(void) {
#ifndef __SANITIZE_ADDRESS__
  enum { kMax = 16384, kEach = 64 };
  const pid_t child = fork();
  if (child == 0) {
    static gleaner_fiber *fibers[kMax];
    struct rlimit limit;
    char *stacks = (char *)calloc(kMax + 1, kEach);
    limit.rlim_cur = limit.rlim_max = (rlim_t)1 << 30;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    for (int i = kMax; i-- > 0;) fibers[i] = gleaner_fiber_create(stacks + i * kEach, kEach);
    for (int i = 0; i < kMax; i++) CHECK(fibers[i] != NULL);
    NOT_CREATED(gleaner_fiber_create(stacks + kMax * kEach, kEach), ENOMEM, "too many fibers");
    GC_gcollect();
    CHECK_EQ(gleaner_fiber_destroy(fibers[kMax / 2]), 0);
    CHECK(gleaner_fiber_create(stacks + kMax * kEach, kEach) != NULL);
    GC_gcollect();
    _exit(check_result());
  }
  CHECK_CHILD(child);
#endif
}

int main(void) {
  char *stack;
  if (!on_gleaner()) return 0;
  fail_after(55);
  too_many();
  /* Before anything is there. */
  CHECK_NULL(gleaner_fiber_current());
  CHECK_EQ(gleaner_fiber_get_state((gleaner_fiber *)&stack), GLEANER_FIBER_NONE);
  REFUSED(gleaner_fiber_destroy((gleaner_fiber *)&stack), EINVAL, "gleaner_fiber_destroy",
          "no fiber");
  stack = map_stack(kStackBytes);
  bad_ranges(stack);
  run_in_thread(own_stack_of_a_thread, NULL);
  bad_handles(stack);
  struct coroutine *c = coroutine_new(on_fiber, NULL);
  coroutine_resume(c);
  CHECK(c->done);
  run_in_thread(run_not_there, c);
  CHECK_EQ(gleaner_fiber_get_state(c->fiber), GLEANER_FIBER_ABANDONED);
  coroutine_free(c);
  return check_result();
}
