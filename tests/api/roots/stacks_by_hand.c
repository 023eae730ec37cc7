/* Coroutines as crystal has them: no fiber is registered. At each switch the bottom of the stack is
   set, and the program's GC_push_other_roots pushes the stacks of all coroutines that are
   suspended. */
#include "stacks.h"

#include <gc/gc_mark.h>

enum { kThreads = 3, kPerThread = 20, kRounds = 40, kBytes = 128 << 10 };

struct coroutine {
  ucontext_t context;
  char *stack, *bottom; /* bottom: the highest address */
  char *stack_pointer;  /* while it is suspended, else NULL */
  int number, done, wrong;
};

struct scheduler {
  struct coroutine coroutines[kPerThread];
  ucontext_t context;
  struct GC_stack_base own;
  int is_first;        /* of the main thread */
  char *own_suspended; /* stack pointer of the thread's own stack, while a coroutine runs */
};

struct node {
  struct node *next;
  int number;
};

static struct scheduler *schedulers[kThreads];

static GC_push_other_roots_proc others;

/* libgc's own procedure pushes the stacks of the threads. */
static void push_stacks(void) {
  if (others != NULL) others();
  for (int i = 0; i < kThreads; i++) {
    struct scheduler *s = schedulers[i];
    if (s == NULL) continue;
    for (int j = 0; j < kPerThread; j++) {
      struct coroutine *c = &s->coroutines[j];
      if (c->stack_pointer != NULL) GC_push_all_eager(c->stack_pointer, c->bottom);
    }
    if (s->own_suspended != NULL) GC_push_all_eager(s->own_suspended, s->own.mem_base);
  }
}

/* On the main thread by way of the variable. */
static void *GC_CALLBACK set_variable(void *address) {
  GC_stackbottom = (char *)address;
  return NULL;
}

/* No collection comes between the change of the bottom and that of the stack. */
static NOINLINE void switch_stacks(struct scheduler *s, ucontext_t *from, ucontext_t *to,
                                   char **left, char **entered, char *bottom) {
  GC_disable();
  *left = (char *)__builtin_frame_address(0) - 2048; /* with what swapcontext's caller saves */
  GC_call_with_alloc_lock(s->is_first ? set_variable : set_bottom, bottom);
  *entered = NULL;
  swapcontext(from, to);
  GC_enable();
}

static void run_coroutine(unsigned a, unsigned b, unsigned number) {
  struct scheduler *s = (struct scheduler *)(((uintptr_t)a << 32) | b);
  struct coroutine *c = &s->coroutines[number];
  struct node *list = NULL;
  int round;
  GC_enable();
  for (round = 0; round < kRounds; round++) {
    struct node *n = GC_NEW(struct node);
    n->number = round;
    n->next = list;
    list = n;
    memset(GC_MALLOC(1000), 0x55, 1000);
    switch_stacks(s, &c->context, &s->context, &c->stack_pointer, &s->own_suspended,
                  (char *)s->own.mem_base);
  }
  for (round = kRounds; round-- > 0 && list != NULL; list = list->next) {
    c->wrong += list->number != round;
  }
  c->wrong += round != -1 || list != NULL;
  c->done = 1;
  switch_stacks(s, &c->context, &s->context, &c->stack_pointer, &s->own_suspended,
                (char *)s->own.mem_base);
}

/* Others disable collection for moments. */
static void really_collect(void) {
  const GC_word before = GC_get_gc_no();
  while (GC_get_gc_no() == before) {
    GC_gcollect();
    sched_yield();
  }
}

static void *run_scheduler(void *argument) {
  const int number = (int)(intptr_t)argument;
  struct scheduler *s = (struct scheduler *)calloc(1, sizeof *s);
  struct node *own = GC_NEW(struct node);
  int wrong = 0;
  own->number = 4711;
  GC_get_my_stackbottom(&s->own);
  s->is_first = number == 0;
  for (int i = 0; i < kPerThread; i++) {
    struct coroutine *c = &s->coroutines[i];
    c->stack = map_stack(kBytes);
    c->bottom = c->stack + kBytes;
    getcontext(&c->context);
    c->context.uc_stack.ss_sp = c->stack;
    c->context.uc_stack.ss_size = kBytes;
    makecontext(&c->context, (void (*)(void))run_coroutine, 3, (unsigned)((uintptr_t)s >> 32),
                (unsigned)(uintptr_t)s, (unsigned)i);
  }
  schedulers[number] = s;
  for (int round = 0; round <= kRounds; round++) {
    for (int i = 0; i < kPerThread; i++) {
      struct coroutine *c = &s->coroutines[i];
      switch_stacks(s, &s->context, &c->context, &s->own_suspended, &c->stack_pointer, c->bottom);
    }
    if (round % 8 == number) really_collect();
  }
  schedulers[number] = NULL;
  for (int i = 0; i < kPerThread; i++) {
    wrong += !s->coroutines[i].done + s->coroutines[i].wrong;
    unmap_stack(s->coroutines[i].stack, kBytes);
  }
  CHECK_EQ(wrong, 0);
  CHECK_EQ(own->number, 4711);
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  fail_after(55);
  GC_INIT();
  others = GC_get_push_other_roots();
  GC_set_push_other_roots(push_stacks);
  CHECK(GC_get_push_other_roots() == push_stacks);
  for (intptr_t i = 1; i < kThreads; i++) {
    CHECK_EQ(pthread_create(&threads[i], NULL, run_scheduler, (void *)i), 0);
  }
  run_scheduler(NULL);
  for (intptr_t i = 1; i < kThreads; i++) pthread_join(threads[i], NULL);
  CHECK_GE(GC_get_gc_no(), 5);
  GC_set_push_other_roots(others);
  return check_result();
}
