/* Threads: registration, stack bases, the lock, blocking, suspension, signals, roots, fork. */
#include <signal.h>
#include <sys/wait.h>

#include "javaxfc.h"
#include "oracle.h"

static int (*system_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*system_join)(pthread_t, void **);
static void in_plain_thread(void *(*fn)(void *), void *arg) {
  pthread_t thread;
  if (system_create(&thread, NULL, fn, arg) != 0 || system_join(thread, NULL) != 0) abort();
}

static void *by_hand(void *arg) {
  struct GC_stack_base base;
  (void)arg;
  SHOW(GC_thread_is_registered());
  SHOW(GC_get_stack_base(&base));
  SHOW((char *)base.mem_base > (char *)__builtin_frame_address(0));
  SHOW((char *)base.mem_base - (char *)__builtin_frame_address(0) < (16 << 20));
  SHOW(GC_register_my_thread(&base));
  SHOW(GC_thread_is_registered());
  SHOW(GC_register_my_thread(&base));
  SHOW(GC_malloc(10) != NULL);
  SHOW(GC_unregister_my_thread());
  SHOW(GC_thread_is_registered());
  SHOW(GC_register_my_thread(&base));
  SHOW(GC_unregister_my_thread());
  return NULL;
}

static void *by_library(void *arg) {
  struct GC_stack_base base;
  SHOW(GC_thread_is_registered());
  GC_get_stack_base(&base);
  SHOW(GC_register_my_thread(&base));
  return arg;
}
static void *exits(void *arg) {
  GC_pthread_exit(arg);
  return NULL;
}
static void *GC_CALLBACK with_base(struct GC_stack_base *base, void *data) {
  SHOW((char *)base->mem_base > (char *)__builtin_frame_address(0));
  SHOW((char *)base->mem_base - (char *)__builtin_frame_address(0) < 4096);
  return data;
}

static void registration(void) {
  struct GC_stack_base base, again;
  pthread_t thread;
  void *result = NULL;
  int local;
  GC_allow_register_threads();
  *(void **)&system_create = dlsym(RTLD_DEFAULT, "pthread_create");
  *(void **)&system_join = dlsym(RTLD_DEFAULT, "pthread_join");
  SHOW(GC_thread_is_registered());
  SHOW(GC_get_stack_base(&base));
  SHOW((char *)base.mem_base > (char *)&local);
  SHOW(GC_register_my_thread(&base));
  in_plain_thread(by_hand, NULL);
  SHOW(GC_pthread_create(&thread, NULL, by_library, &local));
  SHOW(GC_pthread_join(thread, &result));
  SHOW(result == &local);
  SHOW(GC_pthread_create(&thread, NULL, exits, &base));
  SHOW(GC_pthread_join(thread, &result));
  SHOW(result == &base);
  SHOW(GC_pthread_create(&thread, NULL, exits, NULL));
  SHOW(GC_pthread_detach(thread));
  SHOW(GC_call_with_stack_base(with_base, &local) == &local);
  SHOW(GC_get_my_stackbottom(&base) != NULL);
  SHOW(GC_get_my_stackbottom(&base) == GC_get_my_stackbottom(&again));
  SHOW(base.mem_base == again.mem_base);
  SHOW(base.mem_base == GC_stackbottom);
  GC_register_altstack(NULL, 0, NULL, 0);
}

static void *GC_CALLBACK same(void *data) { return data; }
static void *GC_CALLBACK collecting(void *data) {
  GC_gcollect();
  return data;
}
static void *GC_CALLBACK twice(void *data) { return GC_call_with_gc_active(collecting, data); }
static void *GC_CALLBACK set_bottom(void *data) {
  GC_set_stackbottom(NULL, (struct GC_stack_base *)data);
  return data;
}
static void sections(void) {
  struct GC_stack_base base;
  int x;
  GC_word before = GC_get_gc_no();
  SHOW(GC_call_with_alloc_lock(same, &x) == &x);
  SHOW(GC_do_blocking(same, &x) == &x);
  SHOW(GC_call_with_gc_active(same, &x) == &x);
  SHOW(GC_do_blocking(twice, &x) == &x);
  SHOW(GC_get_gc_no() - before);
  GC_alloc_lock();
  GC_alloc_unlock();
  GC_get_my_stackbottom(&base);
  SHOW(GC_call_with_alloc_lock(set_bottom, &base) == &base);
  GC_gcollect();
  GC_stop_world_external();
  GC_start_world_external();
  GC_gcollect();
  SHOW(GC_get_gc_no() - before);
}

static volatile int stop;
static volatile unsigned long ticks;
static volatile long ticker;
static void *tick(void *arg) {
  ticker = task_self();
  while (!stop) {
    ticks++;
    GC_malloc(16);
  }
  return arg;
}
/* Of a thread that runs: does not return before it has ticked. */
static int advances(void) {
  const unsigned long before = ticks;
  while (ticks == before) sleep_ms(1);
  return 1;
}
/* Of a thread that has been suspended: until it sleeps, where it stays. */
static int advances_suspended(void) {
  const unsigned long before = ticks;
  while (ticks == before && task_state(ticker) != 'S') sleep_ms(1);
  return ticks != before;
}
static void suspension(void) {
  pthread_t thread;
  GC_pthread_create(&thread, NULL, tick, NULL);
  SHOW(advances());
  SHOW(GC_is_thread_suspended(thread));
  GC_suspend_thread(thread);
  SHOW(GC_is_thread_suspended(thread) != 0);
  SHOW(advances_suspended());
  GC_suspend_thread(thread);
  GC_gcollect();
  SHOW(GC_is_thread_suspended(thread) != 0);
  GC_resume_thread(thread);
  SHOW(GC_is_thread_suspended(thread));
  SHOW(advances());
  GC_resume_thread(thread);
  stop = 1;
  SHOW(GC_pthread_join(thread, NULL));
  GC_stop_world_external();
  GC_start_world_external();
}

static void signals(void) {
  sigset_t set, old;
  sigfillset(&set);
  SHOW(GC_pthread_sigmask(SIG_BLOCK, &set, NULL));
  SHOW(GC_pthread_sigmask(SIG_SETMASK, NULL, &old));
  SHOW(sigismember(&old, SIGUSR1));
  SHOW(sigismember(&old, GC_get_suspend_signal()));
  SHOW(GC_pthread_sigmask(SIG_SETMASK, &set, &old));
  SHOW(GC_pthread_sigmask(SIG_BLOCK, NULL, &old));
  SHOW(sigismember(&old, GC_get_suspend_signal()));
  SHOW(GC_pthread_sigmask(SIG_UNBLOCK, &set, NULL));
  SHOW(GC_pthread_sigmask(SIG_BLOCK, NULL, &old));
  SHOW(sigismember(&old, SIGUSR1));
  SHOW(GC_pthread_sigmask(12345, &set, NULL));
}

static volatile int suspended_events, resumed_events;
static void GC_CALLBACK on_thread(GC_EventType event, void *thread) {
  (void)thread;
  if (event == GC_EVENT_THREAD_SUSPENDED) suspended_events++;
  if (event == GC_EVENT_THREAD_UNSUSPENDED) resumed_events++;
}
static void thread_events(void) {
  pthread_t thread;
  GC_set_on_thread_event(on_thread);
  GC_gcollect();
  SHOW(suspended_events);
  SHOW(resumed_events);
  GC_pthread_create(&thread, NULL, tick, NULL);
  advances();
  GC_disable(); /* or it would collect, too */
  suspended_events = resumed_events = 0;
  GC_enable();
  GC_gcollect();
  GC_disable();
  SHOW(suspended_events > 0);
  SHOW(suspended_events == resumed_events);
  stop = 1;
  GC_pthread_join(thread, NULL);
}

static void *data[1000];
static void *fill(void *arg) {
  size_t i;
  for (i = 0; i < 1000; i++) watch_object((struct watch *)arg, i, data[i] = GC_malloc(40));
  return NULL;
}
static size_t gone(void) {
  struct watch w;
  size_t n;
  watch_init(&w, 1000);
  GC_disable();
  run_in_thread(fill, &w);
  GC_enable();
  collect();
  n = watch_gone(&w);
  watch_end(&w);
  memset(data, 0, sizeof data);
  return (n + 50) / 100; /* in tenths, since stale words may keep some */
}
static void roots(void) {
  SHOW(gone());
  SHOW(GC_is_tmp_root(data));
  GC_exclude_static_roots(data, data + 1000);
  SHOW(gone());
}
static void roots_by_hand(void) {
  GC_no_dls = 1;
  GC_INIT();
  SHOW(gone());
  GC_clear_roots();
  SHOW(gone());
  GC_add_roots(data, data + 1000);
  SHOW(gone());
  GC_remove_roots(data, data + 1000);
  SHOW(gone());
}

static int child_status(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    GC_malloc(10);
    GC_gcollect();
    _exit(GC_thread_is_registered() ? 7 : 8);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
static void forks(void) {
  GC_set_handle_fork(1);
  GC_INIT();
  SHOW(child_status());
  run_in_thread(exits, NULL);
  SHOW(child_status());
}
static void forks_by_hand(void) {
  int status = 0;
  pid_t child;
  GC_set_handle_fork(-1);
  GC_INIT();
  GC_atfork_prepare();
  child = fork();
  if (child == 0) {
    GC_atfork_child();
    alarm(10);
    GC_gcollect();
    _exit(5);
  }
  GC_atfork_parent();
  waitpid(child, &status, 0);
  SHOW(WEXITSTATUS(status));
  GC_gcollect();
}

const struct oracle_section thread_sections[] = {
    {"registration", registration, 1},   {"sections", sections, 1},
    {"suspension", suspension, 1},       {"signals", signals, 1},
    {"thread_events", thread_events, 1}, {"roots", roots, 1},
    {"roots_by_hand", roots_by_hand, 0}, {"forks", forks, 0},
    {"forks_by_hand", forks_by_hand, 0}, {NULL, NULL, 0}};
