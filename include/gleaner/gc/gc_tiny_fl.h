/* Sizes of the free lists that inline allocation (gc_inline.h) takes objects from. */
#ifndef GC_TINY_FL_H
#define GC_TINY_FL_H

/* Sizes of objects are multiples of this many bytes. */
#ifndef GC_GRANULE_BYTES
#define GC_GRANULE_BYTES 16
#define GC_GRANULE_WORDS 2
#endif

/* pre: a multiple of GC_GRANULE_WORDS. */
#define GC_WORDS_TO_GRANULES(n) ((n) / GC_GRANULE_WORDS)

/* An array of free lists has a list for each size below GC_TINY_FREELISTS granules. */
#ifndef GC_TINY_FREELISTS
#define GC_TINY_FREELISTS 25
#endif

#define GC_RAW_BYTES_FROM_INDEX(i) ((i)*GC_GRANULE_BYTES)

#endif
