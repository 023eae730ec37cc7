/* Threads that end without a word: by the raw system call, or after they were registered in the
   last round of their destructors. Their stacks and thread-local storage are gone, their numbers
   may be others'. What other threads hold stays. */
#include "check.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { kStack = 256 << 10, kRounds = 20, kHeld = 100 };

static pthread_key_t key;
static create_fn create;

static void *exit_at_once(void *arg) {
  memset(GC_malloc(64), 0xff, 64);
  syscall(SYS_exit, 0);
  return arg;
}

static void *GC_CALLBACK exit_blocked(void *arg) {
  syscall(SYS_exit, 0);
  return arg;
}
static void *exit_in_blocking_section(void *arg) {
  memset(GC_malloc(64), 0xff, 64);
  return GC_do_blocking(exit_blocked, arg);
}

/* The library's own destructor lets all others have their turn first, and does not get one again.
 */
static void count_rounds(void *value) {
  const intptr_t round = (intptr_t)value;
  if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(key, (void *)(round + 1));
  } else {
    memset(GC_malloc(64), 0xff, 64);
  }
}
static void *allocate_last(void *arg) {
  pthread_setspecific(key, (void *)1);
  return arg;
}

/* On a stack that is gone when the thread is. */
static void run_and_unmap(void *(*start)(void *)) {
  pthread_t thread;
  pthread_attr_t attributes;
  char *stack =
      (char *)mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED);
  pthread_attr_init(&attributes);
  CHECK_EQ(pthread_attr_setstack(&attributes, stack, kStack), 0);
  CHECK_EQ(create(&thread, &attributes, start, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
  CHECK_EQ(munmap(stack, kStack), 0);
}

static void end_again_and_again(void *(*start)(void *)) {
  size_t *volatile held[kHeld];
  size_t wrong = 0;
  for (size_t i = 0; i < kHeld; i++) {
    held[i] = (size_t *)GC_malloc(64);
    held[i][7] = i;
  }
  for (size_t j = 0; j < kRounds; j++) {
    run_and_unmap(start);
    if (j % 4 == 0) run_and_unmap(start);
    collect();
    for (size_t i = 0; i < 1000; i++) memset(GC_malloc(64), 0xff, 64);
    while (GC_collect_a_little()) {
    }
  }
  for (size_t i = 0; i < kHeld; i++) wrong += held[i][7] != i;
  CHECK_EQ(wrong, 0);
}

/* The first thread's number stays in use, and takes signals, when that thread has ended. */
static sem_t started;
static void *go_on_alone(void *arg) {
  size_t *volatile object = (size_t *)GC_malloc(64);
  object[7] = 4711;
  sem_post(&started);
  await_task_state(getpid(), 'Z');
  for (size_t i = 0; i < 5; i++) collect();
  CHECK_EQ(object[7], 4711);
  exit(check_failures != 0);
  return arg;
}
static void first_thread_ends(void *unused) {
  pthread_t thread;
  sem_init(&started, 0, 0);
  CHECK_EQ(pthread_create(&thread, NULL, go_on_alone, unused), 0);
  wait_for(&started);
  syscall(SYS_exit, 0);
}

/* In a child of fork, too, where the surviving thread has another number. */
static void in_child(void *unused) { end_again_and_again(exit_at_once); }

int main(void) {
  fail_after(50);
  GC_set_handle_fork(1);
  CHECK_EQ(pthread_key_create(&key, count_rounds), 0);
  GC_INIT();
  create = SYSTEM(create_fn, "pthread_create");
  if (!on_gleaner()) return check_result(); /* libgc crashes */
  end_again_and_again(allocate_last);
  end_again_and_again(exit_at_once);
  end_again_and_again(exit_in_blocking_section);
  CHECK_IN_CHILD(in_child, NULL);
  CHECK_IN_CHILD(first_thread_ends, NULL);
  return check_result();
}
