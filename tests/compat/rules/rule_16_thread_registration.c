/* Rule 16: GC_pthread_create returns once the child is registered. guile registers by hand: 1 if
   the thread already was. */
#include "check.h"

/* The real ones: gc.h redirects the names, and libgc joins only threads that it knows. */
static int (*system_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int (*system_join)(pthread_t, void **);

static volatile int child_may_go;
static void *wait_with_object(void *arg) {
  void *volatile object = arg;
  while (!child_may_go) sleep_ms(1);
  return (void *)object;
}

static void *count_as_registered(void *arg) {
  *(int *)arg = GC_thread_is_registered();
  return NULL;
}

/* The argument is in nobody's hands but the new thread's. */
static void *hidden_argument(void *arg) {
  void *p = GC_malloc(48);
  memset(p, 0x77, 48);
  watch_object((struct watch *)arg, 0, p);
  return (void *)GC_HIDE_POINTER(p);
}
static NOINLINE void start(pthread_t *thread, GC_hidden_pointer hidden) {
  CHECK_EQ(GC_pthread_create(thread, NULL, wait_with_object, GC_REVEAL_POINTER(hidden)), 0);
}

static void *by_hand(void *arg) {
  struct GC_stack_base base;
  void *volatile object;
  (void)arg;
  CHECK_EQ(GC_thread_is_registered(), 0);
  CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
  CHECK((char *)base.mem_base > (char *)__builtin_frame_address(0));
  CHECK_EQ(GC_register_my_thread(&base), GC_SUCCESS);
  CHECK_EQ(GC_thread_is_registered(), 1);
  CHECK_EQ(GC_register_my_thread(&base), GC_DUPLICATE);
  CHECK_EQ(GC_register_my_thread(&base), 1);
  object = GC_malloc(64);
  memset(object, 0x42, 64);
  GC_gcollect();
  memset(GC_malloc(64), 0, 64);
  CHECK_EQ(((char *)object)[63], 0x42);
  CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  CHECK_EQ(GC_thread_is_registered(), 0);
  /* And again: threads come back to guile. */
  CHECK_EQ(GC_register_my_thread(&base), GC_SUCCESS);
  CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  return NULL;
}

int main(void) {
  struct GC_stack_base base;
  struct watch w;
  pthread_t thread;
  int i, registered = 0;
  GC_INIT();
  GC_allow_register_threads();
  *(void **)&system_create = dlsym(RTLD_DEFAULT, "pthread_create");
  *(void **)&system_join = dlsym(RTLD_DEFAULT, "pthread_join");

  CHECK_EQ(GC_thread_is_registered(), 1);
  CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
  CHECK_EQ(GC_register_my_thread(&base), GC_DUPLICATE);

  CHECK_EQ(GC_pthread_create(&thread, NULL, count_as_registered, &registered), 0);
  CHECK_EQ(GC_pthread_join(thread, NULL), 0);
  CHECK_EQ(registered, 1);

  for (i = 0; i < 20; i++) {
    GC_hidden_pointer hidden;
    void *result = NULL;
    watch_init(&w, 1);
    child_may_go = 0;
    GC_disable();
    hidden = (GC_hidden_pointer)run_in_thread(hidden_argument, &w);
    start(&thread, hidden);
    GC_enable();
    collect(); /* the child may not have run one instruction of its function yet */
    CHECK_EQ(watch_gone(&w), 0);
    child_may_go = 1;
    CHECK_EQ(GC_pthread_join(thread, &result), 0);
    CHECK_PTR(result, GC_REVEAL_POINTER(hidden));
    CHECK_EQ(((char *)result)[47], 0x77);
    watch_end(&w);
  }
  for (i = 0; i < 5; i++) {
    CHECK_EQ(system_create(&thread, NULL, by_hand, NULL), 0);
    GC_gcollect();
    CHECK_EQ(system_join(thread, NULL), 0);
  }
  return check_result();
}
