/*
 * Allocation without a call. Where the library offers it the macros take objects from the thread's
 * own run (gc_bump.h). Otherwise they take them from free lists of the program's own, which
 * GC_generic_malloc_many fills with a part of a page at a time. Each list is used by one thread.
 *
 * A free list is linked through the objects' first words; the rest of an object that is not
 * pointer-free is zero. The heads must be roots. For pointer-free objects the whole chain must be
 * kept, too, by a mark procedure that follows it. Otherwise the objects are reclaimed.
 */
#ifndef GC_INLINE_H
#define GC_INLINE_H

#include "gc.h"
#include "gc_bump.h"
#include "gc_tiny_fl.h"

#define GC_EXPECT(expr, outcome) __builtin_expect(expr, outcome)

#ifndef GC_ASSERT
#ifdef NDEBUG
#define GC_ASSERT(expr)
#else
#include <assert.h>
#define GC_ASSERT(expr) assert(expr)
#endif
#endif

#ifndef GC_PREFETCH_FOR_WRITE
#ifdef GC_NO_PREFETCH_FOR_WRITE
#define GC_PREFETCH_FOR_WRITE(x) (void)0
#else
#define GC_PREFETCH_FOR_WRITE(x) __builtin_prefetch((x), 1)
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of GC_malloc_atomic and GC_malloc. */
#define GC_I_PTRFREE 0
#define GC_I_NORMAL 1

/* A list of new objects of `size` bytes, a multiple of the granule, linked through their first
   words: at least one, and as many as a few KiB hold. *result is its head, or NULL if the memory is
   exhausted or the kind unknown. */
GC_API void GC_CALL GC_generic_malloc_many(size_t size, int kind, void **result);

/* An object of any kind. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_kind(size_t size, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_kind_global(size_t size, int kind);

/* The allocation of all macros below. `tiny_fl` is an array of GC_TINY_FREELISTS heads, zero at
   first. They stay zero for sizes and kinds that gc_bump.h has, where the library offers them. A
   head is a pointer to an object, or the count of granules taken so far. A size's list is first
   filled when `num_direct` granules of that size were taken; before that, and for larger sizes,
   `default_expr` gives the object. `init` runs directly after an object is taken. If memory is
   exhausted, the result is that of the out-of-memory function. */
#define GC_FAST_MALLOC_GRANS(result, granules, tiny_fl, num_direct, kind, default_expr, init)  \
  do {                                                                                         \
    void *gc_bumped_;                                                                          \
    if (GC_EXPECT(gleaner_try_bump(granules, kind, &gc_bumped_), 1)) {                         \
      result = gc_bumped_;                                                                     \
      init;                                                                                    \
    } else if (gleaner_offers_bump() && (size_t)(granules)-1 < GLEANER_BUMP_GRANULES &&        \
               (unsigned)(kind) < GLEANER_BUMP_KINDS) {                                        \
      gc_bumped_ = GC_malloc_kind((granules)*GC_GRANULE_BYTES, kind); /* refills the run */    \
      result = gc_bumped_;                                                                     \
      if (gc_bumped_ != 0) {                                                                   \
        init;                                                                                  \
      }                                                                                        \
    } else {                                                                                   \
      GC_LISTED_MALLOC_GRANS(result, granules, tiny_fl, num_direct, kind, default_expr, init); \
    }                                                                                          \
  } while (0)

/* GC_FAST_MALLOC_GRANS from the program's lists alone. */
#define GC_LISTED_MALLOC_GRANS(result, granules, tiny_fl, num_direct, kind, default_expr, init) \
  do {                                                                                          \
    if (GC_EXPECT((granules) >= GC_TINY_FREELISTS, 0)) {                                        \
      result = (default_expr);                                                                  \
    } else {                                                                                    \
      void **gc_head_ = (tiny_fl) + (granules);                                                 \
      const GC_word gc_counts_ = (GC_word)(num_direct) + GC_TINY_FREELISTS + 1;                 \
      void *gc_entry_ = *gc_head_;                                                              \
      if (GC_EXPECT((GC_word)gc_entry_ <= gc_counts_, 0)) {                                     \
        if (gc_entry_ != 0 && (GC_word)gc_entry_ <= (GC_word)(num_direct)) {                    \
          *gc_head_ = (void *)((GC_word)gc_entry_ + (granules) + 1);                            \
          result = (default_expr);                                                              \
          break;                                                                                \
        }                                                                                       \
        GC_generic_malloc_many(                                                                 \
            (granules) == 0 ? GC_GRANULE_BYTES : GC_RAW_BYTES_FROM_INDEX(granules), kind,       \
            gc_head_);                                                                          \
        gc_entry_ = *gc_head_;                                                                  \
        if (GC_EXPECT(gc_entry_ == 0, 0)) {                                                     \
          result = (*GC_get_oom_fn())((granules)*GC_GRANULE_BYTES);                             \
          break;                                                                                \
        }                                                                                       \
      }                                                                                         \
      {                                                                                         \
        void *gc_next_ = *(void **)gc_entry_;                                                   \
        result = gc_entry_;                                                                     \
        *gc_head_ = gc_next_;                                                                   \
        init;                                                                                   \
        GC_PREFETCH_FOR_WRITE(gc_next_);                                                        \
        if ((kind) != GC_I_PTRFREE) {                                                           \
          GC_end_stubborn_change(gc_head_);                                                     \
          GC_reachable_here(gc_next_);                                                          \
        }                                                                                       \
        GC_ASSERT(GC_size(result) >= (granules)*GC_GRANULE_BYTES);                              \
        GC_ASSERT((kind) == GC_I_PTRFREE || ((GC_word *)(result))[1] == 0);                     \
      }                                                                                         \
    }                                                                                           \
  } while (0)

#define GC_WORDS_TO_WHOLE_GRANULES(n) GC_WORDS_TO_GRANULES((n) + GC_GRANULE_WORDS - 1)

/* An object of `n` words of a kind. Its first word is the link of the free list until `init` or the
   program writes it. */
#define GC_MALLOC_WORDS_KIND(result, n, tiny_fl, kind, init)                          \
  do {                                                                                \
    size_t gc_granules_ = GC_WORDS_TO_WHOLE_GRANULES(n);                              \
    GC_FAST_MALLOC_GRANS(result, gc_granules_, tiny_fl, 0, kind,                      \
                         GC_malloc_kind(gc_granules_ *GC_GRANULE_BYTES, kind), init); \
  } while (0)

/* As GC_malloc, and as GC_malloc_atomic. */
#define GC_MALLOC_WORDS(result, n, tiny_fl) \
  GC_MALLOC_WORDS_KIND(result, n, tiny_fl, GC_I_NORMAL, *(void **)(result) = 0)
#define GC_MALLOC_ATOMIC_WORDS(result, n, tiny_fl) \
  GC_MALLOC_WORDS_KIND(result, n, tiny_fl, GC_I_PTRFREE, (void)0)

/* A pair. */
#define GC_CONS(result, first, second, tiny_fl)                     \
  do {                                                              \
    void *gc_first_ = (void *)(first);                              \
    void *gc_second_ = (void *)(second);                            \
    GC_MALLOC_WORDS_KIND(result, 2, tiny_fl, GC_I_NORMAL, (void)0); \
    if ((result) != 0) {                                            \
      *(void **)(result) = gc_first_;                               \
      GC_PTR_STORE_AND_DIRTY((void **)(result) + 1, gc_second_);    \
      GC_reachable_here(gc_first_);                                 \
    }                                                               \
  } while (0)

/* Prints the free slots of a kind and size. */
GC_API void GC_CALL GC_print_free_list(int kind, size_t size_in_granules);

#ifdef __cplusplus
}
#endif

#endif
