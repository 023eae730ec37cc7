/*
 * Objects whose pointers lie at known places: the program says which words of a type are pointers,
 * and the collector looks at no other words. For structures with much data that looks like
 * pointers. GC_malloc_atomic is simpler for objects without pointers.
 *
 *     GC_word bits[GC_BITMAP_SIZE(struct node)] = {0};
 *     GC_set_bit(bits, GC_WORD_OFFSET(struct node, next));
 *     GC_descr d = GC_make_descriptor(bits, GC_WORD_LEN(struct node));
 *     struct node *n = (struct node *)GC_MALLOC_EXPLICITLY_TYPED(sizeof(struct node), d);
 */
#ifndef GC_TYPED_H
#define GC_TYPED_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array of words. Bit i, counted from the lowest bit of the first word, is set if word i of the
   type may be a pointer. */
typedef GC_word *GC_bitmap;

#define GC_WORDSZ (8 * sizeof(GC_word))
#define GC_get_bit(bm, index) (((bm)[(index) / GC_WORDSZ] >> ((index) % GC_WORDSZ)) & 1)
#define GC_set_bit(bm, index) ((bm)[(index) / GC_WORDSZ] |= (GC_word)1 << ((index) % GC_WORDSZ))

#define GC_WORD_OFFSET(t, f) (offsetof(t, f) / sizeof(GC_word))
#define GC_WORD_LEN(t) (sizeof(t) / sizeof(GC_word))
#define GC_BITMAP_SIZE(t) ((GC_WORD_LEN(t) + GC_WORDSZ - 1) / GC_WORDSZ)

typedef GC_word GC_descr;

/* A descriptor for a type of `len` words. Later words count as no pointers. May allocate. A call
   whose last pointer lies beyond the first 62 words uses memory that is never freed, so programs
   should make one descriptor for a type. If there is no memory, the descriptor says that every word
   may be a pointer. */
GC_API GC_descr GC_CALL GC_make_descriptor(const GC_word *bitmap, size_t len) GC_ATTR_NONNULL(1);

/* A zeroed object of the type. It takes one more word, for the descriptor. GC_realloc keeps the
   type of objects and arrays; an array grows by elements. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_explicitly_typed(size_t size, GC_descr d);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_explicitly_typed_ignore_off_page(size_t size, GC_descr d);

/* A zeroed array of `n` elements with the descriptor `d`, each of `element_size` bytes, a multiple
   of the word size. */
GC_API GC_ATTR_MALLOC void *GC_CALL GC_calloc_explicitly_typed(size_t n, size_t element_size,
                                                               GC_descr d);

#ifdef GC_DEBUG
#define GC_MALLOC_EXPLICITLY_TYPED(bytes, d) ((void)(d), GC_MALLOC(bytes))
#define GC_MALLOC_EXPLICITLY_TYPED_IGNORE_OFF_PAGE(bytes, d) GC_MALLOC_EXPLICITLY_TYPED(bytes, d)
#define GC_CALLOC_EXPLICITLY_TYPED(n, bytes, d) ((void)(d), GC_MALLOC((n) * (bytes)))
#else
#define GC_MALLOC_EXPLICITLY_TYPED(bytes, d) GC_malloc_explicitly_typed(bytes, d)
#define GC_MALLOC_EXPLICITLY_TYPED_IGNORE_OFF_PAGE(bytes, d) \
  GC_malloc_explicitly_typed_ignore_off_page(bytes, d)
#define GC_CALLOC_EXPLICITLY_TYPED(n, bytes, d) GC_calloc_explicitly_typed(n, bytes, d)
#endif

#ifdef __cplusplus
}
#endif

#endif
