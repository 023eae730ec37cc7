/* Stacks that the program makes and switches to, on any thread. */
#ifndef GLEANER_TESTS_API_STACKS_H
#define GLEANER_TESTS_API_STACKS_H

#include "check.h"

#include <sys/mman.h>
#include <ucontext.h>

enum { kGuardBytes = 4096 };

/* Between memory that cannot be read, so that reading beside it faults. */
static MAYBE_UNUSED char *map_stack(size_t bytes) {
  char *p =
      (char *)mmap(NULL, bytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != (char *)MAP_FAILED);
  CHECK_EQ(mprotect(p + kGuardBytes, bytes, PROT_READ | PROT_WRITE), 0);
  return p + kGuardBytes;
}
static MAYBE_UNUSED void unmap_stack(char *stack, size_t bytes) {
  munmap(stack - kGuardBytes, bytes + 2 * kGuardBytes);
}

static __thread ucontext_t t_own, t_there;

/* Runs fn on that stack, to its end. */
static MAYBE_UNUSED NOINLINE void run_on_stack(char *stack, size_t bytes, void (*fn)(void)) {
  getcontext(&t_there);
  t_there.uc_stack.ss_sp = stack;
  t_there.uc_stack.ss_size = bytes;
  t_there.uc_link = &t_own;
  makecontext(&t_there, fn, 0);
  swapcontext(&t_own, &t_there);
}

/* Tells the collector the bottom, the highest address, of the stack that is in use from here on. */
static MAYBE_UNUSED void *GC_CALLBACK set_bottom(void *address) {
  struct GC_stack_base base;
  memset(&base, 0, sizeof base);
  base.mem_base = address;
  GC_set_stackbottom(NULL, &base);
  return NULL;
}
static MAYBE_UNUSED void tell_bottom(void *address) {
  GC_call_with_alloc_lock(set_bottom, address);
}

/* Objects that only pointers on somebody's stack keep. */
enum { kHeld = 200 };
struct held {
  size_t *volatile *objects;
  struct watch watch;
};
static MAYBE_UNUSED void *make_held(void *arg) {
  struct held *h = (struct held *)arg;
  for (size_t i = 0; i < kHeld; i++) {
    size_t *object = new_object(0x7e57 + i);
    watch_object(&h->watch, i, object);
    h->objects[i] = object;
  }
  return NULL;
}
/* `objects` has room for the pointers, which are nowhere else. */
static MAYBE_UNUSED struct held hold(size_t *volatile *objects) {
  struct held h;
  h.objects = objects;
  watch_init(&h.watch, kHeld);
  run_in_thread(make_held, &h);
  scrub_stack();
  return h;
}
static MAYBE_UNUSED size_t count_lost(struct held *h) {
  size_t i, lost = watch_gone(&h->watch);
  for (i = 0; lost == 0 && i < kHeld; i++) lost += !intact(h->objects[i], 0x7e57 + i);
  watch_end(&h->watch);
  return lost;
}

#endif
