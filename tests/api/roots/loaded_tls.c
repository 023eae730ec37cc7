/* Thread-local variables of objects loaded at run time: those in the static block are roots, on
   each thread and whatever stack it is on; and a number that an object had is another's when that
   one is unloaded, while threads still have a block of the first. Needs the plugins beside the
   program. */
#include "plugin.h"
#include "stacks.h"

enum { kSlots = 20, kRounds = 10, kStack = 256 << 10 };

/* --- The static block --- */

struct slots {
  struct watch watch;
  void **(*of_thread)(void);
};

static NOINLINE void fill(struct slots *s) {
  watch_init(&s->watch, kSlots);
  for (size_t i = 0; i < kSlots; i++) {
    void *object = GC_malloc(48);
    watch_object(&s->watch, i, object);
    s->of_thread()[i] = object;
  }
}

static void *fill_and_collect(void *arg) {
  struct slots *s = (struct slots *)arg;
  fill(s);
  scrub_stack();
  CHECK_KEPT(&s->watch);
  memset(s->of_thread(), 0, kSlots * sizeof(void *));
  watch_end(&s->watch);
  return NULL;
}

static struct slots *of_coroutine;
static void run_coroutine(void) { fill_and_collect(of_coroutine); }

/* The thread's own stack is not searched as long as the bottom of another one is told. */
static void *on_told_stack(void *arg) {
  struct GC_stack_base own;
  char *stack = map_stack(kStack);
  of_coroutine = (struct slots *)arg;
  GC_get_my_stackbottom(&own);
  tell_bottom(stack + kStack);
  run_on_stack(stack, kStack, run_coroutine);
  tell_bottom(own.mem_base);
  unmap_stack(stack, kStack);
  return NULL;
}

static void static_block(void) {
  struct slots s;
  void *handle = open_plugin("initial_exec");
  s.of_thread = (void **(*)(void))dlsym(handle, "tls_slots");
  fill_and_collect(&s);
  run_in_thread(fill_and_collect, &s);
  on_told_stack(&s);
  run_in_thread(on_told_stack, &s);
  CHECK_EQ(dlclose(handle), 0);
}

/* --- Blocks of objects that were unloaded --- */

static void *reuse_number(void *arg) {
  for (size_t i = 0; i < kRounds; i++) {
    void *small = open_plugin("small_tls");
    memset(((char *(*)(void))dlsym(small, "tls_bytes"))(), 0x5c, 64);
    GC_gcollect();
    CHECK_EQ(dlclose(small), 0);
    GC_gcollect();
    void *large = open_plugin("large_tls");
    GC_gcollect();
    CHECK_EQ(dlclose(large), 0);
  }
  return arg;
}

int main(void) {
  fail_after(50);
  GC_INIT();
  if (on_gleaner()) static_block();
  reuse_number(NULL);
  run_in_thread(reuse_number, NULL);
  return check_result();
}
