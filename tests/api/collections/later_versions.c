/* Functions of later versions of libgc, by which programs with coroutines say which part of a stack
   is in use. A library that lacks them is not asked. */
#include "../roots/stacks.h"

enum { kStack = 128 << 10 };

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
  CHECK(GC_get_sp_corrector() == NULL);
  pthread_barrier_init(&g_barrier, NULL, kThreads + 1);
  for (size_t i = 0; i < kThreads; i++) {
    CHECK_EQ(pthread_create(&threads[i], NULL, wait_registered, NULL), 0);
  }
  threads[kThreads] = pthread_self();
  pthread_barrier_wait(&g_barrier);
  GC_set_sp_corrector(note);
  CHECK(GC_get_sp_corrector() == note);
  GC_gcollect();
  GC_set_sp_corrector(NULL);
  CHECK(GC_get_sp_corrector() == NULL);
  for (size_t i = 0; i <= kThreads; i++) {
    size_t times = 0;
    for (size_t j = 0; j < g_shown_count; j++) {
      if (!pthread_equal(g_shown[j], threads[i])) continue;
      times++;
      CHECK(is_on_stack_of((const char *)g_stack_pointers[j], threads[i]));
    }
    CHECK_GE(times, 1);
  }
  pthread_barrier_wait(&g_barrier);
  for (size_t i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* --- What is done with them --- */

static char *g_coroutine_stack;
static char *g_left_at; /* where the own stack counts from */
static pthread_t g_on_coroutine;

static void correct(void **stack_pointer, void *thread) {
  pthread_t id;
  memcpy(&id, &thread, sizeof id);
  if (!pthread_equal(id, g_on_coroutine)) return;
  if ((size_t)((char *)*stack_pointer - g_coroutine_stack) < kStack) *stack_pointer = g_left_at;
}

static size_t g_lost_on_coroutine;
static void collect_on_coroutine(void) {
  size_t *volatile objects[kHeld];
  struct held held = hold(objects);
  collect();
  g_lost_on_coroutine = count_lost(&held);
}

/* The pointers lie in the own stack, above where it is said to be in use or below. */
static NOINLINE size_t lost_from_own_stack(int below) {
  size_t *volatile objects[kHeld];
  struct held held = hold(objects);
  g_left_at = below ? (char *)(objects + kHeld) : (char *)objects;
  run_on_stack(g_coroutine_stack, kStack, collect_on_coroutine);
  return count_lost(&held);
}

static void *check_on_this_thread(void *arg) {
  g_on_coroutine = pthread_self();
  GC_set_sp_corrector(correct);
  CHECK_EQ(lost_from_own_stack(0), 0);
  CHECK_EQ(g_lost_on_coroutine, 0);
  CHECK_GE(lost_from_own_stack(1), kHeld * 9 / 10);
  CHECK_EQ(g_lost_on_coroutine, 0);
  /* Without it all of the own stack counts. */
  GC_set_sp_corrector(NULL);
  CHECK_EQ(lost_from_own_stack(1), 0);
  return arg;
}

static void what_is_said_counts(void) {
  g_coroutine_stack = map_stack(kStack);
  check_on_this_thread(NULL);
  run_in_thread(check_on_this_thread, NULL);
}

int main(void) {
  if (!on_gleaner()) return 0;
  GC_INIT();
  every_thread_is_shown();
  what_is_said_counts();
  return check_result();
}
