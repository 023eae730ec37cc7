/* When finalizers run: on demand and otherwise, the notifier, the await callback, GC_finalize_all.
 */
#include "check.h"

#include <gc/javaxfc.h>

enum { kCount = 1000 };

static size_t finalized, notified, awaited, awaited_before_run;
static GC_word notified_at;

static void GC_CALLBACK count(void *object, void *data) { finalized++; }
static void GC_CALLBACK notify(void) {
  notified++;
  CHECK_NE(GC_get_gc_no(), notified_at); /* at most once a collection */
  notified_at = GC_get_gc_no();
  /* The lock is not held here. */
  CHECK(GC_malloc(100) != NULL);
}
static void GC_CALLBACK await(void *object) {
  awaited++;
  if (finalized == 0) awaited_before_run++;
}

static void *make(void *arg) {
  for (size_t i = 0; i < kCount; i++) GC_register_finalizer(GC_malloc(40), count, NULL, NULL, NULL);
  return NULL;
}

static void make_garbage(void) {
  finalized = notified = awaited = awaited_before_run = 0;
  make_in_thread(make, NULL);
}

static void by_themselves(void) {
  make_garbage();
  CHECK(!GC_should_invoke_finalizers());
  collect();
  CHECK_MOSTLY(finalized, kCount);
  CHECK(!GC_should_invoke_finalizers());
  CHECK_EQ(GC_invoke_finalizers(), 0);
  CHECK_EQ(notified, 0);
}

static void on_demand(void) {
  GC_set_finalize_on_demand(1);
  CHECK_EQ(GC_finalize_on_demand, 1);
  make_garbage();
  collect();
  CHECK_EQ(finalized, 0);
  CHECK_EQ(notified, 1);
  CHECK(GC_should_invoke_finalizers());
  for (size_t i = 0; i < 200000; i++) GC_malloc(64);
  CHECK_EQ(finalized, 0);
  size_t ran = (size_t)GC_invoke_finalizers();
  CHECK_MOSTLY(ran, kCount);
  CHECK_EQ(finalized, ran);
  CHECK(!GC_should_invoke_finalizers());
  CHECK_EQ(GC_invoke_finalizers(), 0);

  /* Without a notifier, and the variables written directly. */
  GC_finalize_on_demand = 0;
  CHECK_EQ(GC_get_finalize_on_demand(), 0);
  GC_finalize_on_demand = 1;
  GC_set_finalizer_notifier(NULL);
  make_garbage();
  collect();
  CHECK_EQ(notified, 0);
  GC_finalizer_notifier = notify;
  CHECK(GC_get_finalizer_notifier() == notify);
  make_garbage();
  collect();
  CHECK_EQ(notified, 1);
  CHECK_GE(GC_invoke_finalizers(), kCount);
  GC_finalize_on_demand = 0;
  CHECK_EQ(GC_get_finalize_on_demand(), 0);
}

static void awaiting(void) {
  GC_set_await_finalize_proc(await);
  CHECK(GC_get_await_finalize_proc() == await);
  make_garbage();
  collect();
  CHECK_MOSTLY(awaited, kCount);
  CHECK_EQ(awaited, awaited_before_run);
  CHECK_EQ(awaited, finalized);
  GC_set_await_finalize_proc(NULL);
}

/* Reachable objects, half of whose finalizers register another one. */
static void *held[kCount];
static void GC_CALLBACK count_and_register(void *object, void *data) {
  finalized++;
  GC_register_finalizer(object, count, NULL, NULL, NULL);
}

static void all(void) {
  finalized = notified = 0;
  for (size_t i = 0; i < kCount; i++) {
    held[i] = GC_malloc(40);
    GC_register_finalizer(held[i], i % 2 ? count : count_and_register, NULL, NULL, NULL);
  }
  collect();
  CHECK_EQ(finalized, 0);
  GC_finalize_all();
  CHECK_EQ(finalized, kCount + kCount / 2);
  CHECK_EQ(notified, 0);
  for (size_t i = 0; i < kCount; i++) CHECK_PTR(GC_base(held[i]), held[i]);
  GC_finalize_all();
  CHECK_EQ(finalized, kCount + kCount / 2);
}

/* Few objects are in use, and most allocation is of other objects: those whose finalizers are due
 * do not pile up, whatever kind of collections there are. */
static void promptly(void) {
  enum { kInUse = 256, kObjects = 8000, kStaying = 32768 };
  void **in_use = GC_malloc(kInUse * sizeof(void *));
  void **staying = GC_malloc(kStaying * sizeof(void *));
  size_t most = 0;
  for (size_t i = 0; i < kStaying; i++) staying[i] = GC_malloc(64);
  finalized = 0;
  for (size_t i = 0; i < kObjects; i++) {
    void *object = GC_malloc_atomic(16);
    GC_register_finalizer_no_order(object, count, NULL, NULL, NULL);
    in_use[i % kInUse] = object;
    for (size_t j = 0; j < 64; j++) GC_malloc(128);
    if (i - finalized > most) most = i - finalized;
  }
  CHECK_LE(most, 3000);
  CHECK(staying[kStaying - 1] != NULL);
}

int main(void) {
  GC_INIT();
  GC_set_finalizer_notifier(notify);
  by_themselves();
  on_demand();
  awaiting();
  all();
  promptly();
  return check_result();
}
