/* What gdb_test.py looks at: objects of known size and kind, each kept by one thing, whose
 * addresses are printed as "name value", then "ready"; the program waits for its standard input to
 * end. */
#define GC_THREADS
#include <gc.h>
#include <gc/gc_mark.h>
#include <gleaner.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct pair {
  void *first;
  void *second;
};

void *kept_by_global;
static void **uncollectable;
static pthread_barrier_t both;
/* Addresses in a form that is no pointer. */
static uintptr_t hidden[16];
static int hidden_count;

static void say(const char *name, const void *p) {
  printf("%s %#lx\n", name, (unsigned long)(uintptr_t)p);
}
static uintptr_t hide(const void *p) { return hidden[hidden_count++] = ~(uintptr_t)p; }

static void *wait_blocked(void *unused) {
  (void)unused;
  char c;
  while (read(0, &c, 1) > 0) {
  }
  return NULL;
}

static volatile int is_blocked;
static void *stay_blocked(void *unused) {
  is_blocked = 1;
  return wait_blocked(unused);
}

/* A thread of its own heap, blocked, with an object that its stack alone keeps. */
static void *run_thread(void *unused) {
  (void)unused;
  void *volatile kept[1] = {GC_malloc(300)};
  hide(kept[0]);
  printf("thread_tid %d\n", gettid());
  pthread_barrier_wait(&both);
  GC_do_blocking(stay_blocked, NULL);
  return kept[0];
}

/* A thread that runs until it is stopped, and after that. */
static volatile int spinning;
static volatile int over;
static void *run_on(void *unused) {
  spinning = 1;
  while (!over) {
  }
  return unused;
}

static const char *const names[] = {"thread", "global", "stack", "uncollectable",
                                    "held",   "large",  "freed", "fiber"};
static void say_all(const void *local) {
  for (int i = 0; i < hidden_count; ++i) say(names[i], (void *)~hidden[i]);
  say("local", local);
  printf("tid %d\nready\n", gettid());
  fflush(stdout);
}

/* Among the roots, with the world stopped. */
static const void *main_local;
static void wait_stopped(void) {
  if (over) return;
  say_all(main_local);
  wait_blocked(NULL);
  over = 1;
}

__attribute__((noinline)) static void make(void *volatile *on_stack) {
  kept_by_global = GC_malloc(40);
  *on_stack = GC_malloc_atomic(1000);
  uncollectable = (void **)GC_malloc_uncollectable(200);
  uncollectable[3] = GC_malloc(64);
  struct pair *pair = (struct pair *)kept_by_global;
  pair->second = GC_malloc(100000);
  hide(kept_by_global);
  hide(*on_stack);
  hide(uncollectable);
  hide(uncollectable[3]);
  hide(pair->second);
  void *freed = GC_malloc(500);
  hide(freed);
  GC_free(freed);
  /* What is prepared for the first function of a fiber's stack. */
  char *stack = aligned_alloc(4096, 65536);
  if (stack == NULL || gleaner_fiber_create(stack, 65536) == NULL) abort();
  void **of_fiber = (void **)(stack + 65536 - 512);
  *of_fiber = GC_malloc(700);
  hide(*of_fiber);
}

__attribute__((noinline)) static void clear_stack(void) {
  volatile char dead[8192];
  memset((void *)dead, 0, sizeof dead);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  /* Debuggers that are no ancestors may attach. */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (strcmp(mode, "unused") == 0) {
    printf("ready\n");
    fflush(stdout);
    wait_blocked(NULL);
    return 0;
  }
  GC_INIT();
  if (strcmp(mode, "fatal") == 0) {
    for (int i = 0; i < 100; ++i) GC_new_kind(GC_new_free_list(), 0, 0, 1);
  }
  pthread_barrier_init(&both, NULL, 2);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_thread, NULL) != 0) return 1;
  pthread_barrier_wait(&both);
  while (!is_blocked) {
  }
  void *volatile on_stack[1];
  make(on_stack);
  clear_stack();
  if (strcmp(mode, "collected") == 0) {
    GC_gcollect();
    void *young = GC_malloc(48); /* kept by whatever still has it */
    printf("young %#lx\n", (unsigned long)(uintptr_t)young);
  }
  if (strcmp(mode, "cycle") == 0) {
    /* Steps of a cycle until something is white; the rest is never done. */
    GC_start_incremental_collection();
    GC_collect_a_little();
    printf("young %#lx\n", (unsigned long)(uintptr_t)GC_malloc(48));
  }
  if (strcmp(mode, "stopped") == 0) {
    pthread_t other;
    if (pthread_create(&other, NULL, run_on, NULL) != 0) return 1;
    while (!spinning) {
    }
    main_local = (const void *)on_stack;
    GC_set_push_other_roots(wait_stopped);
    GC_gcollect();
    return 0;
  }
  say_all((const void *)on_stack);
  clear_stack();
  wait_blocked(NULL);
  say("stack", on_stack[0]);
  return 0;
}
