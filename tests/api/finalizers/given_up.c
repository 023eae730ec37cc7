/* What the library has been given and has done with holds nothing: the data of finalizers that have
 * run, the results of threads that were joined. */
#include "check.h"

enum { kCount = 100 };
static size_t ran, gone;

static void note_gone(void *object, void *data) { gone++; }
static void note_run(void *object, void *data) { ran++; }

static void *watched(size_t bytes) {
  void *object = GC_MALLOC(bytes);
  GC_REGISTER_FINALIZER(object, note_gone, NULL, NULL, NULL);
  return object;
}

static void *register_with_data(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    GC_REGISTER_FINALIZER(GC_MALLOC(32), note_run, watched(4000), NULL, NULL);
  }
  return arg;
}

static void *return_object(void *arg) { return watched(4000); }

static void *join_all(void *arg) {
  pthread_t threads[kCount];
  for (size_t i = 0; i < kCount; i++)
    CHECK_EQ(GC_pthread_create(&threads[i], NULL, return_object, NULL), 0);
  for (size_t i = 0; i < kCount; i++) CHECK_EQ(GC_pthread_join(threads[i], NULL), 0);
  return arg;
}

static void expect_gone(void *(*give_up)(void *)) {
  gone = 0;
  run_in_thread(give_up, NULL);
  for (int i = 0; i < 4; i++) {
    collect();
    GC_invoke_finalizers();
  }
  CHECK_MOSTLY(gone, kCount);
}

int main(void) {
  GC_INIT();
  expect_gone(register_with_data);
  CHECK_MOSTLY(ran, kCount);
  expect_gone(join_all);
  return check_result();
}
