/*
 * Why is this object still there? References, from an object back to a root on a shortest way.
 *
 * For all objects; those allocated with GC_DEBUG are named by the place of their allocation. The
 * first question makes a collection that records what refers to what, with static data before
 * stacks; further ones, until the next collection, are answered from the record.
 */
#ifndef GC_BACKPTR_H
#define GC_BACKPTR_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of reference that keeps an object. */
typedef enum {
  GC_UNREFERENCED,   /* nothing: not an object, or an uncollectable one */
  GC_NO_SPACE,       /* nothing is recorded: collections are disabled, or there is no memory */
  GC_REFD_FROM_ROOT, /* a word in a root; *source is its address */
  GC_REFD_FROM_REG,  /* a word without an address, such as a register */
  GC_REFD_FROM_HEAP, /* a word in the object *source, *offset bytes behind its start */
  GC_FINALIZER_REFD  /* none: the object waits for its finalizer */
} GC_ref_kind;

/* The reference by which `object`, any address inside an object, is reached from the roots. What is
   stored in *source and *offset depends on the result. */
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
