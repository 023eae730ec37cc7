/* Functions of later versions of libgc, by which programs with coroutines and with readers of
   hidden pointers ask for what they need. A library that lacks them is not asked. */
#include "check.h"

#include <sys/mman.h>
#include <ucontext.h>

enum { kStack = 128 << 10, kHeld = 200 };

typedef void (*corrector)(void **stack_pointer, void *thread);
static void (*set_corrector)(corrector);
static corrector (*get_corrector)(void);
static void *(*with_reader_lock)(void *(*fn)(void *), void *data, int release);

/* --- Which stack pointers are shown --- */

static pthread_t g_shown[16];
static size_t g_shown_count;

static int is_on_stack_of(const char *p, pthread_t thread) {
  pthread_attr_t attributes;
  void *begin = NULL;
  size_t bytes = 0;
  CHECK_EQ(pthread_getattr_np(thread, &attributes), 0);
  CHECK_EQ(pthread_attr_getstack(&attributes, &begin, &bytes), 0);
  pthread_attr_destroy(&attributes);
  return p >= (const char *)begin && p < (const char *)begin + bytes;
}

static void *g_stack_pointers[16];
static void note(void **stack_pointer, void *thread) {
  if (g_shown_count == 16) return;
  g_stack_pointers[g_shown_count] = *stack_pointer;
  memcpy(&g_shown[g_shown_count++], &thread, sizeof thread);
}

static pthread_barrier_t g_barrier;
static void *wait_registered(void *arg) {
  GC_malloc(1);
  pthread_barrier_wait(&g_barrier);
  pthread_barrier_wait(&g_barrier);
  return arg;
}

static void every_thread_is_shown(void) {
  enum { kThreads = 3 };
  pthread_t threads[kThreads + 1];
  size_t i, j;
  CHECK(get_corrector() == NULL);
  pthread_barrier_init(&g_barrier, NULL, kThreads + 1);
  for (i = 0; i < kThreads; i++) {
    CHECK_EQ(pthread_create(&threads[i], NULL, wait_registered, NULL), 0);
  }
  threads[kThreads] = pthread_self();
  pthread_barrier_wait(&g_barrier);
  set_corrector(note);
  CHECK(get_corrector() == note);
  GC_gcollect();
  set_corrector(NULL);
  CHECK(get_corrector() == NULL);
  for (i = 0; i <= kThreads; i++) {
    size_t times = 0;
    for (j = 0; j < g_shown_count; j++) {
      if (!pthread_equal(g_shown[j], threads[i])) continue;
      times++;
      CHECK(is_on_stack_of((const char *)g_stack_pointers[j], threads[i]));
    }
    CHECK_GE(times, 1);
  }
  pthread_barrier_wait(&g_barrier);
  for (i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* --- What is done with them --- */

static ucontext_t g_own, g_coroutine;
static char *g_coroutine_stack;
static char *g_left_at; /* where the own stack counts from */
static pthread_t g_on_coroutine;

static void correct(void **stack_pointer, void *thread) {
  pthread_t id;
  memcpy(&id, &thread, sizeof id);
  if (!pthread_equal(id, g_on_coroutine)) return;
  if ((size_t)((char *)*stack_pointer - g_coroutine_stack) < kStack) *stack_pointer = g_left_at;
}

struct held {
  void **objects;
  struct watch watch;
};
static void *make_objects(void *arg) {
  struct held *h = (struct held *)arg;
  size_t i;
  for (i = 0; i < kHeld; i++) {
    h->objects[i] = GC_malloc(64);
    watch_object(&h->watch, i, h->objects[i]);
  }
  return NULL;
}
static void hold(struct held *h, void **objects) {
  h->objects = objects;
  watch_init(&h->watch, kHeld);
  run_in_thread(make_objects, h);
}

static size_t g_lost_on_coroutine;
static void collect_on_coroutine(void) {
  void *objects[kHeld];
  struct held held;
  hold(&held, objects);
  collect();
  g_lost_on_coroutine = watch_gone(&held.watch);
  watch_end(&held.watch);
  asm volatile("" : : "r"(objects) : "memory");
}
static NOINLINE void go_to_coroutine(void) {
  getcontext(&g_coroutine);
  g_coroutine.uc_stack.ss_sp = g_coroutine_stack;
  g_coroutine.uc_stack.ss_size = kStack;
  g_coroutine.uc_link = &g_own;
  makecontext(&g_coroutine, collect_on_coroutine, 0);
  swapcontext(&g_own, &g_coroutine);
}

/* The pointers lie in the own stack, above where it is said to be in use or below. */
static NOINLINE size_t lost_from_own_stack(int below) {
  void *objects[kHeld];
  struct held held;
  size_t lost;
  hold(&held, objects);
  g_left_at = below ? (char *)(objects + kHeld) : (char *)objects;
  go_to_coroutine();
  lost = watch_gone(&held.watch);
  watch_end(&held.watch);
  asm volatile("" : : "r"(objects) : "memory");
  return lost;
}

static void *check_on_this_thread(void *arg) {
  g_on_coroutine = pthread_self();
  set_corrector(correct);
  CHECK_EQ(lost_from_own_stack(0), 0);
  CHECK_EQ(g_lost_on_coroutine, 0);
  CHECK_GE(lost_from_own_stack(1), kHeld * 9 / 10);
  CHECK_EQ(g_lost_on_coroutine, 0);
  /* Without it all of the own stack counts. */
  set_corrector(NULL);
  CHECK_EQ(lost_from_own_stack(1), 0);
  return arg;
}

static void what_is_said_counts(void) {
  g_coroutine_stack =
      (char *)mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(g_coroutine_stack != MAP_FAILED);
  check_on_this_thread(NULL);
  run_in_thread(check_on_this_thread, NULL);
}

/* --- The reader's lock --- */

static volatile int g_locked;
static volatile long g_begun; /* by the thread with that number */
static char g_result;
static void *collect_when_locked(void *arg) {
  GC_malloc(1);
  while (!g_locked) usleep(100);
  g_begun = task_self();
  GC_gcollect();
  return arg;
}
static void *read_under_lock(void *result) {
  GC_word before = GC_get_gc_no();
  g_locked = 1;
  while (g_begun == 0) usleep(100);
  while (GC_get_gc_no() == before && task_state(g_begun) != 'S') usleep(100);
  CHECK_EQ(GC_get_gc_no(), before);
  return result;
}

static void nothing_is_collected_under_the_lock(void) {
  int release;
  for (release = 0; release < 2; release++) {
    pthread_t thread;
    GC_word before = GC_get_gc_no();
    g_locked = g_begun = 0;
    CHECK_EQ(pthread_create(&thread, NULL, collect_when_locked, NULL), 0);
    CHECK_PTR(with_reader_lock(read_under_lock, &g_result, release), &g_result);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_GE(GC_get_gc_no(), before + 1);
  }
}

int main(void) {
  GC_INIT();
  set_corrector = (void (*)(corrector))dlsym(RTLD_DEFAULT, "GC_set_sp_corrector");
  get_corrector = (corrector(*)(void))dlsym(RTLD_DEFAULT, "GC_get_sp_corrector");
  with_reader_lock =
      (void *(*)(void *(*)(void *), void *, int))dlsym(RTLD_DEFAULT, "GC_call_with_reader_lock");
  if (!on_gleaner()) return check_result();
  CHECK(set_corrector != NULL && get_corrector != NULL && with_reader_lock != NULL);
  every_thread_is_shown();
  what_is_said_counts();
  nothing_is_collected_under_the_lock();
  return check_result();
}
