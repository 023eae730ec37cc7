/* Stacks that are arrays on the thread's own: of a coroutine, and of handlers. What lies on the
 * thread's stack below the array is in use, though the stack pointer is above it. */
#include "stacks.h"

enum { kStackBytes = 32 * 1024, kWords = 512, kObjects = 20000 };
static char *array;

static void allocate(void) {
  for (size_t i = 0; i < kObjects; i++) *(void **)GC_MALLOC(64) = NULL;
}

static void switch_there(void) { run_on_stack(array, kStackBytes, allocate); }

static void handler(int number) { allocate(); }
static void raise_signal(void) { raise(SIGUSR1); }

/* Far below the array. */
static NOINLINE void expect_frame_untouched(void (*leave)(void)) {
  volatile size_t words[kWords];
  for (size_t i = 0; i < kWords; i++) words[i] = i;
  allocate();
  leave();
  for (size_t i = 0; i < kWords; i++) CHECK_EQ(words[i], i);
}

static NOINLINE void *on_coroutine(void *arg) {
  char stack[kStackBytes];
  array = stack;
  expect_frame_untouched(switch_there);
  return arg;
}

static NOINLINE void *on_alternate_stack(void *arg) {
  char memory[kStackBytes];
  stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
  CHECK_EQ(sigaltstack(&stack, NULL), 0);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  expect_frame_untouched(raise_signal);
  stack.ss_flags = SS_DISABLE;
  CHECK_EQ(sigaltstack(&stack, NULL), 0);
  return arg;
}

int main(void) {
  GC_INIT();
  on_coroutine(NULL);
  on_alternate_stack(NULL);
  run_in_thread(on_coroutine, NULL);
  run_in_thread(on_alternate_stack, NULL);
  return check_result();
}
