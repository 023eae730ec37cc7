/*
 * Preloaded before the library under test: a program that asks again for what it was refused, so
 * that programs which count on getting it run under GLEANER_FAILURES as they are. What cannot be is
 * not asked for again (sizes from 1 GiB on, objects that are none), and nothing more than 500
 * times.
 */
#define _GNU_SOURCE
#ifndef GC_NO_THREAD_REDIRECTS
#define GC_NO_THREAD_REDIRECTS
#endif
#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <dlfcn.h>
#include <errno.h>
#include <gc.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gleaner.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

enum { kAttempts = 500 };
static const size_t kPossible = (size_t)1 << 30;

#define EXPORT __attribute__((visibility("default")))

/* The function of that name behind this library. */
#define NEXT(NAME)                                                                         \
  static __typeof__(&NAME) next;                                                           \
  if (__atomic_load_n(&next, __ATOMIC_RELAXED) == NULL) {                                  \
    __atomic_store_n(&next, (__typeof__(&NAME))dlsym(RTLD_NEXT, #NAME), __ATOMIC_RELAXED); \
  }

/* RESULT is what to ask for, REFUSED whether that was refused, POSSIBLE whether to ask again. */
#define INSIST(TYPE, NAME, PARAMETERS, ARGUMENTS, REFUSED, POSSIBLE) \
  EXPORT TYPE NAME PARAMETERS {                                      \
    NEXT(NAME)                                                       \
    int attempts = 0;                                                \
    TYPE result;                                                     \
    do {                                                             \
      result = next ARGUMENTS;                                       \
    } while ((REFUSED) && (POSSIBLE) && ++attempts < kAttempts);     \
    return result;                                                   \
  }
#define INSIST_ON_MEMORY(NAME, PARAMETERS, ARGUMENTS, BYTES) \
  INSIST(void *, NAME, PARAMETERS, ARGUMENTS, result == NULL, (BYTES) < kPossible)

/* --- The collector's --- */

#define BY_SIZE(NAME) INSIST_ON_MEMORY(NAME, (size_t n), (n), n)
#define BY_SIZE_AND_PLACE(NAME) \
  INSIST_ON_MEMORY(NAME, (size_t n, const char *file, int line), (n, file, line), n)

BY_SIZE(GC_malloc)
BY_SIZE(GC_malloc_atomic)
BY_SIZE(GC_malloc_uncollectable)
BY_SIZE(GC_malloc_atomic_uncollectable)
BY_SIZE(GC_malloc_ignore_off_page)
BY_SIZE(GC_malloc_atomic_ignore_off_page)
BY_SIZE_AND_PLACE(GC_debug_malloc)
BY_SIZE_AND_PLACE(GC_debug_malloc_atomic)
BY_SIZE_AND_PLACE(GC_debug_malloc_uncollectable)
BY_SIZE_AND_PLACE(GC_debug_malloc_atomic_uncollectable)
BY_SIZE_AND_PLACE(GC_debug_malloc_ignore_off_page)
BY_SIZE_AND_PLACE(GC_debug_malloc_atomic_ignore_off_page)
INSIST_ON_MEMORY(GC_generic_malloc, (size_t n, int kind), (n, kind), kind < 0 ? kPossible : n)
INSIST_ON_MEMORY(GC_malloc_kind, (size_t n, int kind), (n, kind), kind < 0 ? kPossible : n)
INSIST_ON_MEMORY(GC_gcj_malloc, (size_t n, void *table), (n, table), n)
INSIST_ON_MEMORY(GC_debug_gcj_malloc, (size_t n, void *table, const char *file, int line),
                 (n, table, file, line), n)
INSIST_ON_MEMORY(GC_finalized_malloc, (size_t n, const struct GC_finalizer_closure *f), (n, f), n)
INSIST_ON_MEMORY(GC_malloc_explicitly_typed, (size_t n, GC_descr d), (n, d), n)
INSIST_ON_MEMORY(GC_malloc_explicitly_typed_ignore_off_page, (size_t n, GC_descr d), (n, d), n)
INSIST_ON_MEMORY(GC_calloc_explicitly_typed, (size_t count, size_t n, GC_descr d), (count, n, d),
                 n < kPossible ? count * n : n)
INSIST_ON_MEMORY(GC_memalign, (size_t alignment, size_t n), (alignment, n), n | alignment)
INSIST_ON_MEMORY(GC_realloc, (void *p, size_t n), (p, n),
                 n == 0 || (p != NULL && GC_base(p) != p) ? kPossible : n)
INSIST_ON_MEMORY(GC_debug_realloc, (void *p, size_t n, const char *file, int line),
                 (p, n, file, line), n == 0 || (p != NULL && GC_base(p) == NULL) ? kPossible : n)
INSIST(gleaner_fiber *, gleaner_fiber_create, (void *stack, size_t n), (stack, n), result == NULL,
       n < kPossible)
INSIST(gleaner_arena *, gleaner_arena_create,
       (size_t n, const struct gleaner_arena_options *options), (n, options), result == NULL,
       n < kPossible)
INSIST(gleaner_arena *, gleaner_arena_create_on,
       (void *p, size_t n, const struct gleaner_arena_options *options), (p, n, options),
       result == NULL, n < kPossible)
INSIST(int, GC_general_register_disappearing_link, (void **link, const void *object),
       (link, object), result == GC_NO_MEMORY, 1)
INSIST(int, GC_register_long_link, (void **link, const void *object), (link, object),
       result == GC_NO_MEMORY, 1)
INSIST(int, GC_pthread_create,
       (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *),
        void *argument),
       (thread, attributes, start, argument), result == EAGAIN, 1)

/* A registration has no result: that it was refused is told by the call of GC_oom_fn. */
static __thread int told_of_refusal;
static GC_oom_func oom_of_program;
static void *note_refusal(size_t n) {
  const GC_oom_func next = __atomic_load_n(&oom_of_program, __ATOMIC_RELAXED);
  told_of_refusal = 1;
  return next != NULL ? next(n) : NULL;
}
static void note_refusals(void) {
  const GC_oom_func now = GC_get_oom_fn();
  if (now == note_refusal) return;
  __atomic_store_n(&oom_of_program, now, __ATOMIC_RELAXED);
  GC_set_oom_fn(note_refusal);
}
#define INSIST_ON_FINALIZER(NAME)                                     \
  EXPORT void NAME(void *object, GC_finalization_proc fn, void *data, \
                   GC_finalization_proc *old_fn, void **old_data) {   \
    NEXT(NAME)                                                        \
    int attempts = 0;                                                 \
    note_refusals();                                                  \
    do {                                                              \
      told_of_refusal = 0;                                            \
      next(object, fn, data, old_fn, old_data);                       \
    } while (told_of_refusal && ++attempts < kAttempts);              \
  }
INSIST_ON_FINALIZER(GC_register_finalizer)
INSIST_ON_FINALIZER(GC_register_finalizer_ignore_self)
INSIST_ON_FINALIZER(GC_register_finalizer_no_order)
INSIST_ON_FINALIZER(GC_register_finalizer_unreachable)
INSIST_ON_FINALIZER(GC_debug_register_finalizer)
INSIST_ON_FINALIZER(GC_debug_register_finalizer_ignore_self)
INSIST_ON_FINALIZER(GC_debug_register_finalizer_no_order)
INSIST_ON_FINALIZER(GC_debug_register_finalizer_unreachable)

/* --- malloc's --- */

/* For who wants to know which malloc is behind this library. */
EXPORT void *gleaner_insist_next(const char *name);
EXPORT void *gleaner_insist_next(const char *name) { return dlsym(RTLD_NEXT, name); }

static void try_again(void) {}

/* operator new asks again as long as there is such a handler. */
__attribute__((constructor)) static void insist_on_new(void) {
  typedef void (*handler)(void);
  handler (*set)(handler) = (handler(*)(handler))dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
  if (set != NULL) set(try_again);
}

BY_SIZE(malloc)
BY_SIZE(valloc)
BY_SIZE(pvalloc)
INSIST_ON_MEMORY(calloc, (size_t count, size_t n), (count, n), n < kPossible ? count * n : n)
INSIST_ON_MEMORY(realloc, (void *p, size_t n), (p, n), n == 0 ? kPossible : n)
INSIST_ON_MEMORY(reallocarray, (void *p, size_t count, size_t n), (p, count, n),
                 n < kPossible && count * n != 0 ? count * n : kPossible)
INSIST_ON_MEMORY(memalign, (size_t alignment, size_t n), (alignment, n), n | alignment)
INSIST_ON_MEMORY(aligned_alloc, (size_t alignment, size_t n), (alignment, n), n | alignment)
INSIST(int, posix_memalign, (void **p, size_t alignment, size_t n), (p, alignment, n),
       result == ENOMEM, (n | alignment) < kPossible)
INSIST(int, pthread_create,
       (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *),
        void *argument),
       (thread, attributes, start, argument), result == EAGAIN, 1)
