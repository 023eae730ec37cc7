/* Rule 17: GC_malloc works in destructors of thread-specific data, in any round of them, and after
   the start on a thread that is not the main one. libgc has forgotten a thread that it made by
   the time its destructors run, and GC_malloc then crashes there: on libgc they have to register
   the thread again, as guile's do. On Gleaner every second destructor does so, and the others just
   allocate. */
#include "check.h"

enum { kThreads = 20 };

static pthread_key_t first, second;
static int rounds;

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
  size_t left = (size_t)value;
  __sync_fetch_and_add(&rounds, 1);
  if (!on_gleaner() || left % 2) {
    struct GC_stack_base base;
    int registered;
    CHECK_EQ(GC_get_stack_base(&base), GC_SUCCESS);
    registered = GC_register_my_thread(&base);
    use_heap();
    if (registered == GC_SUCCESS) GC_unregister_my_thread();
  } else {
    use_heap();
  }
  if (left > 1) pthread_setspecific(first, (void *)(left - 1));
}

static void *with_specifics(void *arg) {
  if (arg == NULL) use_heap();
  pthread_setspecific(first, (void *)2);
  pthread_setspecific(second, (void *)1);
  return NULL;
}

/* After GC_init on the main thread, this one is the first that allocates. */
static void *first_user(void *arg) {
  use_heap();
  return arg;
}

int main(void) {
  pthread_t threads[kThreads];
  size_t i;
  fail_after(50);
  CHECK_EQ(pthread_key_create(&first, destroy), 0); /* before the library's own key */
  GC_INIT();
  GC_allow_register_threads();
  CHECK_EQ(pthread_key_create(&second, destroy), 0);
  run_in_thread(first_user, NULL);
  /* Half of them use the heap in destructors only. */
  for (i = 0; i < kThreads; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, with_specifics, i % 2 ? &threads : NULL), 0);
  for (i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  CHECK_EQ(rounds, 3 * kThreads);
  GC_gcollect();
  use_heap();
  return check_result();
}
