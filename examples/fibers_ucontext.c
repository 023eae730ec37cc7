/*
 * Fibers on ucontext: 200 coroutines on 4 threads. A fiber that yields goes on wherever a thread is
 * free, so most of them move between threads; their data are reachable from their stacks alone, and
 * each of them allocates enough for collections to come all the time.
 *
 *   cc fibers_ucontext.c $(pkg-config --cflags --libs gleaner)
 */
#define GC_THREADS
#include <gc.h>
#include <gleaner.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { kThreads = 4, kFibers = 200, kSteps = 40, kNodesPerStep = 25, kStackBytes = 64 << 10 };

struct fiber {
  gleaner_fiber *handle;
  ucontext_t
      context; /* in memory of malloc: gleaner_fiber_switch puts the registers on the stack */
  ucontext_t *resumer; /* where to go on yielding: the stack of the thread that runs the fiber */
  struct fiber *next;  /* in the queue */
  int number, done;
  uint64_t sum;
};

struct node {
  struct node *next;
  uint64_t value;
};

/* The queue of fibers that are ready. A fiber is put into it by the thread that ran it, after the
   switch away from it: never by itself, while it is still on its stack. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fiber *ready;
static int unfinished = kFibers;

static void push(struct fiber *fiber) {
  pthread_mutex_lock(&lock);
  fiber->next = ready;
  ready = fiber;
  pthread_mutex_unlock(&lock);
}

/* The longest-waiting fiber; NULL if there is none now. */
static struct fiber *pop(void) {
  struct fiber **last, *fiber = NULL;
  pthread_mutex_lock(&lock);
  for (last = &ready; *last != NULL && (*last)->next != NULL;) last = &(*last)->next;
  if (*last != NULL) {
    fiber = *last;
    *last = NULL;
  }
  pthread_mutex_unlock(&lock);
  return fiber;
}

struct contexts {
  ucontext_t *from, *to;
};

static void swap(void *argument) {
  struct contexts *contexts = argument;
  swapcontext(contexts->from, contexts->to);
}

static void yield(struct fiber *self) {
  struct contexts contexts;
  contexts.from = &self->context;
  contexts.to = self->resumer;
  if (gleaner_fiber_switch(NULL, swap, &contexts) != 0) abort();
}

static void resume(struct fiber *fiber) {
  ucontext_t here;
  struct contexts contexts;
  contexts.from = &here;
  contexts.to = &fiber->context;
  fiber->resumer = &here;
  if (gleaner_fiber_switch(fiber->handle, swap, &contexts) != 0) abort();
}

/* makecontext passes ints. */
static void run_fiber(unsigned high, unsigned low) {
  struct fiber *self = (struct fiber *)(((uintptr_t)high << 32) | low);
  struct node *list = NULL; /* nothing but this stack knows it */
  const struct node *n;
  int step, i;
  for (step = 0; step < kSteps; step++) {
    for (i = 0; i < kNodesPerStep; i++) {
      struct node *added = GC_NEW(struct node);
      added->value = (uint64_t)self->number * 1000003 + (uint64_t)(step * kNodesPerStep + i);
      added->next = list;
      list = added;
      GC_MALLOC(500); /* garbage, to have collections */
    }
    yield(self);
  }
  for (n = list; n != NULL; n = n->next) self->sum += n->value;
  self->done = 1;
  yield(self); /* for the last time: nobody resumes it */
}

static void *run_thread(void *unused) {
  (void)unused;
  for (;;) {
    struct fiber *fiber = pop();
    if (fiber == NULL) {
      int left;
      pthread_mutex_lock(&lock);
      left = unfinished;
      pthread_mutex_unlock(&lock);
      if (left == 0) return NULL;
      sched_yield();
      continue;
    }
    resume(fiber);
    if (!fiber->done) {
      push(fiber);
      continue;
    }
    pthread_mutex_lock(&lock);
    unfinished--;
    pthread_mutex_unlock(&lock);
  }
}

static struct fiber *start(int number) {
  struct fiber *fiber = calloc(1, sizeof *fiber);
  void *stack = mmap(NULL, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (fiber == NULL || stack == MAP_FAILED) abort();
  fiber->number = number;
  fiber->handle = gleaner_fiber_create(stack, kStackBytes);
  if (fiber->handle == NULL) abort();
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber->context, (void (*)(void))run_fiber, 2, (unsigned)((uintptr_t)fiber >> 32),
              (unsigned)(uintptr_t)fiber);
  push(fiber);
  return fiber;
}

static void end(struct fiber *fiber) {
  if (gleaner_fiber_destroy(fiber->handle) != 0) abort();
  munmap(fiber->context.uc_stack.ss_sp, kStackBytes);
  free(fiber);
}

int main(void) {
  struct fiber *fibers[kFibers];
  pthread_t threads[kThreads];
  struct gleaner_stats stats;
  const uint64_t count = (uint64_t)kSteps * kNodesPerStep;
  int i, wrong = 0;
  GC_INIT();
  for (i = 0; i < kFibers; i++) fibers[i] = start(i);
  for (i = 0; i < kThreads; i++) {
    if (pthread_create(&threads[i], NULL, run_thread, NULL) != 0) abort();
  }
  for (i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  for (i = 0; i < kFibers; i++) {
    const uint64_t expected = (uint64_t)i * 1000003 * count + count * (count - 1) / 2;
    wrong += fibers[i]->sum != expected;
    end(fibers[i]);
  }
  gleaner_get_stats(&stats, sizeof stats);
  printf("%d fibers on %d threads, %s collections meanwhile, %d wrong sums\n", kFibers, kThreads,
         stats.collections > 0 ? "with" : "without", wrong);
  return wrong != 0 || stats.collections == 0;
}
