/* Threads that the collector does not know give objects back while others collect: those that are
 * not registered, and destructors of the last round, when the library's own has had its turn. What
 * is allocated meanwhile is empty and stays what it was. */
#include "check.h"

#include <limits.h>
#include <sched.h>

enum { kObjects = 2048, kWords = 64, kRounds = 100, kThreads = 3 };

static uint64_t *allocate(uint64_t tag) {
  uint64_t *words = GC_malloc(kWords * sizeof *words);
  for (size_t i = 0; i < kWords; i++) CHECK_EQ(words[i], 0);
  words[0] = words[kWords - 1] = tag;
  return words;
}

/* --- A destructor of the last round. --- */

struct Held {
  int round;
  uint64_t *objects[kObjects];
};
static pthread_key_t key;
static size_t freed;

static void free_held(void *value) {
  struct Held *held = value;
  if (++held->round < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(key, held);
    return;
  }
  for (size_t i = 0; i < kObjects; i++) GC_free(held->objects[i]);
  GC_free(held);
  __atomic_fetch_add(&freed, kObjects, __ATOMIC_RELAXED);
}

static void *hold(void *arg) {
  struct Held *held = GC_malloc_uncollectable(sizeof *held);
  for (size_t i = 0; i < kObjects; i++) GC_PTR_STORE_AND_DIRTY(&held->objects[i], allocate(i));
  CHECK_EQ(pthread_setspecific(key, held), 0);
  return arg;
}

static void free_in_destructors(void) {
  pthread_t threads[kThreads];
  CHECK_EQ(pthread_key_create(&key, free_held), 0);
  for (size_t round = 0; round < kRounds; round++) {
    for (size_t i = 0; i < kThreads; i++)
      CHECK_EQ(pthread_create(&threads[i], NULL, hold, NULL), 0);
    for (size_t k = 0; k < 10; k++) {
      for (size_t i = 0; i < 100; i++) allocate(i);
      GC_gcollect();
    }
    for (size_t i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  }
  CHECK_EQ(freed, (size_t)kRounds * kThreads * kObjects);
}

/* --- A thread that is not registered. --- */

#undef pthread_create /* what registers with libgc */
#undef pthread_join

static uint64_t **handed_over;
static int full, over;

static void *free_all(void *arg) {
  if (GC_thread_is_registered()) CHECK_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
    if (!__atomic_load_n(&full, __ATOMIC_ACQUIRE)) {
      sched_yield();
      continue;
    }
    for (size_t i = 0; i < kObjects; i++) GC_free(handed_over[i]);
    __atomic_store_n(&full, 0, __ATOMIC_RELEASE);
  }
  CHECK_EQ(GC_thread_is_registered(), 0);
  return arg;
}

static void free_beside_collections(void) {
  pthread_t thread;
  uint64_t *kept[kRounds];
  handed_over = GC_malloc_uncollectable(kObjects * sizeof *handed_over);
  CHECK_EQ(pthread_create(&thread, NULL, free_all, NULL), 0);
  for (size_t round = 0; round < kRounds; round++) {
    kept[round] = allocate(round + 1);
    for (size_t i = 0; i < kObjects; i++) GC_PTR_STORE_AND_DIRTY(&handed_over[i], allocate(i));
    __atomic_store_n(&full, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&full, __ATOMIC_ACQUIRE)) {
      for (size_t i = 0; i < 100; i++) allocate(i);
      GC_gcollect();
    }
  }
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  for (size_t round = 0; round < kRounds; round++) {
    CHECK_EQ(kept[round][0], round + 1);
    CHECK_EQ(kept[round][kWords - 1], round + 1);
  }
  GC_free(handed_over);
}

int main(void) {
  fail_after(100);
  GC_INIT();
  GC_allow_register_threads();
  free_in_destructors();
  free_beside_collections();
  return check_result();
}
