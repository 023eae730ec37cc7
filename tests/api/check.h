/*
 * Checks for the programs in tests/api. Each program is one test: it prints every check that fails,
 * with its values, and returns check_result(). A rule in the head of one is a row of the table of
 * rules in docs/reference/compatibility.md.
 *
 * A program must pass on Debian's libgc 8.2.2 too. What only Gleaner promises stands under
 * `if (on_gleaner())`; where the two differ on purpose, the reason stands there. Whether garbage is
 * collected is asked of many objects at once ("mostly"), since stale words on stacks and in
 * registers may keep some: at most one in ten is let through.
 */
#ifndef GLEANER_TESTS_API_CHECK_H
#define GLEANER_TESTS_API_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/task_state.h"

#define NOINLINE __attribute__((noinline))
#define MAYBE_UNUSED __attribute__((unused))

static int check_failures;

static MAYBE_UNUSED void check_fail(const char *file, int line, const char *what) {
  __sync_fetch_and_add(&check_failures, 1);
  fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

static MAYBE_UNUSED void check_compare(const char *file, int line, const char *left,
                                       const char *relation, const char *right, int holds,
                                       long long left_value, long long right_value) {
  if (holds) return;
  __sync_fetch_and_add(&check_failures, 1);
  fprintf(stderr, "%s:%d: %s %s %s: %lld (0x%llx) and %lld (0x%llx)\n", file, line, left, relation,
          right, left_value, (unsigned long long)left_value, right_value,
          (unsigned long long)right_value);
}

#define CHECK(condition) ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, #condition))
/* Each operand is evaluated once. */
#define CHECK_RELATION(a, relation, b)                                                      \
  do {                                                                                      \
    long long check_a = (long long)(a), check_b = (long long)(b);                           \
    check_compare(__FILE__, __LINE__, #a, #relation, #b, check_a relation check_b, check_a, \
                  check_b);                                                                 \
  } while (0)
#define CHECK_EQ(a, b) CHECK_RELATION(a, ==, b)
#define CHECK_NE(a, b) CHECK_RELATION(a, !=, b)
#define CHECK_GE(a, b) CHECK_RELATION(a, >=, b)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define CHECK_LE(a, b) CHECK_RELATION(a, <=, b)
#define CHECK_PTR(a, b) CHECK_RELATION((intptr_t)(a), ==, (intptr_t)(b))
#define CHECK_NULL(a) CHECK_RELATION((intptr_t)(a), ==, (intptr_t)0)
/* Of `all` things at least nine in ten. */
#define CHECK_MOSTLY(count, all) CHECK_RELATION(count, >=, (all) - (all) / 10)

static MAYBE_UNUSED int check_result(void) {
  if (getenv("GLEANER_CONCURRENT") != NULL && GC_is_init_called()) {
    /* A system that refuses calls may have taken it away since the last collection. After the next
       one it is there in another way, or a message has denied it, which under_failures.py lets
       pass. */
    if (getenv("GLEANER_FAILURES") != NULL && GC_is_incremental_mode() != 1) GC_gcollect();
    check_compare(__FILE__, __LINE__, "GC_is_incremental_mode()", "==", "1",
                  GC_is_incremental_mode() == 1, GC_is_incremental_mode(), 1);
  }
  if (check_failures) fprintf(stderr, "%d checks failed\n", check_failures);
  return check_failures != 0;
}

/* Gleaner's own symbol tells the libraries apart. */
static MAYBE_UNUSED int on_gleaner(void) { return dlsym(RTLD_DEFAULT, "gleaner_version") != NULL; }

/* Overwrites what earlier calls left below the caller's frame. */
static MAYBE_UNUSED NOINLINE void scrub_stack(void) {
  volatile char unused[32768];
  for (size_t i = 0; i < sizeof unused; i++) unused[i] = 0;
}

static MAYBE_UNUSED NOINLINE void collect(void) {
  scrub_stack();
  GC_gcollect();
}

/* A way to fail instead of hanging: after that time on an idle machine, several times as much on
   any, and before ctest's TIMEOUT. */
static MAYBE_UNUSED void fail_after(unsigned seconds) { alarm(4 * seconds - 10); }

/* Waits for the child's end, with status 0. */
static MAYBE_UNUSED void check_ended_well(const char *file, int line, const char *what,
                                          pid_t child) {
  int status = -1;
  if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return;
  check_fail(file, line, what);
  fprintf(stderr, "  child %d, status 0x%x\n", (int)child, status);
}
#define CHECK_CHILD(child) check_ended_well(__FILE__, __LINE__, #child, child)

/* Runs fn(arg) in a child of fork, whose checks are the parent's. */
static MAYBE_UNUSED void check_in_child(const char *file, int line, const char *what,
                                        void (*fn)(void *), void *arg) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    fail_after(50);
    check_failures = 0;
    fn(arg);
    _exit(check_result());
  }
  check_ended_well(file, line, what, child);
}
#define CHECK_IN_CHILD(fn, arg) check_in_child(__FILE__, __LINE__, #fn, fn, arg)

/* Runs fn(arg) on a thread of its own, so that nothing of it stays on this stack. */
static MAYBE_UNUSED void *run_in_thread(void *(*fn)(void *), void *arg) {
  pthread_t thread;
  void *result = NULL;
  CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
  CHECK_EQ(pthread_join(thread, &result), 0);
  return result;
}

/* The same, and no collection comes meanwhile. */
static MAYBE_UNUSED void *make_in_thread(void *(*fn)(void *), void *arg) {
  GC_disable();
  void *result = run_in_thread(fn, arg);
  GC_enable();
  return result;
}

/* Runs fn(arg) on `count` threads at once, at most 16, while this one collects that many times. */
static MAYBE_UNUSED void run_in_threads(size_t count, void *(*fn)(void *), void *arg,
                                        size_t collections) {
  pthread_t threads[16];
  for (size_t i = 0; i < count; i++) CHECK_EQ(pthread_create(&threads[i], NULL, fn, arg), 0);
  for (size_t i = 0; i < collections; i++) GC_gcollect();
  for (size_t i = 0; i < count; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* For such threads: resizes and replaces objects of many sizes, and frees them all, by the macros
   of gc.h, which GC_DEBUG makes the calls of the debugging allocator. */
static MAYBE_UNUSED void *use_and_free(void *arg) {
  void *some[50];
  (void)arg;
  memset(some, 0, sizeof some);
  for (size_t i = 0; i < 20000; i++) {
    void **slot = &some[i * 7 % 50];
    const size_t size = i % 300 + 1;
    if (i % 5 == 0) {
      *slot = GC_REALLOC(*slot, size);
    } else {
      GC_FREE(*slot);
      *slot = i % 2 ? GC_MALLOC(size) : GC_MALLOC_ATOMIC(size);
    }
    memset(*slot, (int)i, size);
  }
  for (size_t i = 0; i < 50; i++) GC_FREE(some[i]);
  return NULL;
}

/* Overwrites what a collection has freed, with objects of that size. */
static MAYBE_UNUSED void *overwrite(void *size) {
  for (size_t i = 0; i < 100000; i++) memset(GC_malloc((size_t)size), 0xff, (size_t)size);
  return NULL;
}

/* A collection, after which what it has freed wrongly is overwritten and looked for again. */
static MAYBE_UNUSED void collect_and_overwrite(size_t size) {
  collect();
  run_in_thread(overwrite, (void *)size);
  collect();
}

/* Trees, of which each object knows its depth. */
struct tree {
  struct tree *left, *right;
  size_t depth;
};

static MAYBE_UNUSED struct tree *make_tree(size_t depth) {
  struct tree *t = (struct tree *)GC_malloc(sizeof *t);
  t->depth = depth;
  if (depth) {
    t->left = make_tree(depth - 1);
    t->right = make_tree(depth - 1);
  }
  return t;
}

/* Its leaves, if it is whole. */
static MAYBE_UNUSED size_t count_tree(const struct tree *t, size_t depth) {
  if (t == NULL || t->depth != depth) return 0;
  if (depth == 0) return 1;
  return count_tree(t->left, depth - 1) + count_tree(t->right, depth - 1);
}

static MAYBE_UNUSED void sleep_ms(long ms) {
  struct timespec t;
  t.tv_sec = ms / 1000;
  t.tv_nsec = ms % 1000 * 1000000;
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

/* The system's own function of that name, which gc.h redirects: threads that it makes are known to
   the collector only if they register themselves. */
typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int (*join_fn)(pthread_t, void **);
typedef int (*sigmask_fn)(int, const sigset_t *, sigset_t *);
#define SYSTEM(type, name) ((type)(uintptr_t)dlsym(RTLD_DEFAULT, name))

/* An object that knows whether it is whole. */
static MAYBE_UNUSED NOINLINE int intact(const size_t *p, size_t magic) {
  return p[0] == magic && p[7] == magic;
}
static MAYBE_UNUSED NOINLINE size_t *new_object(size_t magic) {
  size_t *p = (size_t *)GC_malloc(8 * sizeof *p);
  p[0] = p[7] = magic;
  return p;
}

static MAYBE_UNUSED void wait_for(sem_t *s) {
  while (sem_wait(s) != 0) {
  }
}

/* Objects under watch: hidden pointers that disappear with their objects, in memory of malloc. */
struct watch {
  size_t count;
  GC_hidden_pointer *links;
};

static MAYBE_UNUSED void watch_init(struct watch *w, size_t count) {
  w->count = count;
  w->links = (GC_hidden_pointer *)calloc(count, sizeof *w->links);
}

static MAYBE_UNUSED void watch_object(struct watch *w, size_t i, void *object) {
  w->links[i] = GC_HIDE_POINTER(object);
  CHECK_EQ(GC_general_register_disappearing_link((void **)&w->links[i], object), GC_SUCCESS);
}

static MAYBE_UNUSED size_t watch_gone(const struct watch *w) {
  size_t gone = 0;
  for (size_t i = 0; i < w->count; i++) gone += w->links[i] == 0;
  return gone;
}

/* A collection, after which all of them are there, or at most one in ten. */
#define CHECK_KEPT(w)           \
  do {                          \
    collect();                  \
    CHECK_EQ(watch_gone(w), 0); \
  } while (0)
#define CHECK_GONE(w)                        \
  do {                                       \
    collect();                               \
    CHECK_MOSTLY(watch_gone(w), (w)->count); \
  } while (0)

static MAYBE_UNUSED void watch_end(struct watch *w) {
  for (size_t i = 0; i < w->count; i++) GC_unregister_disappearing_link((void **)&w->links[i]);
  free(w->links);
  w->links = NULL;
}

#endif
