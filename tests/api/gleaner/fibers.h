/* Coroutines on ucontext for the tests of gleaner_fiber_*. The stack lies between two guard pages,
   so that reading beside it faults. */
#ifndef GLEANER_TESTS_API_FIBERS_H
#define GLEANER_TESTS_API_FIBERS_H

#include "../roots/stacks.h"

#include <gleaner.h>

enum { kStackBytes = 256 << 10 };

struct coroutine {
  gleaner_fiber *fiber;
  char *stack;
  ucontext_t context; /* in memory of malloc */
  ucontext_t *resumer;
  void (*body)(struct coroutine *self);
  void *argument;
  int done;
  void *result;
};

static MAYBE_UNUSED void coroutine_entry(unsigned high, unsigned low) {
  struct coroutine *self = (struct coroutine *)(((uintptr_t)high << 32) | low);
  self->body(self);
  self->done = 1;
  for (;;) {
    struct coroutine *volatile me = self;
    ucontext_t *pair[2];
    pair[0] = &me->context;
    pair[1] = me->resumer;
    (void)gleaner_fiber_announce(NULL);
    swapcontext(pair[0], pair[1]);
  }
}

static MAYBE_UNUSED struct coroutine *coroutine_new(void (*body)(struct coroutine *),
                                                    void *argument) {
  struct coroutine *c = (struct coroutine *)calloc(1, sizeof *c);
  c->stack = map_stack(kStackBytes);
  c->fiber = gleaner_fiber_create(c->stack, kStackBytes);
  CHECK(c->fiber != NULL);
  c->body = body;
  c->argument = argument;
  getcontext(&c->context);
  c->context.uc_stack.ss_sp = c->stack;
  c->context.uc_stack.ss_size = kStackBytes;
  makecontext(&c->context, (void (*)(void))coroutine_entry, 2, (unsigned)((uintptr_t)c >> 32),
              (unsigned)(uintptr_t)c);
  return c;
}

static MAYBE_UNUSED void coroutine_free(struct coroutine *c) {
  CHECK_EQ(gleaner_fiber_destroy(c->fiber), 0);
  unmap_stack(c->stack, kStackBytes);
  free(c);
}

struct context_pair {
  ucontext_t *from, *to;
};

static MAYBE_UNUSED void swap_pair(void *argument) {
  struct context_pair *pair = (struct context_pair *)argument;
  swapcontext(pair->from, pair->to);
}

/* Goes on with the coroutine until it yields. */
static MAYBE_UNUSED NOINLINE void coroutine_resume(struct coroutine *c) {
  ucontext_t here;
  struct context_pair pair;
  pair.from = &here;
  pair.to = &c->context;
  c->resumer = &here;
  CHECK_EQ(gleaner_fiber_switch(c->fiber, swap_pair, &pair), 0);
}

/* From inside: back to the stack of whatever thread runs the coroutine. */
static MAYBE_UNUSED NOINLINE void coroutine_yield(struct coroutine *self) {
  struct context_pair pair;
  pair.from = &self->context;
  pair.to = self->resumer;
  CHECK_EQ(gleaner_fiber_switch(NULL, swap_pair, &pair), 0);
}

#endif
