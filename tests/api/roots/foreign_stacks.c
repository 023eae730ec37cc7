/* Stacks that the library has not made: told by GC_set_stackbottom or not, in mappings of one piece
   or of several, and interrupted by handlers on alternate signal stacks; also where no file can be
   opened. A pointer that lies in such a stack alone keeps its object. */
#include "stacks.h"

#include <sys/resource.h>

enum { kStack = 64 << 10, kPage = kGuardBytes };

/* Some pages deeper than the caller. */
static NOINLINE void collect_and_churn(void) {
  volatile char deeper[3 * kPage];
  deeper[0] = 1;
  collect();
  for (size_t i = 0; i < 30000; i++) memset(GC_malloc(64), 0xff, 64);
  collect();
  CHECK_EQ(deeper[0], 1);
}

static void expect_none_lost(size_t lost, const char *where, const char *what) {
  if (lost == 0) return;
  fprintf(stderr, "%s, %s: %zu of %d objects lost\n", where, what, lost, kHeld);
  check_failures++;
}

/* --- Coroutines --- */

static __thread void (*t_meanwhile)(void);
static __thread size_t t_lost;

static void hold_on_coroutine(void) {
  size_t *volatile objects[kHeld];
  struct held held = hold(objects);
  t_meanwhile();
  t_lost = count_lost(&held);
}

/* Every other page has other flags, which makes it a mapping of its own: the pointers are not in
   that of the stack pointer. */
static void split(char *stack) {
  for (size_t i = 1; i < kStack / kPage; i += 2) {
    CHECK_EQ(madvise(stack + i * kPage, kPage, MADV_DONTDUMP), 0);
  }
}

static void on_coroutine(const char *where, int told, int is_split) {
  size_t *volatile objects[kHeld];
  char *stack = map_stack(kStack);
  struct GC_stack_base own = {0};
  if (is_split) split(stack);
  if (told) {
    GC_get_my_stackbottom(&own);
    GC_disable();
    tell_bottom(stack + kStack);
    run_on_stack(stack, kStack, hold_on_coroutine);
    tell_bottom(own.mem_base);
  } else {
    struct held held = hold(objects);
    run_on_stack(stack, kStack, hold_on_coroutine);
    /* The own stack counts as well: nobody has said where it was left. */
    expect_none_lost(count_lost(&held), where, "own stack");
  }
  expect_none_lost(t_lost, where, told ? "told" : "untold");
  unmap_stack(stack, kStack);
}

static void collect_on_told(void) {
  GC_enable();
  collect_and_churn();
}

static void *coroutines(void *where) {
  for (int is_split = 0; is_split < 2; is_split++) {
    if (is_split) where = (void *)"split mapping";
    t_meanwhile = collect_on_told;
    on_coroutine((const char *)where, 1, is_split);
    t_meanwhile = collect_and_churn;
    if (on_gleaner()) on_coroutine((const char *)where, 0, is_split);
  }
  return NULL;
}

/* What lies above an untold stack comes and goes, by a thread that the library does not know and
   that no collection stops. */
enum { kAbove = 4 << 20 };
static volatile int enough;
static void *map_and_unmap(void *above) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  while (!enough) {
    CHECK_PTR(mmap(above, kAbove, PROT_READ | PROT_WRITE, flags, -1, 0), above);
    memset(above, 1, kAbove / 16);
    CHECK_PTR(mmap(above, kAbove, PROT_NONE, flags, -1, 0), above); /* nobody else gets the place */
  }
  return NULL;
}

static void collect_often(void) {
  for (size_t i = 0; i < 400; i++) {
    GC_gcollect();
    while (GC_collect_a_little()) {
    }
  }
}

static void beside_what_vanishes(void) {
  pthread_t thread;
  char *all = map_stack(kStack + kAbove);
  CHECK_EQ(SYSTEM(create_fn, "pthread_create")(&thread, NULL, map_and_unmap, all + kStack), 0);
  t_meanwhile = collect_often;
  run_on_stack(all, kStack, hold_on_coroutine);
  enough = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
  expect_none_lost(t_lost, "beside what vanishes", "untold");
  munmap(all - kPage, kStack + 2 * kPage);
}

/* --- Handlers on alternate stacks --- */

static sem_t ready, go;

static void *GC_CALLBACK wait_blocked(void *data) {
  sem_post(&ready);
  wait_for(&go);
  return data;
}

/* Who collects while the handler runs: it itself, or another thread while it waits. */
enum { kItself, kOther, kOtherBlocked, kWays };
static volatile int way;
static void on_signal(int number) {
  switch (way) {
    case kItself:
      collect_and_churn();
      break;
    case kOther:
      wait_blocked(NULL);
      break;
    default:
      GC_do_blocking(wait_blocked, NULL);
  }
}
static void *collect_when_ready(void *arg) {
  wait_for(&ready);
  collect_and_churn();
  sem_post(&go);
  return arg;
}

static void raise_here(void) {
  pthread_t thread;
  if (way != kItself) CHECK_EQ(pthread_create(&thread, NULL, collect_when_ready, NULL), 0);
  raise(SIGUSR1);
  if (way != kItself) CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void use_alternate_stack(char *stack, size_t bytes) {
  stack_t alternate = {.ss_sp = stack, .ss_size = bytes};
  if (stack == NULL) alternate.ss_flags = SS_DISABLE;
  CHECK_EQ(sigaltstack(&alternate, NULL), 0);
}

/* A thread's own stack, interrupted. */
static NOINLINE void hold_on_own_stack(const char *where) {
  size_t *volatile objects[kHeld];
  struct held held = hold(objects);
  raise_here();
  expect_none_lost(count_lost(&held), where, "interrupted own stack");
}

#ifdef __x86_64__
/* The only pointer is in the red zone: the object's address is in no register as the handler runs,
   but for that of its complement. */
static NOINLINE size_t *through_red_zone(size_t complement) {
  size_t *result;
  const long pid = getpid();
  const long tid = gettid();
  __asm__ volatile(
      "lea -256(%%rsp), %%rsp\n\t" /* the compiler's own red zone stays as it is */
      "not %%rbx\n\t"
      "mov %%rbx, -128(%%rsp)\n\t"
      "not %%rbx\n\t"
      "xor %%r8d, %%r8d\n\t" /* no register points below the red zone */
      "xor %%r9d, %%r9d\n\t"
      "xor %%r10d, %%r10d\n\t"
      "syscall\n\t"
      "mov -128(%%rsp), %%rbx\n\t"
      "lea 256(%%rsp), %%rsp\n\t"
      : "=b"(result)
      : "b"(complement), "a"(234L /* tgkill */), "D"(pid), "S"(tid), "d"((long)SIGUSR1)
      : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
  return result;
}
static NOINLINE size_t hidden_object(struct watch *w) {
  size_t *object = (size_t *)GC_malloc(64);
  object[0] = object[7] = 4711;
  watch_object(w, 0, object);
  return ~(size_t)object;
}
static void in_red_zone(const char *where, char *alternate) {
  size_t lost = 0;
  for (size_t i = 0; i < 10; i++) {
    pthread_t thread;
    struct watch watch;
    GC_disable();
    watch_init(&watch, 1);
    size_t hidden = hidden_object(&watch);
    scrub_stack();
    if (way != kItself) CHECK_EQ(pthread_create(&thread, NULL, collect_when_ready, NULL), 0);
    GC_enable();
    memset(alternate, 0, kStack); /* nothing of earlier handlers there either */
    const size_t *object = through_red_zone(hidden);
    lost += watch_gone(&watch) != 0 || object[0] != 4711 || object[7] != 4711;
    watch_end(&watch);
    if (way != kItself) CHECK_EQ(pthread_join(thread, NULL), 0);
  }
  if (lost == 0) return;
  fprintf(stderr, "%s, red zone: %zu of 10 objects lost\n", where, lost);
  check_failures++;
}
#else
static void in_red_zone(const char *where, char *alternate) {}
#endif

static void in_handlers(const char *where, char *alternate) {
  use_alternate_stack(alternate, kStack);
  for (way = 0; way < kWays; way++) {
    hold_on_own_stack(where);
    in_red_zone(where, alternate);
    t_meanwhile = raise_here;
    on_coroutine(where, 0, 0);
  }
  use_alternate_stack(NULL, 0);
}

static void *handlers(void *where) {
  char *mapped = map_stack(kStack);
  char *from_malloc = (char *)malloc(kStack);
  in_handlers((const char *)where, mapped);
  in_handlers((const char *)where, from_malloc);
  unmap_stack(mapped, kStack);
  free(from_malloc);
  return NULL;
}

/* A thread whose alternate stack is below its own, or above. */
struct two_stacks {
  char *alternate;
  const char *where;
};
static void *with_two_stacks(void *arg) {
  const struct two_stacks *s = (const struct two_stacks *)arg;
  in_handlers(s->where, s->alternate);
  return NULL;
}
static void above_and_below(void) {
  enum { kOwn = 512 << 10 };
  char *low = map_stack(kStack);
  char *own = map_stack(kOwn);
  struct two_stacks s;
  char *all = map_stack(kStack + kPage + kOwn + kPage + kStack);
  unmap_stack(low, kStack);
  unmap_stack(own, kOwn);
  low = all;
  own = low + kStack + kPage;
  char *high = own + kOwn + kPage;
  CHECK_EQ(mprotect(own - kPage, kPage, PROT_NONE), 0);
  CHECK_EQ(mprotect(own + kOwn, kPage, PROT_NONE), 0);
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    pthread_attr_t attributes;
    s.alternate = i ? high : low;
    s.where = i ? "alternate stack above" : "alternate stack below";
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstack(&attributes, own, kOwn), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, with_two_stacks, &s), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
  }
  unmap_stack(all, kStack + kPage + kOwn + kPage + kStack);
}

static void everything(const char *on_main, const char *on_thread) {
  coroutines((void *)on_main);
  run_in_thread(coroutines, (void *)on_thread);
  if (!on_gleaner()) return;
  handlers((void *)on_main);
  run_in_thread(handlers, (void *)on_thread);
}

int main(void) {
  struct rlimit limit;
  fail_after(50);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
  sem_init(&ready, 0, 0);
  sem_init(&go, 0, 0);
  GC_INIT();
  everything("first thread", "another thread");
  if (on_gleaner()) {
    above_and_below();
    beside_what_vanishes();
  }
  /* No file can be opened any more. */
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 0;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  everything("first thread, no descriptors", "another thread, no descriptors");
  return check_result();
}
