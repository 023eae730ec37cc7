/*
 * The fast path of GC_malloc and GC_malloc_atomic, compiled into the program. gc.h includes this
 * file if GLEANER_INLINE_MALLOC is defined: then GC_MALLOC, GC_MALLOC_ATOMIC and what is made of
 * them take it for sizes that are constants from 1 to 128 bytes. The macros of gc_inline.h take it
 * always.
 *
 *     cc -O2 -DGLEANER_INLINE_MALLOC program.c -lgc
 *
 * Where the library does not offer the path, each use is a call. So it is with other libraries than
 * Gleaner, with a Gleaner whose allocator is another one, without optimisation, under a sanitizer,
 * and on processors other than x86-64. docs/reference/extensions.md has the contract.
 *
 * Any thread. Not for signal handlers, as GC_malloc is not.
 */
#ifndef GC_BUMP_H
#define GC_BUMP_H

#include "gc.h"

#if defined(__x86_64__) && !defined(__ILP32__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(GC_BUILD)
#define GLEANER_HAS_BUMP
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer)
#undef GLEANER_HAS_BUMP
#endif
#endif
#endif

/* Sizes, in granules of 16 bytes, and kinds, GC_I_PTRFREE and GC_I_NORMAL, that have the path. */
#define GLEANER_BUMP_GRANULES 8
#define GLEANER_BUMP_KINDS 2
/* Rows of the table, one for each kind, are this many bumps apart. */
#define GLEANER_BUMP_ROW 31

/* A thread's next objects of one size and kind: [limit, cur), handed out from the upper end, zeroed
   if the kind is. Only the thread writes `cur`, and only the library `limit`. */
struct gleaner_bump {
  volatile unsigned long cur;
  volatile unsigned long limit;
  unsigned long slot_bytes;
};

#ifdef __cplusplus
extern "C" {
#endif

/* At this distance from the thread pointer each thread has the address of its table of bumps; 0 if
   the library does not offer it. Changes once. The name has the number of the layout. The library's
   definition and the program's are one, as the dynamic linker takes the first that it finds. */
extern __attribute__((__visibility__("default"))) ptrdiff_t gleaner_bumps_at_1;
#ifdef GLEANER_HAS_BUMP
__attribute__((__weak__)) ptrdiff_t gleaner_bumps_at_1 = 0;
#endif

/* Whether the library offers the path. */
static __inline__ int gleaner_offers_bump(void) {
#ifdef GLEANER_HAS_BUMP
  return __atomic_load_n(&gleaner_bumps_at_1, __ATOMIC_RELAXED) != 0; /* any value will do */
#else
  return 0;
#endif
}

/* Stores a new object at *object, and returns 1; 0 if there is none at hand, or none of this size
   and kind. */
static __inline__ __attribute__((__always_inline__)) int gleaner_try_bump(size_t granules, int kind,
                                                                          void **object) {
#ifdef GLEANER_HAS_BUMP
  const ptrdiff_t at =
      __atomic_load_n(&gleaner_bumps_at_1, __ATOMIC_RELAXED); /* any value will do */
  struct gleaner_bump *bump;
  unsigned long next;
  if (__builtin_expect(at == 0, 0) || granules - 1 >= GLEANER_BUMP_GRANULES ||
      (unsigned)kind >= GLEANER_BUMP_KINDS)
    return 0;
  /* Not an access that the compiler knows: it would keep the thread pointer where the program
     changes from one thread's stack to another's. */
  __asm__ __volatile__("movq %%fs:(%1), %0" : "=r"(bump) : "r"(at));
  bump += (size_t)kind * GLEANER_BUMP_ROW + granules - 1;
  next = bump->cur - granules * 16;
  if (__builtin_expect(next < bump->limit, 0)) return 0;
  bump->cur = next;
  /* The program has the object from here on, after the store to `cur`. */
  __asm__ __volatile__("" : "+r"(next));
  *object = (void *)next;
  return 1;
#else
  (void)granules;
  (void)kind;
  (void)object;
  return 0;
#endif
}

#ifdef GLEANER_INLINE_MALLOC
/* GC_malloc and GC_malloc_atomic, by the path where the size is a constant that has it. */
static __inline__ __attribute__((__always_inline__)) void *gleaner_malloc(size_t bytes) {
  void *object;
  if (__builtin_constant_p(bytes) && bytes != 0 && bytes <= GLEANER_BUMP_GRANULES * 16 &&
      gleaner_try_bump((bytes + 15) / 16, 1, &object))
    return object;
  return GC_malloc(bytes);
}
static __inline__ __attribute__((__always_inline__)) void *gleaner_malloc_atomic(size_t bytes) {
  void *object;
  if (__builtin_constant_p(bytes) && bytes != 0 && bytes <= GLEANER_BUMP_GRANULES * 16 &&
      gleaner_try_bump((bytes + 15) / 16, 0, &object))
    return object;
  return GC_malloc_atomic(bytes);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
