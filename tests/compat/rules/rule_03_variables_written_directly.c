/* Rule 3: programs write the variables instead of calling setters, before the start and after it
   (neko, ecl, crystal). This program is not position-independent, so it has copies of them. */
#include <ucontext.h>

#include "check.h"
#include "gc_mark.h"

enum { kCount = 2000, kFiberStack = 256 << 10 };

static int pushes;
static void (*old_push)(void);
static void GC_CALLBACK push(void) {
  pushes++;
  if (old_push) old_push();
}

static void *slots[kCount];
static void *fill(void *arg) {
  size_t i;
  for (i = 0; i < kCount; i++) {
    slots[i] = GC_malloc(48);
    watch_object((struct watch *)arg, i, slots[i]);
  }
  return NULL;
}

static void *interior_slots[kCount];
static void *fill_interior(void *arg) {
  size_t i;
  for (i = 0; i < kCount; i++) {
    char *p = (char *)GC_malloc(48);
    interior_slots[i] = p + 8;
    watch_object((struct watch *)arg, i, p);
  }
  return NULL;
}

static int finalized;
static void GC_CALLBACK on_finalize(void *object, void *data) {
  (void)object;
  (void)data;
  finalized++;
}
static void *make_finalizable(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) GC_register_finalizer(GC_malloc(32), on_finalize, NULL, NULL, NULL);
  return NULL;
}

/* crystal: another stack on the main thread, announced by the variable at every switch. */
static ucontext_t outside, inside;
static int fiber_ok;
static void fiber(void) {
  size_t *volatile p = (size_t *)GC_malloc(64);
  size_t i;
  *p = 0xf1be4;
  GC_gcollect();
  for (i = 0; i < 100000; i++) memset(GC_malloc(64), 0xff, 64);
  GC_gcollect();
  fiber_ok += *p == 0xf1be4;
}
static void switch_stacks(void) {
  char *stack = (char *)malloc(kFiberStack);
  char *own = GC_stackbottom;
  int i;
  for (i = 0; i < 3; i++) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = kFiberStack;
    inside.uc_link = &outside;
    makecontext(&inside, fiber, 0);
    GC_stackbottom = stack + kFiberStack;
    swapcontext(&outside, &inside);
    GC_stackbottom = own;
    GC_gcollect();
  }
  free(stack);
  CHECK_EQ(fiber_ok, 3);
}

int main(void) {
  struct watch w;
  /* neko's prelude. */
  GC_all_interior_pointers = 0;
  GC_java_finalization = 0;
  CHECK_EQ(GC_get_all_interior_pointers(), 0);
  CHECK_EQ(GC_get_java_finalization(), 0);
  GC_INIT();
  CHECK_EQ(GC_all_interior_pointers, 0);
  CHECK(GC_stackbottom != NULL && GC_stackbottom > (char *)__builtin_frame_address(0));

  /* Interior pointers really are off. */
  watch_init(&w, kCount);
  GC_disable();
  run_in_thread(fill_interior, &w);
  GC_enable();
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  watch_end(&w);

  /* ecl: its own root pusher, read at each collection. */
  old_push = GC_push_other_roots;
  GC_push_other_roots = push;
  CHECK(GC_get_push_other_roots() == push);
  collect();
  CHECK_EQ(pushes, 1);
  collect();
  CHECK_EQ(pushes, 2);
  GC_push_other_roots = old_push;
  collect();
  CHECK_EQ(pushes, 2);

  /* guile, ecl: finalize_on_demand while the program runs. */
  GC_finalize_on_demand = 1;
  run_in_thread(make_finalizable, NULL);
  collect();
  CHECK_EQ(finalized, 0);
  CHECK(GC_should_invoke_finalizers());
  GC_finalize_on_demand = 0;
  CHECK_GE(GC_invoke_finalizers(), kCount - kCount / 10);
  CHECK_MOSTLY(finalized, kCount);

  /* GC_dont_gc is what GC_disable counts. */
  {
    GC_word before = GC_get_gc_no();
    GC_dont_gc = 1;
    CHECK(GC_is_disabled());
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before);
    GC_dont_gc = 0;
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before + 1);
    CHECK_EQ(GC_gc_no, before + 1);
  }

  switch_stacks();

  /* neko's no_dls, and roots by hand. */
  GC_no_dls = 1;
  GC_clear_roots();
  watch_init(&w, kCount);
  GC_disable();
  run_in_thread(fill, &w);
  GC_enable();
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  return check_result();
}
