/* Blocked and active threads, the allocation lock, alternate signal stacks, and stacks that a
   program switches by itself. Rule 19 (GC_do_blocking and GC_call_with_gc_active nest; a
   blocked thread is scanned to its saved stack pointer and not signalled). */
#include "../roots/stacks.h"

static sem_t ready, go;

/* Blocked and active by turns, to a depth; every active level holds an object. A blocked thread is
   not sent the signal: it could not be served, with all signals blocked. */
static void *GC_CALLBACK active(void *data);
static void *GC_CALLBACK blocked(void *data) {
  size_t depth = (size_t)data;
  if (depth == 0) {
    const sigmask_fn system_sigmask = SYSTEM(sigmask_fn, "pthread_sigmask");
    sigset_t all, old;
    sigfillset(&all);
    CHECK_EQ(system_sigmask(SIG_BLOCK, &all, &old), 0);
    sem_post(&ready);
    wait_for(&go);
    CHECK_EQ(system_sigmask(SIG_SETMASK, &old, NULL), 0);
    return (void *)1;
  }
  return (void *)((size_t)GC_call_with_gc_active(active, (void *)(depth - 1)) + 1);
}
static void *GC_CALLBACK active(void *data) {
  size_t *volatile p = new_object(0x100 + (size_t)data);
  GC_gcollect();
  memset(GC_malloc(64), 0xff, 64);
  void *result = GC_do_blocking(blocked, data);
  memset(GC_malloc(64), 0xff, 64);
  CHECK(intact(p, 0x100 + (size_t)data));
  return (void *)((size_t)result + 1);
}
static void *nest(void *arg) { return active(arg); }

static void nesting(void) {
  static const size_t depths[] = {0, 1, 2, 3, 6, 10};
  for (size_t i = 0; i < COUNT_OF(depths); i++) {
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, nest, (void *)depths[i]), 0);
    wait_for(&ready);
    collect_and_overwrite(64);
    sem_post(&go);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ((size_t)result, 2 * depths[i] + 2);
  }
  /* The main thread too. */
  sem_post(&go);
  CHECK_EQ((size_t)active((void *)3), 8);
  wait_for(&ready);
  /* Active inside active. */
  sem_post(&go);
  CHECK_EQ((size_t)GC_call_with_gc_active(active, (void *)1), 4);
  wait_for(&ready);
}

/* What is only below the call of GC_do_blocking is not searched. */
enum { kCount = 1000 };
static struct watch blocked_objects;
static void *make_blocked_objects(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    ((void **)arg)[i] = GC_malloc(48);
    watch_object(&blocked_objects, i, ((void **)arg)[i]);
  }
  return NULL;
}
static void *GC_CALLBACK hold_while_blocked(void *data) {
  void *volatile held[kCount];
  for (size_t i = 0; i < kCount; i++) held[i] = ((void **)data)[i];
  sem_post(&ready);
  wait_for(&go);
  return held[5] == NULL ? data : NULL;
}
static void *hold_blocked(void *arg) { return GC_do_blocking(hold_while_blocked, arg); }

static void not_searched(void) {
  void **objects = (void **)calloc(kCount, sizeof *objects);
  pthread_t thread;
  watch_init(&blocked_objects, kCount);
  GC_disable();
  run_in_thread(make_blocked_objects, objects);
  CHECK_EQ(pthread_create(&thread, NULL, hold_blocked, objects), 0);
  wait_for(&ready);
  GC_enable();
  CHECK_GONE(&blocked_objects);
  watch_end(&blocked_objects);
  sem_post(&go);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  free(objects);
}

/* While one thread holds the lock, another's collection does not happen. */
static volatile int collected;
static volatile long collector;
static void *collect_and_tell(void *arg) {
  collector = task_self();
  sem_post(&ready);
  GC_gcollect();
  collected = 1;
  return NULL;
}
static void *GC_CALLBACK under_the_lock(void *data) {
  GC_word before = GC_get_gc_no();
  sem_post(&go);
  wait_for(&ready);
  while (!collected && task_state(collector) != 'S') sleep_ms(1);
  CHECK(!collected);
  CHECK_EQ(GC_get_gc_no(), before);
  return data;
}
static void *wait_and_collect(void *arg) {
  wait_for(&go);
  return collect_and_tell(arg);
}

static void *GC_CALLBACK by_hand(void *data) {
  GC_alloc_lock();
  under_the_lock(data);
  GC_alloc_unlock();
  return data;
}
static void *GC_CALLBACK by_callback(void *data) {
  return GC_call_with_alloc_lock(under_the_lock, data);
}
/* Of later versions of libgc. */
static void *GC_CALLBACK by_reader(void *data) {
  return GC_call_with_reader_lock(under_the_lock, data, 0);
}
static void *GC_CALLBACK by_releasing_reader(void *data) {
  return GC_call_with_reader_lock(under_the_lock, data, 1);
}

static void lock(void) {
  void *(*const ways[])(void *) = {by_hand, by_callback, by_reader, by_releasing_reader};
  for (size_t i = 0; i < (on_gleaner() ? 4 : 2); i++) {
    pthread_t thread;
    collected = 0;
    CHECK_EQ(pthread_create(&thread, NULL, wait_and_collect, NULL), 0);
    CHECK_PTR(ways[i](&thread), &thread);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(collected);
  }
}

/* A handler on an alternate stack, while another thread collects. */
static volatile int handler_ran;
static void on_alternate_stack(int signal_number) {
  size_t *volatile p = new_object((size_t)signal_number);
  sem_post(&ready);
  wait_for(&go);
  CHECK(intact(p, (size_t)signal_number));
  handler_ran = 1;
}
static void *with_alternate_stack(void *arg) {
  size_t *volatile p = new_object(0x88);
  pthread_attr_t attr;
  void *lowest;
  size_t size;
  struct sigaction action = {0};
  stack_t stack = {.ss_size = 64 << 10};
  stack.ss_sp = malloc(stack.ss_size);
  CHECK_EQ(sigaltstack(&stack, NULL), 0);
  action.sa_handler = on_alternate_stack;
  action.sa_flags = SA_ONSTACK;
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  pthread_getattr_np(pthread_self(), &attr);
  pthread_attr_getstack(&attr, &lowest, &size);
  pthread_attr_destroy(&attr);
  if (arg) GC_register_altstack(lowest, size, stack.ss_sp, stack.ss_size);
  pthread_kill(pthread_self(), SIGUSR1);
  /* libgc searches the alternate stack and not the normal one then. */
  if (on_gleaner()) CHECK(intact(p, 0x88));
  stack.ss_flags = SS_DISABLE;
  CHECK_EQ(sigaltstack(&stack, NULL), 0);
  free(stack.ss_sp);
  return NULL;
}

static void alternate_stack(int registered) {
  pthread_t thread;
  handler_ran = 0;
  CHECK_EQ(pthread_create(&thread, NULL, with_alternate_stack, registered ? &ready : NULL), 0);
  wait_for(&ready);
  collect_and_overwrite(64);
  sem_post(&go);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(handler_ran);
}

/* A fiber: another stack on the same thread, made known by GC_set_stackbottom under the lock, or by
   the variable GC_stackbottom on the main thread. */
enum { kFiberStack = 256 << 10 };
static char *fiber_stack;
static int on_fiber_ok;
static void fiber(void) {
  size_t *volatile p = new_object(0xf1be4);
  collect();
  overwrite((void *)64);
  collect();
  on_fiber_ok += intact(p, 0xf1be4);
}

static void enter_fiber(void) { run_on_stack(fiber_stack, kFiberStack, fiber); }

/* By the thread's handle, and as the caller itself. */
struct bottom {
  void *thread;
  struct GC_stack_base base;
};
static void *GC_CALLBACK set_bottom_of(void *data) {
  struct bottom *b = (struct bottom *)data;
  GC_set_stackbottom(b->thread, &b->base);
  return NULL;
}
static void *with_function(void *arg) {
  struct bottom own, other;
  own.thread = other.thread = GC_get_my_stackbottom(&own.base);
  CHECK(own.thread != NULL);
  other.base.mem_base = fiber_stack + kFiberStack;
  GC_call_with_alloc_lock(set_bottom_of, &other);
  GC_get_my_stackbottom(&other.base);
  CHECK_PTR(other.base.mem_base, fiber_stack + kFiberStack);
  enter_fiber();
  GC_call_with_alloc_lock(set_bottom_of, &own);
  tell_bottom(fiber_stack + kFiberStack);
  enter_fiber();
  tell_bottom(own.base.mem_base);
  collect();
  return arg;
}

static void with_variable(void) { /* crystal */
  char *own = GC_stackbottom;
  for (int i = 0; i < 3; i++) {
    GC_disable();
    GC_stackbottom = fiber_stack + kFiberStack;
    GC_enable();
    enter_fiber();
    GC_stackbottom = own;
    collect();
  }
}

static void own_stacks(void) {
  fiber_stack = map_stack(kFiberStack);
  with_function(NULL);
  CHECK_EQ(on_fiber_ok, 2);
  run_in_thread(with_function, NULL);
  CHECK_EQ(on_fiber_ok, 4);
  with_variable();
  CHECK_EQ(on_fiber_ok, 7);
  unmap_stack(fiber_stack, kFiberStack);
}

int main(void) {
  fail_after(50);
  GC_INIT();
  sem_init(&ready, 0, 0);
  sem_init(&go, 0, 0);
  GC_register_altstack(NULL, 0, NULL, 0);
  nesting();
  not_searched();
  lock();
  alternate_stack(1);
  if (on_gleaner()) alternate_stack(0);
  own_stacks();
  return check_result();
}
