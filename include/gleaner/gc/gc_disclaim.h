/*
 * Disclaim procedures: a procedure of a kind is called for each of its unreachable objects before
 * they are reclaimed. Cheaper than finalizers, since objects are not registered one by one.
 */
#ifndef GC_DISCLAIM_H
#define GC_DISCLAIM_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called with the base of an unreachable object before it is reclaimed. Nonzero keeps the object
   until the next collection, which calls again. Runs after the collection, while other threads run,
   under the allocation lock: it must not allocate. Disappearing links to the object are cleared
   already. The memory may be zeroed: an object that the program had not filled in yet, or, with
   concurrent collections, an object that the program has given back. */
typedef int(GC_CALLBACK *GC_disclaim_proc)(void *obj);

/* Sets the procedure of a kind; NULL removes it. If `mark_from_all` is nonzero, the objects that
   unreachable objects of the kind refer to stay, too, until the procedure has run. An unknown kind
   is ignored, with a message. */
GC_API void GC_CALL GC_register_disclaim_proc(int kind, GC_disclaim_proc proc, int mark_from_all);

/* The call for an object of GC_finalized_malloc: proc(obj, cd). The closure must be aligned to
   words and last as long as the object; if it lies in the heap, the object keeps it. */
struct GC_finalizer_closure {
  void(GC_CALLBACK *proc)(void *obj, void *cd);
  void *cd;
};

/* To be called before GC_finalized_malloc. Further calls have no effect. */
GC_API void GC_CALL GC_init_finalized_malloc(void);

/* A zeroed object. When it has become unreachable, its closure is called once, under the rules of
   GC_disclaim_proc; the objects that it refers to still exist then. It is aligned to 8 bytes, not
   16, since a word of the collector lies before it. GC_free takes the address of that word. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_finalized_malloc(size_t size, const struct GC_finalizer_closure *closure) GC_ATTR_NONNULL(2);

#ifdef __cplusplus
}
#endif

#endif
