/*
 * The marking side of the GC_ interface: kinds of objects, descriptors that say where an object's
 * pointers are, mark procedures, and pushing roots. For language implementations.
 *
 * A descriptor is a word with a tag in its two lowest bits:
 *   GC_DS_LENGTH      the value is a length in bytes: the object's words up to there
 *   GC_DS_BITMAP      the highest bit stands for the first word, the next for the second, and so on
 *   GC_DS_PROC        a mark procedure is called: GC_MAKE_PROC(procedure, environment)
 *   GC_DS_PER_OBJECT  the value is the offset in the object at which its descriptor stands; or, if
 *                     it is negative, in what the object's first word points to: for offset n the
 *                     value is -n - GC_INDIR_PER_OBJ_BIAS
 */
#ifndef GC_MARK_H
#define GC_MARK_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Mark procedures ---- */

/* The mark stack, seen from a mark procedure: opaque. */
struct GC_ms_entry;

/* Looks at the object at `addr` and hands its pointers to GC_MARK_AND_PUSH, each time passing on
   the result of the last call; returns what it has in the end, `mark_stack_ptr` at first. `env` is
   the environment in the descriptor.
   Called with the world stopped, on several threads at once, and also for objects that are on a
   free list: zero but for the first word, or, if pointer-free, with any contents. It must neither
   allocate nor lock, and should take no longer than reading GC_PROC_BYTES bytes on average. */
typedef struct GC_ms_entry *(*GC_mark_proc)(GC_word *addr, struct GC_ms_entry *mark_stack_ptr,
                                            struct GC_ms_entry *mark_stack_limit, GC_word env);

#define GC_PROC_BYTES 100
#define GC_LOG_MAX_MARK_PROCS 6
#define GC_MAX_MARK_PROCS (1 << GC_LOG_MAX_MARK_PROCS)
/* GC_new_proc returns no numbers below this. */
#define GC_RESERVED_MARK_PROCS 8
#define GC_GCJ_RESERVED_MARK_PROC_INDEX 0

/* A number for a procedure, for GC_MAKE_PROC. If all numbers are taken, the program is
   ended with a message. GC_new_proc_inner: the caller holds the allocation lock. */
GC_API unsigned GC_CALL GC_new_proc(GC_mark_proc proc);
GC_API unsigned GC_CALL GC_new_proc_inner(GC_mark_proc proc);

/* Called by a mark procedure for each word that may be a pointer. A word that does not point into
   the heap is ignored. `src` is the address of the word. Returns the new mark stack pointer. */
GC_API struct GC_ms_entry *GC_CALL GC_mark_and_push(void *obj, struct GC_ms_entry *mark_stack_ptr,
                                                    struct GC_ms_entry *mark_stack_limit,
                                                    void **src);

/* Addresses between which all objects lie. The interval only grows. */
GC_API void *GC_least_plausible_heap_addr;
GC_API void *GC_greatest_plausible_heap_addr;

/* GC_mark_and_push without a call for words that cannot be pointers. */
#define GC_MARK_AND_PUSH(obj, msp, lim, src)                          \
  ((GC_word)(obj) >= (GC_word)GC_least_plausible_heap_addr &&         \
           (GC_word)(obj) <= (GC_word)GC_greatest_plausible_heap_addr \
       ? GC_mark_and_push(obj, msp, lim, src)                         \
       : (msp))

/* ---- Descriptors and kinds ---- */

#define GC_DS_TAG_BITS 2
#define GC_DS_TAGS ((1 << GC_DS_TAG_BITS) - 1)
#define GC_DS_LENGTH 0
#define GC_DS_BITMAP 1
#define GC_DS_PROC 2
#define GC_DS_PER_OBJECT 3
#define GC_INDIR_PER_OBJ_BIAS 0x10

#define GC_MAKE_PROC(proc_index, env)                                                           \
  ((((((GC_word)(env)) << GC_LOG_MAX_MARK_PROCS) | (unsigned)(proc_index)) << GC_DS_TAG_BITS) | \
   (GC_word)GC_DS_PROC)

/* For GC_new_kind: an array of free lists, by size. Here it is only a token. NULL: out of memory.
   _inner: the caller holds the allocation lock. */
GC_API void **GC_CALL GC_new_free_list(void);
GC_API void **GC_CALL GC_new_free_list_inner(void);

/* libgc's own arrays, of pointer-free, normal, uncollectable, and pointer-free uncollectable
   objects: here always empty. */
GC_API void **GC_aobjfreelist_ptr;
GC_API void **GC_objfreelist_ptr;
GC_API void **GC_uobjfreelist_ptr;
GC_API void **GC_auobjfreelist_ptr;

/* A new kind: `descr` describes its objects, plus the size of each if `add_size_to_descr`. Objects
   are zeroed, whether `clear_new_objects` is set or not. All kinds taken (16): the program is ended
   with a message. _inner: the caller holds the allocation lock. */
GC_API unsigned GC_CALL GC_new_kind(void **free_list, GC_word descr, int add_size_to_descr,
                                    int clear_new_objects) GC_ATTR_NONNULL(1);
GC_API unsigned GC_CALL GC_new_kind_inner(void **free_list, GC_word descr, int add_size_to_descr,
                                          int clear_new_objects) GC_ATTR_NONNULL(1);

/* An object of a kind. An unknown kind gets NULL and a message. GC_generic_malloc is for kinds
   whose objects are collected; GC_generic_malloc_uncollectable for GC_I_UNCOLLECTABLE ones;
   GC_generic_or_special_malloc for all. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_generic_malloc(size_t size, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_generic_malloc_ignore_off_page(size_t size, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_generic_malloc_uncollectable(size_t size, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_generic_or_special_malloc(size_t size, int kind);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_generic_or_special_malloc(size_t size, int kind, GC_EXTRA_PARAMS);

#ifdef GC_DEBUG
#define GC_GENERIC_OR_SPECIAL_MALLOC(sz, knd) GC_debug_generic_or_special_malloc(sz, knd, GC_EXTRAS)
#else
#define GC_GENERIC_OR_SPECIAL_MALLOC(sz, knd) GC_generic_or_special_malloc(sz, knd)
#endif

/* The kind of an object, given its base; its size in *psize unless that is NULL. */
GC_API int GC_CALL GC_get_kind_and_size(const void *base, size_t *psize) GC_ATTR_NONNULL(1);

/* How to describe an object of that kind in a message: writes at most GC_TYPE_DESCR_LEN + 1
   characters to `out_buf`. */
typedef void(GC_CALLBACK *GC_describe_type_fn)(void *p, char *out_buf);
#define GC_TYPE_DESCR_LEN 40
GC_API void GC_CALL GC_register_describe_type_fn(int kind, GC_describe_type_fn fn);

/* Bytes that the debugging allocator puts before an object. */
GC_API size_t GC_CALL GC_get_debug_header_size(void);
GC_API const size_t GC_debug_header_size;
#define GC_USR_PTR_FROM_BASE(p) ((void *)((char *)(p) + GC_get_debug_header_size()))

/* ---- While marking ---- */

/* Whether the object with this base counts as marked: outside collections, whether it was reachable
   at the last one or is newer. */
GC_API int GC_CALL GC_is_marked(const void *base) GC_ATTR_NONNULL(1);

/* From a root procedure (GC_set_push_other_roots): the object stays, or not, without its contents
   being looked at. Elsewhere no effect. */
GC_API void GC_CALL GC_set_mark_bit(const void *base) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_clear_mark_bit(const void *base) GC_ATTR_NONNULL(1);

/* From a root procedure or a mark procedure: the words from `bottom` up to `top` may be pointers.
   GC_push_all_eager takes pointers into the middle of objects for pointers in any case, as on
   stacks. GC_push_conditional pushes all, as GC_push_all: `all` only matters to collectors that
   know what was written since. Elsewhere no effect but a message. */
GC_API void GC_CALL GC_push_all(void *bottom, void *top);
GC_API void GC_CALL GC_push_all_eager(void *bottom, void *top);
GC_API void GC_CALL GC_push_conditional(void *bottom, void *top, int all);

/* Nothing: finalizer tables are roots of their own here. */
GC_API void GC_CALL GC_push_finalizer_structures(void);

/* Calls `fn` for each object that GC_is_marked, with its base and size. The caller holds the
   allocation lock, and should have called GC_gcollect before. The other threads are stopped
   meanwhile: `fn` must neither allocate nor wait for them. */
typedef void(GC_CALLBACK *GC_reachable_object_proc)(void *obj, size_t bytes, void *client_data);
GC_API void GC_CALL GC_enumerate_reachable_objects_inner(GC_reachable_object_proc fn,
                                                         void *client_data) GC_ATTR_NONNULL(1);

#ifdef __cplusplus
}
#endif

#endif
