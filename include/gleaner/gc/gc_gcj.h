/*
 * Objects whose first word points to a type structure that holds, in its second word, the
 * descriptor of the type's objects (gc_mark.h). Named after the Java compiler it was made for.
 */
#ifndef GC_GCJ_H
#define GC_GCJ_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To be called before the functions below. `mp` is a GC_mark_proc that becomes procedure number
   `mp_index` (below GC_RESERVED_MARK_PROCS, say GC_GCJ_RESERVED_MARK_PROC_INDEX), for objects whose
   descriptor names it. It is also called, with environment 1, for objects with debugging
   information. Further calls do nothing. */
GC_API void GC_CALL GC_init_gcj_malloc(int mp_index, void *mp);

/* A zeroed object whose first word is `type`. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_gcj_malloc(size_t size, void *type);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_gcj_malloc(size_t size, void *type, GC_EXTRA_PARAMS);

/* GC_gcj_malloc with the promise of GC_malloc_ignore_off_page. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_gcj_malloc_ignore_off_page(size_t size, void *type);

/* Kinds of these objects, for GC_generic_malloc and the like; 0 before GC_init_gcj_malloc. */
GC_API int GC_gcj_kind;
GC_API int GC_gcj_debug_kind;

#ifdef GC_DEBUG
#define GC_GCJ_MALLOC(s, d) GC_debug_gcj_malloc(s, d, GC_EXTRAS)
#define GC_GCJ_MALLOC_IGNORE_OFF_PAGE(s, d) GC_debug_gcj_malloc(s, d, GC_EXTRAS)
#else
#define GC_GCJ_MALLOC(s, d) GC_gcj_malloc(s, d)
#define GC_GCJ_MALLOC_IGNORE_OFF_PAGE(s, d) GC_gcj_malloc_ignore_off_page(s, d)
#endif

#ifdef __cplusplus
}
#endif

#endif
