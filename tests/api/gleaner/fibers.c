/* gleaner_fiber_*: what suspended, running, fresh and abandoned stacks keep alive; movement between
   threads; stops in the middle of a switch; signals; fork. */
#include "fibers.h"

enum { kObjects = 500 };

struct object {
  struct object *next;
  size_t number;
};

static struct watch watched;   /* what hangs on a fiber's stack */
static struct watch on_thread; /* what hangs on the own stack of a thread that runs a fiber */

/* A list of objects, under watch, with the numbers [0, kObjects). */
static NOINLINE struct object *make_list_of(struct watch *watch) {
  struct object *list = NULL;
  for (size_t i = kObjects; i-- > 0;) {
    struct object *o = GC_NEW(struct object);
    o->number = i;
    o->next = list;
    list = o;
    watch_object(watch, i, o);
  }
  return list;
}
static struct object *make_list(void) { return make_list_of(&watched); }

static NOINLINE int list_is_whole(const struct object *list) {
  for (size_t i = 0; i < kObjects; i++, list = list->next) {
    if (list == NULL || list->number != i) return 0;
  }
  return list == NULL;
}

static NOINLINE void keep_and_yield(struct coroutine *self) {
  struct object *list = make_list();
  while (self->argument == NULL) coroutine_yield(self);
  self->result = (void *)(intptr_t)list_is_whole(list);
}

static volatile int stage;

static void await_stage(int value) {
  while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) < value) sched_yield();
}
static void set_stage(int value) { __atomic_store_n(&stage, value, __ATOMIC_RELEASE); }

/* Churns the heap, so that memory given up wrongly is used again. */
static NOINLINE void churn(void) {
  for (size_t i = 0; i < 20000; i++)
    memset(GC_MALLOC(sizeof(struct object)), 0x55, sizeof(struct object));
  collect();
}

static void *resume_in_thread(void *c) {
  coroutine_resume((struct coroutine *)c);
  return NULL;
}

/* --- Suspended: kept; destroyed: not. --- */

static void suspended(void) {
  watch_init(&watched, kObjects);
  struct coroutine *c = coroutine_new(keep_and_yield, NULL);
  CHECK_EQ(gleaner_fiber_get_state(c->fiber), GLEANER_FIBER_FRESH);
  CHECK_NULL(gleaner_fiber_current());
  run_in_thread(resume_in_thread, c);
  CHECK_EQ(gleaner_fiber_get_state(c->fiber), GLEANER_FIBER_SUSPENDED);
  churn();
  CHECK_EQ(watch_gone(&watched), 0);
  for (int i = 0; i < 4; i++) { /* each time on another thread */
    run_in_thread(resume_in_thread, c);
    churn();
    CHECK_EQ(watch_gone(&watched), 0);
  }
  coroutine_resume(c);
  c->argument = c;
  coroutine_resume(c);
  CHECK(c->done);
  CHECK(c->result != NULL);
  watch_end(&watched);
  coroutine_free(c);

  watch_init(&watched, kObjects);
  c = coroutine_new(keep_and_yield, NULL);
  run_in_thread(resume_in_thread, c);
  CHECK_KEPT(&watched);
  coroutine_free(c);
  churn();
  CHECK_MOSTLY(watch_gone(&watched), kObjects);
  watch_end(&watched);
}

/* --- What lies below the stack pointer of a suspended fiber is dead. --- */

static NOINLINE void use_much_stack(void) {
  struct object *volatile objects[kObjects];
  for (size_t i = 0; i < kObjects; i++) {
    objects[i] = GC_NEW(struct object);
    watch_object(&watched, i, objects[i]);
  }
}

static void deep_and_back(struct coroutine *self) {
  char room[2048]; /* so that the dead part is well below what yielding uses */
  memset(room, 0, sizeof room);
  use_much_stack();
  __asm__ volatile("" : : "r"(room) : "memory");
  coroutine_yield(self);
}

static void dead_part(void) {
  watch_init(&watched, kObjects);
  struct coroutine *c = coroutine_new(deep_and_back, NULL);
  run_in_thread(resume_in_thread, c);
  churn();
  CHECK_GE(watch_gone(&watched), kObjects / 2); /* yielding lies over a part */
  coroutine_resume(c);
  CHECK(c->done);
  coroutine_free(c);
  watch_end(&watched);
}

/* --- Running while another thread collects; the thread's own stack meanwhile. --- */

/* Calls f(data) from deeper than what counts of a fresh stack. */
static NOINLINE void go_deep(void (*f)(struct coroutine *), struct coroutine *self) {
  char room[4096];
  memset(room, 0, sizeof room);
  __asm__ volatile("" : : "r"(room) : "memory");
  f(self);
  __asm__ volatile("" : : "r"(room) : "memory");
}

static NOINLINE void hold_list_and_spin(struct coroutine *self) {
  struct object *list = make_list();
  CHECK_PTR(gleaner_fiber_current(), self->fiber);
  set_stage(1);
  while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) < 2) __asm__ volatile("" : : "r"(list));
  self->result = (void *)(intptr_t)list_is_whole(list);
}
static void spin_on_fiber(struct coroutine *self) { go_deep(hold_list_and_spin, self); }

static NOINLINE void hold_list_and_resume_deep(struct coroutine *c) {
  struct object *list = make_list_of(&on_thread);
  coroutine_resume(c);
  CHECK(list_is_whole(list));
}
static void *hold_list_and_resume(void *c) {
  go_deep(hold_list_and_resume_deep, (struct coroutine *)c);
  return NULL;
}

static void watch_both(void) {
  watch_init(&watched, kObjects);
  watch_init(&on_thread, kObjects);
}
static void check_both(void) {
  churn();
  CHECK_EQ(watch_gone(&watched), 0);
  CHECK_EQ(watch_gone(&on_thread), 0);
}
static void end_both(void) {
  watch_end(&watched);
  watch_end(&on_thread);
}

static void running(void) {
  pthread_t thread;
  watch_both();
  stage = 0;
  struct coroutine *c = coroutine_new(spin_on_fiber, NULL);
  CHECK_EQ(pthread_create(&thread, NULL, hold_list_and_resume, c), 0);
  await_stage(1);
  CHECK_EQ(gleaner_fiber_get_state(c->fiber), GLEANER_FIBER_RUNNING);
  check_both();
  CHECK_EQ(gleaner_fiber_destroy(c->fiber), EBUSY);
  CHECK_EQ(gleaner_fiber_announce(c->fiber), EBUSY);
  CHECK_NULL(gleaner_fiber_current());
  set_stage(2);
  pthread_join(thread, NULL);
  CHECK(c->result != NULL);
  coroutine_free(c);
  end_both();
}

/* --- A stop between the announcement and the switch. --- */

struct half {
  struct coroutine *c;
  struct context_pair pair;
};

/* In place of swapcontext: goes deep into the stack that is still in use, and waits there. */
static NOINLINE int wait_deep(int depth) {
  struct object *volatile o = GC_NEW(struct object);
  o->number = (size_t)depth;
  if (depth == 0) {
    set_stage(1);
    await_stage(2);
    return 0;
  }
  int sum = wait_deep(depth - 1);
  CHECK_EQ(o->number, depth);
  return sum + 1;
}

static void swap_after_a_while(void *argument) {
  CHECK_EQ(wait_deep(200), 200);
  swap_pair(argument);
}

static void *switch_slowly(void *argument) {
  struct coroutine *c = (struct coroutine *)argument;
  ucontext_t here;
  struct context_pair pair;
  pair.from = &here;
  pair.to = &c->context;
  c->resumer = &here;
  CHECK_EQ(gleaner_fiber_switch(c->fiber, swap_after_a_while, &pair), 0);
  return NULL;
}

static void yield_slowly(struct coroutine *self) {
  struct object *list = make_list();
  struct context_pair pair;
  coroutine_yield(self);
  pair.from = &self->context;
  pair.to = self->resumer;
  CHECK_EQ(gleaner_fiber_switch(NULL, swap_after_a_while, &pair), 0);
  self->result = (void *)(intptr_t)list_is_whole(list);
}

static void between(void) {
  pthread_t thread;
  watch_init(&watched, kObjects);
  struct coroutine *c = coroutine_new(yield_slowly, NULL);
  run_in_thread(resume_in_thread, c);
  /* Entering it. */
  stage = 0;
  CHECK_EQ(pthread_create(&thread, NULL, switch_slowly, c), 0);
  await_stage(1);
  CHECK_EQ(gleaner_fiber_get_state(c->fiber), GLEANER_FIBER_RUNNING);
  churn();
  CHECK_EQ(watch_gone(&watched), 0);
  set_stage(2);
  /* It then leaves as slowly. */
  while (gleaner_fiber_get_state(c->fiber) == GLEANER_FIBER_RUNNING) sched_yield();
  while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != 1) sched_yield();
  churn();
  CHECK_EQ(watch_gone(&watched), 0);
  set_stage(2);
  pthread_join(thread, NULL);
  coroutine_resume(c);
  CHECK(c->done && c->result != NULL);
  coroutine_free(c);
  watch_end(&watched);
}

/* --- By announcement, with the registers in memory that only the fiber's context names. --- */

static void by_announcement(struct coroutine *self) {
  struct object *list = make_list();
  for (int i = 0; i < 3; i++) {
    CHECK_EQ(gleaner_fiber_announce(NULL), 0);
    swapcontext(&self->context, self->resumer);
  }
  self->result = (void *)(intptr_t)list_is_whole(list);
}

static void announcement(void) {
  watch_init(&watched, kObjects);
  struct coroutine *c = coroutine_new(by_announcement, NULL);
  CHECK_EQ(gleaner_fiber_set_context(c->fiber, &c->context, sizeof c->context), 0);
  for (int i = 0; i < 4; i++) {
    run_in_thread(resume_in_thread, c);
    churn();
    if (i < 3) CHECK_EQ(watch_gone(&watched), 0);
  }
  CHECK(c->done && c->result != NULL);
  coroutine_free(c);
  watch_end(&watched);
}

/* The context is searched by itself, and as long as it is set. */
static NOINLINE void *list_to_hidden_place(void *place) {
  *(void **)place = make_list();
  return NULL;
}

static void context(void) {
  char *stack = map_stack(kStackBytes);
  gleaner_fiber *fiber = gleaner_fiber_create(stack, kStackBytes);
  void **place = (void **)malloc(4 * sizeof(void *));
  memset(place, 0, 4 * sizeof(void *));
  watch_init(&watched, kObjects);
  CHECK_EQ(gleaner_fiber_set_context(fiber, place, 4 * sizeof(void *)), 0);
  run_in_thread(list_to_hidden_place, place + 3);
  churn();
  CHECK_EQ(watch_gone(&watched), 0);
  CHECK_EQ(gleaner_fiber_set_context(fiber, NULL, 0), 0);
  churn();
  CHECK_MOSTLY(watch_gone(&watched), kObjects);
  CHECK_EQ(gleaner_fiber_destroy(fiber), 0);
  watch_end(&watched);
  free(place);
  munmap(stack - kGuardBytes, kStackBytes + 2 * kGuardBytes);
}

/* --- What was put on a fresh stack for its first function. --- */

static void fresh(void) {
  char *stack = map_stack(kStackBytes);
  gleaner_fiber *fiber = gleaner_fiber_create(stack, kStackBytes);
  watch_init(&watched, kObjects);
  run_in_thread(list_to_hidden_place, stack + kStackBytes - 64);
  churn();
  CHECK_EQ(watch_gone(&watched), 0);
  CHECK_EQ(gleaner_fiber_destroy(fiber), 0);
  churn();
  CHECK_MOSTLY(watch_gone(&watched), kObjects);
  watch_end(&watched);
  munmap(stack - kGuardBytes, kStackBytes + 2 * kGuardBytes);
}

/* --- A handler on an alternate stack interrupts a fiber. --- */

static void on_signal(int number) {
  set_stage(2);
  await_stage(3);
}

static NOINLINE void hold_list_and_raise(struct coroutine *self) {
  struct object *volatile list = make_list(); /* in memory, not in a register */
  scrub_stack();
  raise(SIGUSR1);
  self->result = (void *)(intptr_t)list_is_whole(list);
}
static void interrupted(struct coroutine *self) { go_deep(hold_list_and_raise, self); }

static void *resume_with_alternate_stack(void *c) {
  stack_t alternate = {.ss_size = 64 << 10};
  alternate.ss_sp = malloc(alternate.ss_size);
  CHECK_EQ(sigaltstack(&alternate, NULL), 0);
  hold_list_and_resume(c);
  alternate.ss_flags = SS_DISABLE;
  CHECK_EQ(sigaltstack(&alternate, NULL), 0);
  free(alternate.ss_sp);
  return NULL;
}

static void alternate_stack(void) {
  pthread_t thread;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  watch_both();
  stage = 0;
  struct coroutine *c = coroutine_new(interrupted, NULL);
  CHECK_EQ(pthread_create(&thread, NULL, resume_with_alternate_stack, c), 0);
  await_stage(2);
  check_both();
  set_stage(3);
  pthread_join(thread, NULL);
  CHECK(c->done && c->result != NULL);
  coroutine_free(c);
  end_both();
}

/* --- Blocking sections on a fiber. --- */

static void *allocate(void *unused) {
  GC_gcollect();
  return GC_MALLOC(100);
}

static void *wait_for_stage_2(void *unused) {
  struct GC_stack_base before, after;
  /* That the thread is on a fiber does not move the end of its own stack. */
  GC_get_my_stackbottom(&before);
  CHECK(GC_call_with_gc_active(allocate, NULL) != NULL);
  GC_get_my_stackbottom(&after);
  CHECK_PTR(after.mem_base, before.mem_base);
  set_stage(1);
  await_stage(2);
  CHECK_EQ(gleaner_fiber_announce(NULL), EPERM);
  return NULL;
}

static NOINLINE void hold_list_and_block(struct coroutine *self) {
  struct object *list = make_list();
  GC_do_blocking(wait_for_stage_2, NULL);
  self->result = (void *)(intptr_t)list_is_whole(list);
}
static void block_on_fiber(struct coroutine *self) { go_deep(hold_list_and_block, self); }

static void blocking(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  char *own_stack, *unused[101];
  int count = 0;
  watch_both();
  stage = 0;
  struct coroutine *c = coroutine_new(block_on_fiber, NULL);
  /* A thread whose own stack has lower addresses than the fiber's. */
  while ((own_stack = map_stack(kStackBytes)) > c->stack && count < 100)
    unused[count++] = own_stack;
  CHECK(own_stack < c->stack);
  pthread_attr_init(&attributes);
  CHECK_EQ(pthread_attr_setstack(&attributes, own_stack, kStackBytes), 0);
  CHECK_EQ(pthread_create(&thread, &attributes, hold_list_and_resume, c), 0);
  await_stage(1);
  check_both();
  set_stage(2);
  pthread_join(thread, NULL);
  CHECK(c->done && c->result != NULL);
  coroutine_free(c);
  end_both();
  pthread_attr_destroy(&attributes);
  unused[count++] = own_stack;
  for (int i = 0; i < count; i++) unmap_stack(unused[i], kStackBytes);
}

/* --- The end of a thread on a fiber. --- */

static void *end_on(void *c) {
  CHECK_EQ(gleaner_fiber_announce(((struct coroutine *)c)->fiber), 0);
  return NULL;
}

static void abandoned(void) {
  watch_init(&watched, kObjects);
  struct coroutine *c = coroutine_new(keep_and_yield, NULL);
  run_in_thread(resume_in_thread, c);
  run_in_thread(end_on, c);
  CHECK_EQ(gleaner_fiber_get_state(c->fiber), GLEANER_FIBER_ABANDONED);
  CHECK_EQ(gleaner_fiber_announce(c->fiber), ESRCH);
  churn();
  CHECK_MOSTLY(watch_gone(&watched), kObjects);
  coroutine_free(c);
  watch_end(&watched);
}

/* --- fork: suspended fibers go on in the child, those of other threads do not. --- */

static void forking(void) {
  pthread_t thread;
  watch_init(&watched, kObjects);
  stage = 0;
  struct coroutine *suspended_one = coroutine_new(keep_and_yield, NULL);
  run_in_thread(resume_in_thread, suspended_one);
  watch_end(&watched);
  watch_both();
  struct coroutine *running_one = coroutine_new(spin_on_fiber, NULL);
  CHECK_EQ(pthread_create(&thread, NULL, hold_list_and_resume, running_one), 0);
  await_stage(1);
  pid_t child = fork();
  if (child == 0) {
    churn();
    suspended_one->argument = suspended_one;
    coroutine_resume(suspended_one);
    CHECK(suspended_one->result != NULL);
    CHECK_EQ(gleaner_fiber_get_state(running_one->fiber), GLEANER_FIBER_ABANDONED);
    CHECK_EQ(gleaner_fiber_announce(running_one->fiber), ESRCH);
    CHECK_EQ(gleaner_fiber_destroy(running_one->fiber), 0);
    CHECK_EQ(gleaner_fiber_destroy(suspended_one->fiber), 0);
    _exit(check_result());
  }
  CHECK_CHILD(child);
  check_both();
  set_stage(2);
  pthread_join(thread, NULL);
  CHECK(running_one->result != NULL);
  suspended_one->argument = suspended_one;
  coroutine_resume(suspended_one);
  CHECK(suspended_one->result != NULL);
  coroutine_free(suspended_one);
  coroutine_free(running_one);
  end_both();
}

/* --- Many of them, made and destroyed out of order. --- */

static void many(void) {
  enum { kMany = 3000, kSmall = 4096 };
  char *memory = (char *)mmap(NULL, (size_t)kMany * kSmall, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  gleaner_fiber **fibers = (gleaner_fiber **)calloc(kMany, sizeof *fibers);
  for (size_t i = 0; i < kMany; i++) {
    const size_t at = i * 1237 % kMany;
    fibers[at] = gleaner_fiber_create(memory + at * kSmall, kSmall);
    CHECK(fibers[at] != NULL);
  }
  for (size_t i = 0; i < kMany; i++) {
    CHECK_EQ(gleaner_fiber_get_state(fibers[i]), GLEANER_FIBER_FRESH);
    *(void **)(memory + i * kSmall + kSmall - 8) = memset(GC_MALLOC(64), (int)(i & 127), 64);
  }
  churn();
  for (size_t i = 0; i < kMany; i++) {
    const char *object = *(char **)(memory + i * kSmall + kSmall - 8);
    CHECK(object[0] == (char)(i & 127) && object[63] == (char)(i & 127));
  }
  for (size_t i = 0; i < kMany; i++) CHECK_EQ(gleaner_fiber_destroy(fibers[i * 1993 % kMany]), 0);
  free(fibers);
  munmap(memory, (size_t)kMany * kSmall);
}

int main(void) {
  if (!on_gleaner()) return 0;
  fail_after(55);
  GC_INIT();
  suspended();
  dead_part();
  running();
  between();
  announcement();
  context();
  fresh();
  alternate_stack();
  blocking();
  abandoned();
  forking();
  many();
  return check_result();
}
