/* Threads: made through the redirection or registered by hand, their arguments and results, ends of
   every sort, the signal mask, thread-specific data, and threads that nobody has registered. Rules
   16 (GC_pthread_create returns once the child is registered; guile registers by hand), 17
   (GC_malloc in destructors), 20 (signals), 24 (threads that nobody has registered). */
#include "check.h"

#include <aio.h>
#include <gc/javaxfc.h>

static create_fn system_create;
static join_fn system_join;
static sigmask_fn system_sigmask;

static void *check_registered(void *arg) {
  struct GC_stack_base base, mine;
  CHECK(GC_thread_is_registered());
  CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
  CHECK(GC_get_my_stackbottom(&mine) != NULL);
  CHECK((char *)mine.mem_base > (char *)__builtin_frame_address(0));
  CHECK((char *)mine.mem_base <= (char *)base.mem_base);
  CHECK_EQ(GC_register_my_thread(&base), GC_DUPLICATE);
  return NULL;
}

/* Until the thread with that number has ended, which it gets when it starts. */
static void wait_for_end(volatile long *tid) {
  while (*tid == 0) sleep_ms(1);
  await_task_state(*tid, 0);
}

/* Argument and result are each the only pointer for a while. */
static sem_t go;
static volatile long passing[20];
static size_t passing_count;
static void *pass_on(void *arg) {
  size_t *p = (size_t *)arg, *q;
  passing[__sync_fetch_and_add(&passing_count, 1)] = task_self();
  wait_for(&go);
  CHECK(intact(p, 0x1234));
  q = new_object(0x4321);
  GC_gcollect();
  return q;
}

static void arguments_and_results(void) {
  pthread_t threads[20];
  void *result;
  sem_init(&go, 0, 0);
  for (size_t i = 0; i < 20; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, pass_on, new_object(0x1234)), 0);
  collect();
  run_in_thread(overwrite, (void *)64);
  for (size_t i = 0; i < 20; i++) sem_post(&go);
  for (size_t i = 0; i < 20; i++) wait_for_end(&passing[i]);
  collect();
  run_in_thread(overwrite, (void *)64);
  for (size_t i = 0; i < 20; i++) {
    result = NULL;
    CHECK_EQ(pthread_join(threads[i], &result), 0);
    CHECK(result != NULL && intact((size_t *)result, 0x4321));
  }
}

/* By hand, the way guile does it. Signals in step: the thread waits for the main thread to collect.
 */
static sem_t ready;
static __thread void *tls_of_registered;
static void *by_hand(void *arg) {
  struct GC_stack_base base;
  CHECK(!GC_thread_is_registered());
  CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
  CHECK((char *)base.mem_base > (char *)__builtin_frame_address(0));
  CHECK((char *)base.mem_base - (char *)__builtin_frame_address(0) < 16 << 20);
  CHECK_EQ(GC_register_my_thread(&base), GC_SUCCESS);
  CHECK(GC_thread_is_registered());
  CHECK_EQ(GC_register_my_thread(&base), GC_DUPLICATE);
  size_t *volatile p = new_object(0x77);
  tls_of_registered = new_object(0x78);
  sem_post(&ready);
  wait_for(&go);
  CHECK(intact(p, 0x77));
  CHECK(intact((size_t *)tls_of_registered, 0x78));
  tls_of_registered = NULL;
  GC_gcollect();
  CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  CHECK(!GC_thread_is_registered());
  /* And once more. */
  CHECK_EQ(GC_register_my_thread(&base), GC_SUCCESS);
  p = new_object(0x79);
  GC_gcollect();
  CHECK(intact(p, 0x79));
  CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  return NULL;
}

static void registered_by_hand(void) {
  pthread_t threads[10];
  GC_allow_register_threads();
  for (size_t i = 0; i < 10; i++) CHECK_EQ(system_create(&threads[i], NULL, by_hand, NULL), 0);
  for (size_t i = 0; i < 10; i++) wait_for(&ready);
  collect();
  run_in_thread(overwrite, (void *)64);
  for (size_t i = 0; i < 10; i++) sem_post(&go);
  for (size_t i = 0; i < 10; i++) CHECK_EQ(system_join(threads[i], NULL), 0);
  {
    struct GC_stack_base base;
    CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
    CHECK_EQ(GC_register_my_thread(&base), GC_DUPLICATE); /* the main thread always is */
  }
}

static void *GC_CALLBACK with_base(struct GC_stack_base *base, void *data) {
  CHECK((char *)base->mem_base >= (char *)__builtin_frame_address(0));
  CHECK((char *)base->mem_base - (char *)__builtin_frame_address(0) < 4096);
  return data;
}
static void *base_of_unregistered(void *arg) { return GC_call_with_stack_base(with_base, arg); }

/* Threads that the collector knows nothing of, with every signal blocked: it must not wait for
 * them. */
static void *sleep_blocked(void *arg) {
  sigset_t all;
  sigfillset(&all);
  system_sigmask(SIG_BLOCK, &all, NULL);
  sem_post(&ready);
  wait_for(&go);
  return NULL;
}

static void unregistered(void) {
  pthread_t thread;
  void *result = NULL;
  CHECK_EQ(system_create(&thread, NULL, base_of_unregistered, &thread), 0);
  CHECK_EQ(system_join(thread, &result), 0);
  CHECK_PTR(result, &thread);
  CHECK_PTR(GC_call_with_stack_base(with_base, &thread), &thread);
  CHECK_EQ(system_create(&thread, NULL, sleep_blocked, NULL), 0);
  wait_for(&ready);
  collect();
  sem_post(&go);
  CHECK_EQ(system_join(thread, NULL), 0);
}

/* The C library's own: they block all signals, too. */
static volatile int timer_runs;
static void on_timer(union sigval value) { timer_runs++; }
static void helpers_of_the_c_library(void) {
  static char buffer[64];
  timer_t timer;
  int pipes[2];
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
  CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  struct itimerspec when = {0};
  when.it_value.tv_nsec = when.it_interval.tv_nsec = 2000000;
  CHECK_EQ(timer_settime(timer, 0, &when, NULL), 0);
  CHECK_EQ(pipe(pipes), 0);
  struct aiocb request = {.aio_fildes = pipes[0], .aio_buf = buffer, .aio_nbytes = sizeof buffer};
  CHECK_EQ(aio_read(&request), 0); /* its thread waits in read() */
  for (int i = 0; i < 30 || timer_runs < 3; i++) {
    const GC_word before = GC_get_gc_no();
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before + 1);
  }
  CHECK_EQ(write(pipes[1], "x", 1), 1);
  while (aio_error(&request) == EINPROGRESS) sleep_ms(1);
  CHECK_EQ(aio_return(&request), 1);
  CHECK_EQ(timer_delete(timer), 0);
}

/* Destructors of thread-specific data allocate and collect, several rounds of them, also on threads
   that use the heap there alone; one key is older than the library's own. libgc has forgotten a
   thread that it made by then: the destructors must register it again, as guile's do. Gleaner
   allows that, and does not need it. */
enum { kWithData = 20, kDataRounds = 3 };
static pthread_key_t first_key, second_key;
static int register_in_destructor;
static size_t destructor_rounds;
static void use_heap(void) {
  void **list = NULL;
  size_t i;
  for (i = 0; i < 3000; i++) {
    void **p = (void **)GC_malloc(32);
    CHECK(p != NULL && p[0] == NULL && p[3] == NULL);
    p[0] = list;
    p[1] = (void *)i;
    list = p;
    if (i == 2000) GC_gcollect();
  }
  for (; list != NULL; list = (void **)list[0]) CHECK_EQ((size_t)list[1], --i);
  CHECK_EQ(i, 0);
}
static void destroy(void *value) {
  const size_t left = (size_t)value;
  struct GC_stack_base base;
  int registered = GC_DUPLICATE;
  __sync_fetch_and_add(&destructor_rounds, 1);
  if (register_in_destructor || left % 2) {
    CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
    registered = GC_register_my_thread(&base);
  }
  use_heap();
  if (registered == GC_SUCCESS) CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  if (left > 1) pthread_setspecific(first_key, (void *)(left - 1));
}
static void *with_data(void *arg) {
  if (arg != NULL) use_heap();
  pthread_setspecific(first_key, (void *)kDataRounds);
  pthread_setspecific(second_key, (void *)1);
  return NULL;
}

static void specific_data(int with_registration) {
  pthread_t threads[kWithData];
  register_in_destructor = with_registration;
  destructor_rounds = 0;
  for (size_t i = 0; i < kWithData; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, with_data, i % 2 ? &threads : NULL), 0);
  for (size_t i = 0; i < kWithData; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  CHECK_EQ(destructor_rounds, kWithData * (kDataRounds + 1));
  use_heap();
}

static void *exits(void *arg) {
  overwrite((void *)64);
  pthread_exit(new_object((size_t)arg));
}
static void *waits_for_ever(void *arg) {
  size_t *volatile p = new_object(1);
  sem_post(&ready);
  while (arg == NULL) sleep_ms(1000);
  return p;
}
static void *ends_detached(void *arg) {
  new_object(1);
  if (arg) CHECK_EQ(pthread_detach(pthread_self()), 0);
  sem_post(&ready);
  return new_object(1);
}

static void ends(void) {
  pthread_t thread;
  pthread_attr_t attr;
  void *result = NULL;
  CHECK_EQ(pthread_create(&thread, NULL, exits, (void *)0x55), 0);
  CHECK_EQ(pthread_join(thread, &result), 0);
  CHECK(intact((size_t *)result, 0x55));

  CHECK_EQ(pthread_create(&thread, NULL, waits_for_ever, NULL), 0);
  wait_for(&ready);
  CHECK_EQ(pthread_cancel(thread), 0);
  CHECK_EQ(pthread_join(thread, &result), 0);
  CHECK_PTR(result, PTHREAD_CANCELED);
  collect();

  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  for (size_t i = 0; i < 30; i++) {
    CHECK_EQ(pthread_create(&thread, i % 3 == 0 ? &attr : NULL, ends_detached,
                            i % 3 == 1 ? &attr : NULL),
             0);
    if (i % 3 == 2) CHECK_EQ(pthread_detach(thread), 0);
  }
  for (size_t i = 0; i < 30; i++) {
    wait_for(&ready);
    GC_gcollect();
  }
  pthread_attr_destroy(&attr);
  CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
}

static void signal_mask(void) {
  sigset_t all, now, old;
  sigfillset(&all);
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &old), 0);
  system_sigmask(SIG_BLOCK, NULL, &now);
  CHECK_EQ(sigismember(&now, GC_get_suspend_signal()), 0);
  CHECK_EQ(sigismember(&now, SIGUSR1), 1);
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
  system_sigmask(SIG_BLOCK, NULL, &now);
  CHECK_EQ(sigismember(&now, GC_get_suspend_signal()), 0);
  run_in_thread(check_registered, NULL);
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
  CHECK_EQ(sigismember(&now, SIGUSR1), 1);
  CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &all, NULL), 0);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
  CHECK_EQ(sigismember(&now, SIGUSR1), 0);
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
  CHECK_EQ(pthread_sigmask(12345, &all, NULL), EINVAL);
  CHECK_EQ(GC_get_suspend_signal(), SIGPWR);
  CHECK_EQ(GC_get_thr_restart_signal(), SIGXCPU);
}

/* Threads that are stopped one by one or all together change nothing meanwhile. */
static volatile size_t counter;
static volatile int stop_counting;
static volatile long counting;
static void *count(void *arg) {
  void *volatile p = new_object(0x66);
  sigset_t all;
  sigfillset(&all);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &all, NULL), 0); /* but for the one that suspends */
  counting = task_self();
  sem_post(&ready);
  while (!stop_counting) counter++;
  CHECK(intact((size_t *)p, 0x66));
  return NULL;
}

/* Once it is stopped, it sleeps. */
static void check_counting_stands(size_t before) {
  while (counter == before && task_state(counting) != 'S') sleep_ms(1);
  CHECK_EQ(counter, before);
}

static void *thread_of_event;
static size_t suspended, resumed;
static void GC_CALLBACK on_thread_event(GC_EventType event, void *thread) {
  thread_of_event = thread;
  suspended += event == GC_EVENT_THREAD_SUSPENDED;
  resumed += event == GC_EVENT_THREAD_UNSUSPENDED;
}

/* Much more than is allocated between two collections. */
static void allocate_in_a_stopped_world(void) {
  void **list = NULL;
  size_t length = 0;
  collect();
  GC_stop_world_external();
  GC_word collections = GC_get_gc_no();
  for (size_t i = 0; i < 400000; i++) {
    void **node = (void **)GC_malloc(64);
    node[0] = list;
    node[1] = (void *)~i;
    list = node;
    if (i % 1000 == 0) GC_malloc_atomic(100000);
  }
  GC_gcollect();
  CHECK_EQ(GC_get_gc_no(), collections);
  GC_start_world_external();
  GC_gcollect();
  CHECK_EQ(GC_get_gc_no(), collections + 1);
  for (; list != NULL; list = (void **)list[0]) length += list[1] == (void *)~(400000 - 1 - length);
  CHECK_EQ(length, 400000);
}
static void *allocate_unregistered(void *arg) {
  allocate_in_a_stopped_world();
  GC_unregister_my_thread();
  return arg;
}

static void stopping(void) {
  pthread_t thread;
  size_t before;
  CHECK_EQ(pthread_create(&thread, NULL, count, NULL), 0);
  wait_for(&ready);

  CHECK(!GC_is_thread_suspended(thread));
  for (int i = 0; i < 3; i++) {
    GC_suspend_thread(thread);
    GC_suspend_thread(thread);
    CHECK(GC_is_thread_suspended(thread));
    before = counter;
    collect();
    run_in_thread(overwrite, (void *)64);
    check_counting_stands(before);
    GC_resume_thread(thread);
    CHECK(!GC_is_thread_suspended(thread));
    while (counter == before) sleep_ms(1);
  }
  GC_resume_thread(thread);

  GC_stop_world_external();
  before = counter;
  check_counting_stands(before);
  GC_start_world_external();
  while (counter == before) sleep_ms(1);
  if (on_gleaner()) { /* on libgc it waits for the lock for ever */
    pthread_t other;
    allocate_in_a_stopped_world();
    CHECK_EQ(system_create(&other, NULL, allocate_unregistered, NULL), 0);
    CHECK_EQ(system_join(other, NULL), 0);
  }

  GC_set_on_thread_event(on_thread_event);
  GC_gcollect();
  GC_set_on_thread_event(NULL);
  CHECK_EQ(suspended, 1);
  CHECK_EQ(resumed, 1);
  CHECK_PTR(thread_of_event, thread);
  stop_counting = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* A thread that has ended and is not joined: it counts as suspended until it is resumed. */
static volatile long ended;
static void *end_at_once(void *arg) {
  ended = task_self();
  if (arg != NULL) GC_unregister_my_thread();
  return NULL;
}
static void suspended_at_their_end(void) {
  const size_t ways = on_gleaner() ? 2 : 1; /* libgc crashes later by the second */
  for (size_t i = 0; i < ways; i++) {
    pthread_t thread, next;
    ended = 0;
    CHECK_EQ(pthread_create(&thread, NULL, end_at_once, (void *)i), 0);
    wait_for_end(&ended);
    CHECK(!GC_is_thread_suspended(thread));
    GC_resume_thread(thread);
    CHECK(!GC_is_thread_suspended(thread));
    GC_suspend_thread(thread);
    GC_suspend_thread(thread);
    CHECK(GC_is_thread_suspended(thread));
    collect();
    CHECK(GC_is_thread_suspended(thread));
    run_in_thread(check_registered, NULL);
    CHECK(GC_is_thread_suspended(thread));
    GC_resume_thread(thread);
    CHECK(!GC_is_thread_suspended(thread));
    GC_suspend_thread(thread);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(!GC_is_thread_suspended(thread));
    /* It may have the name of the one before. */
    CHECK_EQ(pthread_create(&next, NULL, end_at_once, NULL), 0);
    CHECK(!GC_is_thread_suspended(next));
    CHECK_EQ(pthread_join(next, NULL), 0);
    GC_suspend_thread(next); /* ignored */
    CHECK(!GC_is_thread_suspended(next));
  }
}

int main(void) {
  struct GC_stack_base base, again;
  system_create = SYSTEM(create_fn, "pthread_create");
  system_join = SYSTEM(join_fn, "pthread_join");
  system_sigmask = SYSTEM(sigmask_fn, "pthread_sigmask");
  fail_after(50);
  CHECK_EQ(pthread_key_create(&first_key, destroy), 0); /* before the library's own */
  GC_INIT();
  CHECK_EQ(pthread_key_create(&second_key, destroy), 0);
  sem_init(&go, 0, 0);
  sem_init(&ready, 0, 0);
  GC_set_on_thread_event(on_thread_event);
  CHECK(GC_get_on_thread_event() == on_thread_event);
  GC_gcollect();
  GC_set_on_thread_event(NULL);
  CHECK_EQ(suspended + resumed, 0);     /* the caller is not suspended, and alone */
  run_in_thread(overwrite, (void *)64); /* this one is the first that allocates */
  run_in_thread(check_registered, NULL);
  check_registered(NULL);
  CHECK_PTR(GC_get_my_stackbottom(&base), GC_get_my_stackbottom(&again));
  CHECK_PTR(base.mem_base, again.mem_base);
  CHECK_PTR(base.mem_base, GC_stackbottom);
  arguments_and_results();
  registered_by_hand();
  unregistered();
  helpers_of_the_c_library();
  specific_data(1);
  if (on_gleaner()) specific_data(0);
  ends();
  signal_mask();
  stopping();
  suspended_at_their_end();
  return check_result();
}
