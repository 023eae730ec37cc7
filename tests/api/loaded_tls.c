/* Thread-local variables of objects loaded at run time: those in the static block are roots, on
   each thread and whatever stack it is on; and a number that an object had is another's when that
   one is unloaded, while threads still have a block of the first. Needs the plugins beside the
   program. */
#include "check.h"

#include <libgen.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { kSlots = 20, kRounds = 10 };

static void *load(const char *plugin) {
  char path[4200];
  char program[4096];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  void *handle;
  program[n > 0 ? n : 0] = 0;
  snprintf(path, sizeof path, "%s/gleaner_api_plugin_%s.so", dirname(program), plugin);
  handle = dlopen(path, RTLD_NOW);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return handle;
}

/* --- The static block --- */

struct slots {
  struct watch watch;
  void **(*of_thread)(void);
};

static NOINLINE void fill(struct slots *s) {
  size_t i;
  watch_init(&s->watch, kSlots);
  for (i = 0; i < kSlots; i++) {
    void *object = GC_malloc(48);
    watch_object(&s->watch, i, object);
    s->of_thread()[i] = object;
  }
}

static void *fill_and_collect(void *arg) {
  struct slots *s = (struct slots *)arg;
  fill(s);
  scrub_stack();
  collect();
  CHECK_EQ(watch_gone(&s->watch), 0);
  memset(s->of_thread(), 0, kSlots * sizeof(void *));
  watch_end(&s->watch);
  return NULL;
}

static __thread ucontext_t t_own, t_coroutine;
static struct slots *of_coroutine;
static void run_coroutine(void) { fill_and_collect(of_coroutine); }
static void *GC_CALLBACK set_bottom(void *base) {
  GC_set_stackbottom(NULL, (struct GC_stack_base *)base);
  return NULL;
}

/* The thread's own stack is not searched as long as the bottom of another one is told. */
static void *on_told_stack(void *arg) {
  enum { kStack = 256 << 10 };
  struct GC_stack_base own, other;
  char *stack =
      (char *)mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(&own, 0, sizeof own);
  memset(&other, 0, sizeof other);
  of_coroutine = (struct slots *)arg;
  getcontext(&t_coroutine);
  t_coroutine.uc_stack.ss_sp = stack;
  t_coroutine.uc_stack.ss_size = kStack;
  t_coroutine.uc_link = &t_own;
  makecontext(&t_coroutine, run_coroutine, 0);
  GC_get_my_stackbottom(&own);
  other.mem_base = stack + kStack;
  GC_call_with_alloc_lock(set_bottom, &other);
  swapcontext(&t_own, &t_coroutine);
  GC_call_with_alloc_lock(set_bottom, &own);
  munmap(stack, kStack);
  return NULL;
}

static void static_block(void) {
  struct slots s;
  void *handle = load("initial_exec");
  s.of_thread = (void **(*)(void))dlsym(handle, "tls_slots");
  fill_and_collect(&s);
  run_in_thread(fill_and_collect, &s);
  on_told_stack(&s);
  run_in_thread(on_told_stack, &s);
  CHECK_EQ(dlclose(handle), 0);
}

/* --- Blocks of objects that were unloaded --- */

static void *reuse_number(void *arg) {
  size_t i;
  for (i = 0; i < kRounds; i++) {
    void *small = load("small_tls");
    void *large;
    memset(((char *(*)(void))dlsym(small, "tls_bytes"))(), 0x5c, 64);
    GC_gcollect();
    CHECK_EQ(dlclose(small), 0);
    GC_gcollect();
    large = load("large_tls");
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
