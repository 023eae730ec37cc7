/* Finalizers of objects allocated with GC_DEBUG: the program sees its own pointers throughout. */
#define GC_DEBUG
#include "capture.h"

enum { kCount = 1000 };

static size_t called, wrong;
static GC_hidden_pointer expected[kCount];

static void GC_CALLBACK finalize(void *object, void *data) {
  const size_t i = (size_t)data;
  called++;
  if (expected[i] != GC_HIDE_POINTER(object) || *(size_t *)object != i + 1) wrong++;
}
static void GC_CALLBACK other(void *object, void *data) { wrong++; }

typedef void (*register_fn)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

static void *make(void *arg) {
  register_fn fn = *(register_fn *)arg;
  for (size_t i = 0; i < kCount; i++) {
    GC_finalization_proc old_fn = other;
    void *old_data = &called;
    size_t *p = (size_t *)GC_MALLOC_ATOMIC(20);
    *p = i + 1;
    expected[i] = GC_HIDE_POINTER(p);
    fn(p, other, NULL, &old_fn, &old_data);
    CHECK(old_fn == 0);
    CHECK_NULL(old_data);
    fn(p, finalize, (void *)i, &old_fn, &old_data);
    CHECK(old_fn == other);
    CHECK_NULL(old_data);
    if (i % 2) continue;
    fn(p, 0, NULL, &old_fn, &old_data);
    CHECK(old_fn == finalize);
    CHECK_EQ((size_t)old_data, i);
  }
  return NULL;
}

static void orders(void) {
  static const register_fn orders[] = {
      GC_debug_register_finalizer, GC_debug_register_finalizer_ignore_self,
      GC_debug_register_finalizer_no_order, GC_debug_register_finalizer_unreachable};
  GC_INIT();
  for (size_t i = 0; i < 4; i++) {
    called = 0;
    run_in_thread(make, (void *)&orders[i]);
    collect();
    collect();
    GC_invoke_finalizers();
    CHECK_MOSTLY(called, kCount / 2);
    CHECK_LE(called, kCount / 2);
    CHECK_EQ(wrong, 0);
  }
}

static void macros(void) {
  GC_finalization_proc old_fn;
  GC_INIT();
  void *p = GC_MALLOC(8);
  GC_REGISTER_FINALIZER(p, finalize, (void *)1, 0, 0);
  GC_REGISTER_FINALIZER_IGNORE_SELF(p, finalize, (void *)2, &old_fn, 0);
  CHECK(old_fn == finalize);
  GC_REGISTER_FINALIZER_NO_ORDER(p, finalize, (void *)3, &old_fn, 0);
  CHECK(old_fn == finalize);
  GC_REGISTER_FINALIZER_UNREACHABLE(p, 0, 0, &old_fn, 0);
  CHECK(old_fn == finalize);
}

static void inside(void) {
  GC_finalization_proc old_fn = finalize;
  void *old_data = &called;
  int local;
  GC_INIT();
  char *p = (char *)GC_MALLOC(8);
  GC_REGISTER_FINALIZER(p + 1, finalize, (void *)1, &old_fn, &old_data);
  CHECK(old_fn == 0);
  old_fn = finalize;
  GC_REGISTER_FINALIZER(&local, finalize, (void *)1, &old_fn, &old_data);
  CHECK(old_fn == 0);
  CHECK_NULL(old_data);
}

int main(void) {
  static struct captured c;
  fail_after(50);
  CAPTURE_WELL(&c, orders);
  CAPTURE_WELL(&c, macros);
  if (on_gleaner()) CHECK_CAPTURED(&c, c.text[0] == 0);
  CAPTURE_WELL(&c, inside);
  CHECK_SAYS(&c, "GC_debug_register_finalizer");
  return check_result();
}
