/*
 * Why is this object still there? The references that the last collection followed, backwards.
 *
 * For objects of the debugging allocator (GC_MALLOC with GC_DEBUG defined before gc.h), in a
 * process that records them. Call GC_gcollect first: what is told is what that collection saw.
 */
#ifndef GC_BACKPTR_H
#define GC_BACKPTR_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What kept an object. */
typedef enum {
  GC_UNREFERENCED,   /* nothing that is known of */
  GC_NO_SPACE,       /* not an object of the debugging allocator, so nothing was recorded */
  GC_REFD_FROM_ROOT, /* a word in a root; *source is its address */
  GC_REFD_FROM_REG,  /* a word without an address, such as a register */
  GC_REFD_FROM_HEAP, /* a word in another object, *offset bytes behind that object's start, *source
                      */
  GC_FINALIZER_REFD  /* it waits for its finalizer */
} GC_ref_kind;

/* Where the reference is by which `object`, any address inside an object, was last marked. Stores
 *to source and *offset as the result says. */
GC_API GC_ref_kind GC_CALL GC_get_back_ptr_info(void *object, void **source, size_t *offset)
    GC_ATTR_NONNULL(1);

/* An arbitrary address in the heap: used or not, or inside an object that the last collection
   marked. For sampling what fills a heap. */
GC_API void *GC_CALL GC_generate_random_heap_address(void);
GC_API void *GC_CALL GC_generate_random_valid_address(void);

/* Prints the chain of references from a root to the object at `address`, where it is known. */
GC_API void GC_CALL GC_print_backtrace(void *address) GC_ATTR_NONNULL(1);

/* Collects, and prints the chain for an arbitrary object. */
GC_API void GC_CALL GC_generate_random_backtrace(void);

#ifdef __cplusplus
}
#endif

#endif
