/*
 * A say before objects are reclaimed: a procedure for each unreachable object of a kind. Cheaper
 * than finalizers, as nothing is registered object by object.
 */
#ifndef GC_DISCLAIM_H
#define GC_DISCLAIM_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Asked for an unreachable object, given its base, before it is reclaimed: nonzero keeps it until
   the next collection asks again. Runs after the collection, while other threads run, under the
   allocation lock: it must not allocate. Disappearing links to the object are cleared already. It
   may be asked about zeroed memory: an object that the program had not filled in yet, or, with
   collections beside the program, one that it has given back. */
typedef int(GC_CALLBACK *GC_disclaim_proc)(void *obj);

/* Sets the procedure of a kind; NULL takes it away. `mark_from_all`: what unreachable objects of
   the kind refer to stays, too, until the procedure has run for them. An unknown kind is ignored,
   with a message. */
GC_API void GC_CALL GC_register_disclaim_proc(int kind, GC_disclaim_proc proc, int mark_from_all);

/* What GC_finalized_malloc calls: proc(obj, cd). The closure must be aligned to words and last as
   long as the object; if it lies in the heap, the object keeps it. */
struct GC_finalizer_closure {
  void(GC_CALLBACK *proc)(void *obj, void *cd);
  void *cd;
};

/* To be called before GC_finalized_malloc. Further calls do nothing. */
GC_API void GC_CALL GC_init_finalized_malloc(void);

/* A zeroed object for which the closure is called when it has become unreachable, once, under the
   rules of GC_disclaim_proc; what it refers to is still there then. Aligned to 8 bytes, not 16, as
   a word of the collector's stands before it. GC_free takes the address of that word. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_finalized_malloc(size_t size, const struct GC_finalizer_closure *closure) GC_ATTR_NONNULL(2);

#ifdef __cplusplus
}
#endif

#endif
