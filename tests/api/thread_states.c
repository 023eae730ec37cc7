/* Blocked and active threads, the allocation lock, alternate signal stacks, and stacks that a
   program switches by itself. */
#include "check.h"

#include <semaphore.h>
#include <signal.h>
#include <ucontext.h>

static sem_t ready, go;

static void *churn(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < 100000; i++) memset(GC_malloc(64), 0xff, 64);
  return NULL;
}

static NOINLINE int intact(const size_t *p, size_t magic) { return p[0] == magic && p[7] == magic; }
static NOINLINE size_t *new_object(size_t magic) {
  size_t *p = (size_t *)GC_malloc(8 * sizeof *p);
  p[0] = p[7] = magic;
  return p;
}

static void wait_for(sem_t *s) {
  while (sem_wait(s) != 0) {
  }
}

/* Blocked and active by turns, to a depth; every active level holds an object. */
static void *GC_CALLBACK active(void *data);
static void *GC_CALLBACK blocked(void *data) {
  size_t depth = (size_t)data;
  if (depth == 0) {
    sem_post(&ready);
    wait_for(&go);
    return (void *)1;
  }
  return (void *)((size_t)GC_call_with_gc_active(active, (void *)(depth - 1)) + 1);
}
static void *GC_CALLBACK active(void *data) {
  size_t *volatile p = new_object(0x100 + (size_t)data);
  void *result;
  memset(GC_malloc(64), 0xff, 64);
  result = GC_do_blocking(blocked, data);
  memset(GC_malloc(64), 0xff, 64);
  CHECK(intact(p, 0x100 + (size_t)data));
  return (void *)((size_t)result + 1);
}
static void *nest(void *arg) { return active(arg); }

static void nesting(void) {
  static const size_t depths[] = {0, 1, 2, 10};
  size_t i;
  for (i = 0; i < 4; i++) {
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, nest, (void *)depths[i]), 0);
    wait_for(&ready);
    collect();
    run_in_thread(churn, NULL);
    collect();
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

/* A blocked thread is not sent the signal: it could not be served, with all signals blocked. */
static void *GC_CALLBACK wait_deaf(void *data) {
  int (*system_sigmask)(int, const sigset_t *, sigset_t *) =
      (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_DEFAULT, "pthread_sigmask");
  sigset_t all, old;
  sigfillset(&all);
  system_sigmask(SIG_BLOCK, &all, &old);
  sem_post(&ready);
  wait_for(&go);
  system_sigmask(SIG_SETMASK, &old, NULL);
  return data;
}
static void *block_deaf(void *arg) {
  size_t *volatile p = new_object(5);
  CHECK_PTR(GC_do_blocking(wait_deaf, arg), arg);
  CHECK(intact(p, 5));
  return NULL;
}

static void not_signalled(void) {
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, block_deaf, &thread), 0);
  wait_for(&ready);
  collect();
  run_in_thread(churn, NULL);
  collect();
  sem_post(&go);
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* What is only below the call of GC_do_blocking is not searched. */
enum { kCount = 1000 };
static struct watch blocked_objects;
static void *make_blocked_objects(void *arg) {
  size_t i;
  for (i = 0; i < kCount; i++) {
    ((void **)arg)[i] = GC_malloc(48);
    watch_object(&blocked_objects, i, ((void **)arg)[i]);
  }
  return NULL;
}
static void *GC_CALLBACK hold_while_blocked(void *data) {
  void *volatile held[kCount];
  size_t i;
  for (i = 0; i < kCount; i++) held[i] = ((void **)data)[i];
  sem_post(&ready);
  wait_for(&go);
  return held[5] == NULL ? data : NULL;
}
static void *hold(void *arg) { return GC_do_blocking(hold_while_blocked, arg); }

static void not_searched(void) {
  void **objects = (void **)calloc(kCount, sizeof *objects);
  pthread_t thread;
  watch_init(&blocked_objects, kCount);
  GC_disable();
  run_in_thread(make_blocked_objects, objects);
  CHECK_EQ(pthread_create(&thread, NULL, hold, objects), 0);
  wait_for(&ready);
  GC_enable();
  collect();
  CHECK_MOSTLY(watch_gone(&blocked_objects), kCount);
  watch_end(&blocked_objects);
  sem_post(&go);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  free(objects);
}

/* While one thread holds the lock, another's collection does not happen. */
static volatile int collected;
static volatile long collector;
static void *collect_and_tell(void *arg) {
  (void)arg;
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

static void lock(void) {
  pthread_t thread;
  collected = 0;
  CHECK_EQ(pthread_create(&thread, NULL, wait_and_collect, NULL), 0);
  CHECK_PTR(GC_call_with_alloc_lock(under_the_lock, &thread), &thread);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(collected);

  collected = 0;
  CHECK_EQ(pthread_create(&thread, NULL, wait_and_collect, NULL), 0);
  GC_alloc_lock();
  under_the_lock(NULL);
  GC_alloc_unlock();
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(collected);
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
  struct sigaction action;
  stack_t stack;
  pthread_attr_t attr;
  void *lowest;
  size_t size;
  memset(&action, 0, sizeof action);
  memset(&stack, 0, sizeof stack);
  stack.ss_size = 64 << 10;
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
  collect();
  run_in_thread(churn, NULL);
  collect();
  sem_post(&go);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(handler_ran);
}

/* A fiber: another stack on the same thread, made known by GC_set_stackbottom under the lock, or by
   the variable GC_stackbottom on the main thread. */
enum { kFiberStack = 256 << 10 };
static ucontext_t thread_context, fiber_context;
static char *fiber_stack;
struct bottom {
  void *thread;
  struct GC_stack_base base;
};
static void *GC_CALLBACK set_bottom(void *data) {
  struct bottom *b = (struct bottom *)data;
  GC_set_stackbottom(b->thread, &b->base);
  return NULL;
}
static int on_fiber_ok;
static void fiber(void) {
  size_t *volatile p = new_object(0xf1be4);
  size_t i;
  collect();
  for (i = 0; i < 100000; i++) memset(GC_malloc(64), 0xff, 64);
  collect();
  on_fiber_ok += intact(p, 0xf1be4);
}

static void enter_fiber(void) {
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = fiber_stack;
  fiber_context.uc_stack.ss_size = kFiberStack;
  fiber_context.uc_link = &thread_context;
  makecontext(&fiber_context, fiber, 0);
  swapcontext(&thread_context, &fiber_context);
}

static void *with_function(void *arg) {
  struct bottom own, other;
  (void)arg;
  own.thread = GC_get_my_stackbottom(&own.base);
  CHECK(own.thread != NULL);
  other.thread = own.thread;
  other.base.mem_base = fiber_stack + kFiberStack;
  GC_call_with_alloc_lock(set_bottom, &other);
  GC_get_my_stackbottom(&other.base);
  CHECK_PTR(other.base.mem_base, fiber_stack + kFiberStack);
  enter_fiber();
  GC_call_with_alloc_lock(set_bottom, &own);
  other.thread = NULL; /* the caller itself */
  GC_call_with_alloc_lock(set_bottom, &other);
  enter_fiber();
  own.thread = NULL;
  GC_call_with_alloc_lock(set_bottom, &own);
  collect();
  return NULL;
}

static void with_variable(void) {
  char *own = GC_stackbottom;
  GC_disable();
  GC_stackbottom = fiber_stack + kFiberStack;
  GC_enable();
  enter_fiber();
  GC_stackbottom = own;
  collect();
}

static void own_stacks(void) {
  fiber_stack = (char *)malloc(kFiberStack);
  with_function(NULL);
  CHECK_EQ(on_fiber_ok, 2);
  run_in_thread(with_function, NULL);
  CHECK_EQ(on_fiber_ok, 4);
  with_variable();
  CHECK_EQ(on_fiber_ok, 5);
  free(fiber_stack);
}

int main(void) {
  fail_after(50);
  GC_INIT();
  sem_init(&ready, 0, 0);
  sem_init(&go, 0, 0);
  nesting();
  not_signalled();
  not_searched();
  lock();
  alternate_stack(1);
  if (on_gleaner()) alternate_stack(0);
  own_stacks();
  return check_result();
}
