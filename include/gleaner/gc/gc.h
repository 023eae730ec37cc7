/*
 * The GC_ interface: a collected heap for C and C++ programs, compatible in source and in binary
 * with version 8.2.2 of libgc, the Boehm-Demers-Weiser collector. This file is Gleaner's own text.
 * It is one file, and long, because programs include all of the interface by this name.
 *
 * A minimal program:
 *
 *     #include <gc.h>
 *     int main(void) { GC_INIT(); char **v = (char **)GC_MALLOC(10 * sizeof *v); ... }
 *
 * What the collector sees. Roots are the stacks and registers of registered threads, thread-local
 * variables, the writable data of all loaded objects, ranges given to GC_add_roots, and
 * uncollectable objects. Any aligned word there that looks like a pointer to an object, its base or
 * (see GC_set_all_interior_pointers) its inside, keeps the object, and so do the words of a kept
 * object unless it is pointer-free ("atomic"). Objects never move.
 *
 * Conventions of the descriptions below. Sizes are bytes. Unless something else is said, a call
 *   - is allowed on every registered thread at any time, and on the main thread before GC_init;
 *   - takes the allocation lock if it needs it, so it must not be made by a thread that holds the
 *     lock (in GC_call_with_alloc_lock, GC_alloc_lock, or a callback that runs "under the lock");
 *   - is safe against concurrent calls on other threads.
 * "Plain" marks getters and setters of one word that take no lock: allowed anywhere, under the lock
 * too, and a concurrent setter means that one of the values is seen.
 *
 * Define GC_THREADS before the inclusion if the program has threads; see gc_config_macros.h for
 * this and the other macros that may be set.
 */
#ifndef GC_H
#define GC_H

#include "gc_config_macros.h"
#include "gc_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An unsigned integer of pointer size, and the signed one. */
typedef unsigned long GC_word;
typedef long GC_signed_word;

/* void * under an old name. */
typedef void *GC_PTR;

/* Results of the calls that return a status. */
#define GC_SUCCESS 0       /* done */
#define GC_DUPLICATE 1     /* was registered already */
#define GC_NO_THREADS 2    /* for old sources; never returned */
#define GC_NO_MEMORY 2     /* no memory for the registration */
#define GC_UNIMPLEMENTED 3 /* not possible on this system */
#define GC_NOT_FOUND 4     /* nothing is registered there */

/* ---- Version, start and end ---- */

/* The libgc version that the library stands for: major << 16 | minor << 8 | micro. Plain. */
GC_API unsigned GC_CALL GC_get_version(void);

/* Starts the collector. Programs write GC_INIT() instead. The first allocation does it too, and
   further calls do nothing. To be called on the main thread, before other threads use the heap. */
GC_API void GC_CALL GC_init(void);

/* Nonzero once GC_init has run or is running. Plain. */
GC_API int GC_CALL GC_is_init_called(void);

/* Ends the program's use of the collector. It releases nothing: the heap goes with the process.
   GC_is_init_called is 0 from here on. No other GC_ call may follow, except this one again. */
GC_API void GC_CALL GC_deinit(void);

/* ---- Allocation ---- */
/*
 * Results are aligned to 16 bytes. A request for 0 bytes gets an object of the smallest size. If
 * there is no memory even after a collection, or the size exceeds any address space, the result is
 * that of the out-of-memory function (GC_set_oom_fn), NULL by default. Any registered thread may
 * allocate, also in thread-specific-data destructors, and not inside a callback that runs under the
 * lock.
 */

/* An object of `size` zero bytes that may hold pointers. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc(size_t size);

/* An object that will never hold the only pointer to anything: it is not searched, nor zeroed. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_atomic(size_t size);

/* A zeroed object that lives until GC_free and keeps whatever it points to. Counts in
   GC_get_non_gc_bytes. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_uncollectable(size_t size);

/* A pointer-free object that lives until GC_free; not zeroed. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_atomic_uncollectable(size_t size);

/* GC_malloc and GC_malloc_atomic for large objects, with a promise: as long as the object is in
   use, some pointer to its first 256 bytes is kept. The collector may then disregard words that
   point further in. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_malloc_ignore_off_page(size_t size);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_malloc_atomic_ignore_off_page(size_t size);

/* GC_malloc under an old name. */
GC_API void *GC_CALL GC_malloc_stubborn(size_t size);

/* No effect: the old announcement of writes to a stubborn object. */
GC_API void GC_CALL GC_change_stubborn(const void *object);

/* Announces that pointers were stored anywhere into the object. They must be reachable in another
   way, too, during the call. Needed only where the collector follows writes by such calls
   (GC_set_manual_vdb_allowed); cheap and harmless otherwise. */
GC_API void GC_CALL GC_end_stubborn_change(const void *object) GC_ATTR_NONNULL(1);

/* *slot = value, the announcement GC_end_stubborn_change(slot), and GC_reachable_here(value). */
GC_API void GC_CALL GC_ptr_store_and_dirty(void *slot, const void *value);

/* A zeroed object at a multiple of `align`, which must be a power of two. A larger alignment than
   the collector can give (at least 4096 is possible) counts as out of memory. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(2) void *GC_CALL GC_memalign(size_t align, size_t size);

/* posix_memalign: 0 and the object in *result, or EINVAL if `align` is no power of two or no
   multiple of sizeof(void *), with *result unchanged, or ENOMEM, with NULL in *result (or what the
   out-of-memory function returned, and then 0). */
GC_API int GC_CALL GC_posix_memalign(void **result, size_t align, size_t size) GC_ATTR_NONNULL(1);

/* A zeroed object at an OS page boundary. Not in libgc 8.2.2; its later versions have it. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_valloc(size_t size);

/* GC_valloc with the size rounded up to a multiple of the OS page size. As new as GC_valloc. */
GC_API GC_ATTR_MALLOC void *GC_CALL GC_pvalloc(size_t size);

/* Changes the size of an object of any sort; the result is of the same sort. The contents are kept
   up to the smaller of both sizes, and what a pointer-bearing object gains is zero. If the object
   cannot stay where it is, the old one is freed. A NULL object: GC_malloc(size). Size 0: GC_free,
   and the result is NULL. Without memory: the out-of-memory function's result, with the old object
   intact. An object shrunk to less than half moves, so that the rest can be used. One that moves
   keeps its finalizer and the disappearing links in it; links to it are cleared. */
GC_API void *GC_CALL GC_realloc(void *object, size_t size) GC_ATTR_ALLOC_SIZE(2);

/* Gives an object back at once. `object` is NULL (nothing happens) or the base of an object that is
   not used any more. Its finalizer is not called any more, links in it are forgotten, and links to
   it are cleared. Never needed, except for uncollectable objects. May run a collection and
   finalizers, as an allocation may. */
GC_API void GC_CALL GC_free(void *object);

/* Copies of strings into pointer-free objects. GC_strndup copies at most `max` characters and adds
   the final zero. NULL: a copy of NULL is NULL for GC_strdup. Without memory NULL, and errno
   ENOMEM. */
GC_API GC_ATTR_MALLOC char *GC_CALL GC_strdup(const char *text);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_strndup(const char *text, size_t max) GC_ATTR_NONNULL(1);
#if defined(GC_REQUIRE_WCSDUP) || defined(GC_BUILD)
/* GC_strdup for wide strings; `text` is not NULL. */
GC_API GC_ATTR_MALLOC wchar_t *GC_CALL GC_wcsdup(const wchar_t *text) GC_ATTR_NONNULL(1);
#endif

/* Takes a whole list of objects of `size` zero bytes, linked through their first words, which is
   cheaper than one by one. NULL if there is no memory. */
GC_API GC_ATTR_MALLOC void *GC_CALL GC_malloc_many(size_t size);
/* The object after `object` in a list of GC_malloc_many: an lvalue. */
#define GC_NEXT(object) (*(void **)(object))

/* ---- Allocation with checks ---- */
/*
 * A program compiled with GC_DEBUG defined, which uses the macros below instead of the functions,
 * gets objects that know where they were allocated and that are watched for writes before their
 * start and behind their end. The functions can be called directly too.
 *
 * Such an object lies GC_get_debug_header_size() bytes behind the object that GC_base finds, and is
 * given back with GC_debug_free and resized with GC_debug_realloc. The calls that take the base of
 * an object (links, GC_size, ...) take GC_base(object).
 *
 * The marks around an object are looked at when it is freed or resized, and at each collection for
 * all objects. A damaged object is reported to stderr, with the place of its allocation, once; a
 * report of GC_debug_free or GC_debug_realloc names the call. An object that is freed has its words
 * overwritten with 0xEFBEADDEDEADBEEF, and its memory is not used again before a collection finds
 * that nothing refers to it; so a second GC_debug_free is noticed. Uncollectable objects are given
 * back at once, and so are all while leaks are looked for (GC_set_find_leak).
 */

/* The place of an allocation, as arguments and as parameters. The string is kept, not copied. */
#define GC_EXTRAS __FILE__, __LINE__
#define GC_EXTRA_PARAMS const char *s, int i

GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc(size_t size, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_atomic(size_t size, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_uncollectable(size_t size, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_atomic_uncollectable(size_t size, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_ignore_off_page(size_t size, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL
    GC_debug_malloc_atomic_ignore_off_page(size_t size, GC_EXTRA_PARAMS);
GC_API void *GC_CALL GC_debug_malloc_stubborn(size_t size, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_debug_strdup(const char *text, GC_EXTRA_PARAMS);
GC_API GC_ATTR_MALLOC char *GC_CALL GC_debug_strndup(const char *text, size_t max, GC_EXTRA_PARAMS)
    GC_ATTR_NONNULL(1);
#if defined(GC_REQUIRE_WCSDUP) || defined(GC_BUILD)
GC_API GC_ATTR_MALLOC wchar_t *GC_CALL GC_debug_wcsdup(const wchar_t *text, GC_EXTRA_PARAMS)
    GC_ATTR_NONNULL(1);
#endif

/* GC_realloc for an object of the checking calls above; the result is one too, with the new place.
   Any other object is handled as by GC_realloc, after a message. */
GC_API void *GC_CALL GC_debug_realloc(void *object, size_t size, GC_EXTRA_PARAMS)
    GC_ATTR_ALLOC_SIZE(2);
/* GC_free for an object of the checking calls. A second free is reported and has no effect. */
GC_API void GC_CALL GC_debug_free(void *object);

/* GC_debug_malloc and GC_debug_realloc with the caller's code address instead of a file and a
   line, and the parameters of malloc and realloc. */
GC_API GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) void *GC_CALL GC_debug_malloc_replacement(size_t size);
GC_API GC_ATTR_ALLOC_SIZE(2) void *GC_CALL GC_debug_realloc_replacement(void *object, size_t size);

/* GC_change_stubborn, GC_end_stubborn_change and GC_ptr_store_and_dirty; the last one checks its
   arguments with GC_is_visible and GC_is_valid_displacement. */
GC_API void GC_CALL GC_debug_change_stubborn(const void *object);
GC_API void GC_CALL GC_debug_end_stubborn_change(const void *object) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_ptr_store_and_dirty(void *slot, const void *value);

/* GC_register_displacement for objects with and without checks. */
GC_API void GC_CALL GC_debug_register_displacement(size_t offset);

#if defined(GC_DEBUG_REPLACEMENT)
#define GC_MALLOC(size) GC_debug_malloc_replacement(size)
#define GC_REALLOC(object, size) GC_debug_realloc_replacement(object, size)
#elif defined(GC_DEBUG)
#define GC_MALLOC(size) GC_debug_malloc(size, GC_EXTRAS)
#define GC_REALLOC(object, size) GC_debug_realloc(object, size, GC_EXTRAS)
#else
#ifdef GLEANER_INLINE_MALLOC
#define GC_MALLOC(size) gleaner_malloc(size)
#else
#define GC_MALLOC(size) GC_malloc(size)
#endif
#define GC_REALLOC(object, size) GC_realloc(object, size)
#endif

#ifdef GC_DEBUG
#define GC_MALLOC_ATOMIC(size) GC_debug_malloc_atomic(size, GC_EXTRAS)
#define GC_MALLOC_UNCOLLECTABLE(size) GC_debug_malloc_uncollectable(size, GC_EXTRAS)
#define GC_MALLOC_ATOMIC_UNCOLLECTABLE(size) GC_debug_malloc_atomic_uncollectable(size, GC_EXTRAS)
#define GC_MALLOC_IGNORE_OFF_PAGE(size) GC_debug_malloc_ignore_off_page(size, GC_EXTRAS)
#define GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(size) \
  GC_debug_malloc_atomic_ignore_off_page(size, GC_EXTRAS)
#define GC_CHANGE_STUBBORN(object) GC_debug_change_stubborn(object)
#define GC_END_STUBBORN_CHANGE(object) GC_debug_end_stubborn_change(object)
#define GC_FREE(object) GC_debug_free(object)
#define GC_STRDUP(text) GC_debug_strdup(text, GC_EXTRAS)
#define GC_STRNDUP(text, max) GC_debug_strndup(text, max, GC_EXTRAS)
#ifdef GC_REQUIRE_WCSDUP
#define GC_WCSDUP(text) GC_debug_wcsdup(text, GC_EXTRAS)
#endif
#else
#ifdef GLEANER_INLINE_MALLOC
#define GC_MALLOC_ATOMIC(size) gleaner_malloc_atomic(size)
#else
#define GC_MALLOC_ATOMIC(size) GC_malloc_atomic(size)
#endif
#define GC_MALLOC_UNCOLLECTABLE(size) GC_malloc_uncollectable(size)
#define GC_MALLOC_ATOMIC_UNCOLLECTABLE(size) GC_malloc_atomic_uncollectable(size)
#define GC_MALLOC_IGNORE_OFF_PAGE(size) GC_malloc_ignore_off_page(size)
#define GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(size) GC_malloc_atomic_ignore_off_page(size)
#define GC_CHANGE_STUBBORN(object) GC_change_stubborn(object)
#define GC_END_STUBBORN_CHANGE(object) GC_end_stubborn_change(object)
#define GC_FREE(object) GC_free(object)
#define GC_STRDUP(text) GC_strdup(text)
#define GC_STRNDUP(text, max) GC_strndup(text, max)
#ifdef GC_REQUIRE_WCSDUP
#define GC_WCSDUP(text) GC_wcsdup(text)
#endif
#endif
#define GC_MALLOC_STUBBORN(size) GC_MALLOC(size)

/* One object of a type. `type` is a type name to which a * can be appended. */
#define GC_NEW(type) ((type *)GC_MALLOC(sizeof(type)))
#define GC_NEW_ATOMIC(type) ((type *)GC_MALLOC_ATOMIC(sizeof(type)))
#define GC_NEW_UNCOLLECTABLE(type) ((type *)GC_MALLOC_UNCOLLECTABLE(sizeof(type)))
#define GC_NEW_STUBBORN(type) GC_NEW(type)

/* ---- Questions about pointers ---- */

/* The address where the object begins that `pointer` points into, or NULL if it points into none.
   The last byte of an object still belongs to it. An object that was freed may or may not be found.
 */
GC_API void *GC_CALL GC_base(void *pointer);

/* Nonzero if `pointer` points into the collected heap, to used or free memory. Takes no lock. */
GC_API int GC_CALL GC_is_heap_ptr(const void *pointer);

/* The size in bytes of the object that begins at `object`: what was asked for, or somewhat more. */
GC_API size_t GC_CALL GC_size(const void *object) GC_ATTR_NONNULL(1);

/* The size of the object that a request of `i` bytes gets, for i from 0 to 2047; (size_t)-1 for a
   negative i or a far larger one. After GC_init. Takes no lock. */
GC_API size_t GC_CALL GC_get_size_map_at(int i);

/* Allows pointers to `offset` bytes behind an object's base, from heap objects and static data,
   while all_interior_pointers is 0. Best called before anything else; offsets once allowed stay. */
GC_API void GC_CALL GC_register_displacement(size_t offset);
#ifdef GC_DEBUG
#define GC_REGISTER_DISPLACEMENT(offset) GC_debug_register_displacement(offset)
#else
#define GC_REGISTER_DISPLACEMENT(offset) GC_register_displacement(offset)
#endif

/* Checks for programs that verify their pointer arithmetic. Each returns its (first) argument. When
   the check fails it calls the function in the variable of the same name with _print_proc after it;
   unless replaced, that function prints the pointers and aborts. A pointer outside the heap fails
   no check. */
/* `p` and `q` point into the same object. */
GC_API void *GC_CALL GC_same_obj(void *p, void *q);
/* `p` is a pointer that would keep its object: its base, or an allowed displacement. */
GC_API void *GC_CALL GC_is_valid_displacement(void *p);
/* `p` is an address where the collector would see a stored pointer: on a stack, in a root or in an
   object that is searched. */
GC_API void *GC_CALL GC_is_visible(void *p);
/* *p += bytes and *p += bytes with the old value as result; before and after must satisfy
   GC_same_obj. */
GC_API void *GC_CALL GC_pre_incr(void **p, ptrdiff_t bytes) GC_ATTR_NONNULL(1);
GC_API void *GC_CALL GC_post_incr(void **p, ptrdiff_t bytes) GC_ATTR_NONNULL(1);

GC_API void(GC_CALLBACK *GC_same_obj_print_proc)(void *p, void *q);
GC_API void(GC_CALLBACK *GC_is_valid_displacement_print_proc)(void *p);
GC_API void(GC_CALLBACK *GC_is_visible_print_proc)(void *p);

/* Pointer arithmetic and stores, checked by the functions above if GC_DEBUG is defined. x is a
   pointer lvalue and may be evaluated more than once; n counts elements. The names that end in 3
   take the type of the result. */
#if defined(GC_DEBUG) && defined(__GNUC__)
#define GC_PTR_ADD3(x, n, type) ((type)GC_same_obj((x) + (n), (x)))
#define GC_PRE_INCR3(x, n, type) ((type)GC_pre_incr((void **)&(x), (n) * (ptrdiff_t)sizeof(*(x))))
#define GC_POST_INCR3(x, n, type) ((type)GC_post_incr((void **)&(x), (n) * (ptrdiff_t)sizeof(*(x))))
#define GC_PTR_ADD(x, n) GC_PTR_ADD3(x, n, __typeof__(x))
#define GC_PRE_INCR(x, n) GC_PRE_INCR3(x, n, __typeof__(x))
#define GC_POST_INCR(x) GC_POST_INCR3(x, 1, __typeof__(x))
#define GC_POST_DECR(x) GC_POST_INCR3(x, -1, __typeof__(x))
#else
#define GC_PTR_ADD(x, n) ((x) + (n))
#define GC_PRE_INCR(x, n) ((x) += (n))
#define GC_POST_INCR(x) ((x)++)
#define GC_POST_DECR(x) ((x)--)
#endif
#ifdef GC_DEBUG
#define GC_PTR_STORE(slot, value) \
  (*(void **)GC_is_visible((void *)(slot)) = GC_is_valid_displacement((void *)(value)))
#define GC_PTR_STORE_AND_DIRTY(slot, value) GC_debug_ptr_store_and_dirty(slot, value)
#else
#define GC_PTR_STORE(slot, value) (*(void **)(slot) = (void *)(value))
#define GC_PTR_STORE_AND_DIRTY(slot, value) GC_ptr_store_and_dirty(slot, value)
#endif

/* Converts a pointer to a form that the collector does not recognise, and back. If links or
   finalizers watch the object, convert back only under the lock (GC_call_with_alloc_lock). */
typedef GC_word GC_hidden_pointer;
#define GC_HIDE_POINTER(p) (~(GC_hidden_pointer)(p))
#define GC_REVEAL_POINTER(hidden) ((void *)GC_HIDE_POINTER(hidden))
#if defined(GC_I_HIDE_POINTERS) || defined(I_HIDE_POINTERS)
#define HIDE_POINTER(p) GC_HIDE_POINTER(p)
#define REVEAL_POINTER(hidden) GC_REVEAL_POINTER(hidden)
#endif

/* Uses its argument as far as the compiler knows; has no effect. */
GC_API void GC_CALL GC_noop1(GC_word value);

/* The pointer counts as used up to this point of the program, so that its object is not finalized
   earlier. */
#define GC_reachable_here(ptr) __asm__ __volatile__("" : : "X"(ptr) : "memory")

/* Overwrites some of the unused part of the stack, where stale pointers may lie; returns `arg`. */
GC_API void *GC_CALL GC_clear_stack(void *arg);

/* ---- Collections ---- */

/* Collects the whole heap now, unless collections are disabled. Finalizers that become due run
   before it returns, unless finalize_on_demand is set. */
GC_API void GC_CALL GC_gcollect(void);

/* GC_gcollect that the default stop function cannot stop, and that returns as much free memory to
   the system as possible. */
GC_API void GC_CALL GC_gcollect_and_unmap(void);

/* Called now and then during a collection; nonzero gives the collection up. Runs under the lock,
   with threads possibly stopped, and may not touch the heap. */
typedef int(GC_CALLBACK *GC_stop_func)(void);

/* Collects, unless `stop` gives the collection up. Returns 1 if it was completed, and 0 if it was
   given up (as if it had not begun) or collections are disabled. */
GC_API int GC_CALL GC_try_to_collect(GC_stop_func stop) GC_ATTR_NONNULL(1);

/* The stop function of GC_gcollect and of collections that allocation starts; by default one that
   never stops. Not NULL. */
GC_API void GC_CALL GC_set_stop_func(GC_stop_func stop) GC_ATTR_NONNULL(1);
GC_API GC_stop_func GC_CALL GC_get_stop_func(void);

/* Does a small part of the collection's work, for a program that is idle. Nonzero if there is more
   to do. Where collections are not incremental, does a whole one if it is due, and returns 0. */
GC_API int GC_CALL GC_collect_a_little(void);

/* Turns on collections in small steps, if the system can track writes; if it cannot, a line on
   standard error says why. GC_is_incremental_mode tells the result. */
GC_API void GC_CALL GC_enable_incremental(void);
/* Nonzero if collections are done in steps. Plain. */
GC_API int GC_CALL GC_is_incremental_mode(void);
/* Begins a collection in steps, in incremental mode; GC_collect_a_little carries it on. */
GC_API void GC_CALL GC_start_incremental_collection(void);

/* Which memory collections in steps may protect against writing, so that system calls that write
   there fail: a sum of the values below. Before GC_enable_incremental: the value that it would have
   if that were called now. Starts the collector. */
#define GC_PROTECTS_NONE 0         /* none */
#define GC_PROTECTS_POINTER_HEAP 1 /* objects that may hold pointers */
#define GC_PROTECTS_PTRFREE_HEAP 2 /* pointer-free objects */
#define GC_PROTECTS_STATIC_DATA 4  /* static data */
#define GC_PROTECTS_STACK 8        /* stacks */
GC_API int GC_CALL GC_incremental_protection_needs(void);

/* Nonzero: the program announces all its stores of pointers into objects (GC_END_STUBBORN_CHANGE,
   GC_PTR_STORE_AND_DIRTY, or the barrier of gleaner.h), and concurrent collections rely on that: an
   object with a reference that was not announced may be lost. To be set before
   GC_enable_incremental, and before GC_init if the environment asks for such collections. Plain. */
GC_API void GC_CALL GC_set_manual_vdb_allowed(int on);
GC_API int GC_CALL GC_get_manual_vdb_allowed(void);

/* Mechanisms that track the program's writes, by the names of libgc since 8.4. */
#define GC_VDB_NONE 0x0U     /* there are no collections in steps */
#define GC_VDB_MPROTECT 0x1U /* write protection and SIGSEGV */
#define GC_VDB_MANUAL 0x2U   /* GC_set_manual_vdb_allowed(1) */
#define GC_VDB_SOFT 0x40U    /* noted by the kernel: soft-dirty bits, or userfaultfd */
/* The sum of the mechanisms that work here. Takes a fraction of a millisecond. */
GC_API unsigned GC_CALL GC_get_supported_vdbs(void);
/* The mechanism in use; GC_VDB_NONE until collections in steps are enabled. */
GC_API unsigned GC_CALL GC_get_actual_vdb(void);

/* Disables all collections, also those by GC_gcollect, until GC_enable was called as often. */
GC_API void GC_CALL GC_disable(void);
GC_API void GC_CALL GC_enable(void);
/* Nonzero while disabled. Plain. */
GC_API int GC_CALL GC_is_disabled(void);

/* Nonzero: allocation does not start collections by itself; it grows the heap until that fails. */
GC_API void GC_CALL GC_set_disable_automatic_collection(int on);
GC_API int GC_CALL GC_get_disable_automatic_collection(void);

/* Gets `bytes` more for the heap from the system. 1, or 0 if impossible or over the limit. */
GC_API int GC_CALL GC_expand_hp(size_t bytes);

/* Keeps the heap at or below `bytes`; 0, the default, is no limit. Allocations that would need more
   count as out of memory. Plain. */
GC_API void GC_CALL GC_set_max_heap_size(GC_word bytes);

/* ---- Figures ---- */

/* The number of collections so far. Plain. */
GC_API GC_word GC_CALL GC_get_gc_no(void);

/* Plain getters in bytes. Use GC_get_prof_stats for figures that are consistent with each other. */
/* The heap: used and free blocks, without what was returned to the system and without tables. */
GC_API size_t GC_CALL GC_get_heap_size(void);
/* Free bytes of the heap, for large and small objects (a lower bound). */
GC_API size_t GC_CALL GC_get_free_bytes(void);
/* Returned to the system, with the addresses kept. */
GC_API size_t GC_CALL GC_get_unmapped_bytes(void);
/* Allocated since the last collection. */
GC_API size_t GC_CALL GC_get_bytes_since_gc(void);
/* Given to GC_free since the last collection. */
GC_API size_t GC_CALL GC_get_expl_freed_bytes_since_gc(void);
/* Allocated since the start; wraps around at the end of the word. */
GC_API size_t GC_CALL GC_get_total_bytes(void);
/* Obtained from the system for all purposes since the start; never falls. */
GC_API size_t GC_CALL GC_get_obtained_from_os_bytes(void);

/* Five of the figures, taken together under the lock. Any of the addresses may be NULL. */
GC_API void GC_CALL GC_get_heap_usage_safe(GC_word *heap_size, GC_word *free_bytes,
                                           GC_word *unmapped_bytes, GC_word *bytes_since_gc,
                                           GC_word *total_bytes);

/* Bytes in blocks that hold objects, counted under the lock. */
GC_API size_t GC_CALL GC_get_memory_use(void);

/* Figures in bytes, except the two counts. Later versions add at the end. */
struct GC_prof_stats_s {
  GC_word heapsize_full;             /* heap, with the returned part */
  GC_word free_bytes_full;           /* free, with the returned part */
  GC_word unmapped_bytes;            /* returned to the system */
  GC_word bytes_allocd_since_gc;     /* allocated since the last collection */
  GC_word allocd_bytes_before_gc;    /* allocated from the start to that collection */
  GC_word non_gc_bytes;              /* GC_get_non_gc_bytes() */
  GC_word gc_no;                     /* count of collections */
  GC_word markers_m1;                /* count of marking threads, minus one */
  GC_word bytes_reclaimed_since_gc;  /* found free by the last collection, so far */
  GC_word reclaimed_bytes_before_gc; /* found free by all collections before it */
  GC_word expl_freed_bytes_since_gc; /* given to GC_free since the last collection */
  GC_word obtained_from_os_bytes;    /* obtained from the system in all */
};

/* Fills the first `size` bytes of *stats under the lock. Bytes that this library has no figure for
   are set to 0xff. Returns how many bytes it has filled with figures. */
GC_API size_t GC_CALL GC_get_prof_stats(struct GC_prof_stats_s *stats, size_t size);
/* GC_get_prof_stats for a caller that holds the lock. */
GC_API size_t GC_CALL GC_get_prof_stats_unsafe(struct GC_prof_stats_s *stats, size_t size);

/* Begins to add up the time of collections, and the milliseconds since then; wraps. Plain. */
GC_API void GC_CALL GC_start_performance_measurement(void);
GC_API unsigned long GC_CALL GC_get_full_gc_total_time(void);

/* ---- Roots ---- */
/* Ranges run from `low` to just before `high`, and need not be aligned: words on aligned addresses
   that lie wholly inside count. low <= high. */

/* Adds a range that each collection searches from now on. Ranges may overlap. */
GC_API void GC_CALL GC_add_roots(void *low, void *high);

/* Undoes the part of GC_add_roots that lies in the range. Data of the program and of loaded objects
   that was not added that way stays. */
GC_API void GC_CALL GC_remove_roots(void *low, void *high);

/* Forgets all ranges, static data of the program included. With GC_no_dls set nothing comes back
   unless it is added; otherwise the data of loaded objects is found again. */
GC_API void GC_CALL GC_clear_roots(void);

/* Excludes this range of static data from the search. An excluded range may not partly overlap
   another. */
GC_API void GC_CALL GC_exclude_static_roots(void *low, void *high);
/* Forgets all excluded ranges. */
GC_API void GC_CALL GC_clear_exclusion_table(void);

/* Nonzero if the address is in a root that goes away by itself: the data of a loaded object. */
GC_API int GC_CALL GC_is_tmp_root(void *address);

/* Called for each writable segment of a loaded object: nonzero to search it. Under the lock,
   possibly with threads stopped. */
typedef int(GC_CALLBACK *GC_has_static_roots_func)(const char *file_name, void *start,
                                                   size_t bytes);
/* Replaces that function; NULL, the default, searches all. */
GC_API void GC_CALL GC_register_has_static_roots_callback(GC_has_static_roots_func filter);

/* Nonzero: the data of loaded objects is no root. To be set before GC_init. Plain. */
GC_API void GC_CALL GC_set_no_dls(int on);
GC_API int GC_CALL GC_get_no_dls(void);

/* Called in each collection, threads stopped and under the lock, to contribute further roots. The
   default contributes none; a replacement should call the one it replaced. */
typedef void(GC_CALLBACK *GC_push_other_roots_proc)(void);
GC_API void GC_CALL GC_set_push_other_roots(GC_push_other_roots_proc proc);
GC_API GC_push_other_roots_proc GC_CALL GC_get_push_other_roots(void);

/* ---- Threads ---- */
/*
 * A thread that allocates or holds pointers into the heap must be registered. The main thread is,
 * and so is every thread made by pthread_create in a source with GC_THREADS, which is then
 * GC_pthread_create. A thread made by other means registers itself:
 *
 *     struct GC_stack_base base;
 *     GC_get_stack_base(&base);
 *     GC_register_my_thread(&base);
 *     ...
 *     GC_unregister_my_thread();
 */

/* The cold end of a stack: the end where the outermost frame is. */
struct GC_stack_base {
  void *mem_base;
};

typedef void *(GC_CALLBACK *GC_fn_type)(void *data);
typedef void *(GC_CALLBACK *GC_stack_base_func)(struct GC_stack_base *base, void *data);

/* Calls fn(base, data) with a base at or just above the callee's frame; returns its result. Needs
   no registration. */
GC_API void *GC_CALL GC_call_with_stack_base(GC_stack_base_func fn, void *data) GC_ATTR_NONNULL(1);

/* Stores the calling thread's stack base as the system knows it. GC_SUCCESS or GC_UNIMPLEMENTED.
   Needs no registration. */
GC_API int GC_CALL GC_get_stack_base(struct GC_stack_base *base) GC_ATTR_NONNULL(1);

/* Announces that threads will register by themselves. Called on a registered thread after GC_init;
   GC_pthread_create includes it. */
GC_API void GC_CALL GC_allow_register_threads(void);

/* Registers the calling thread: GC_SUCCESS, or GC_DUPLICATE if it was registered. A thread that got
   GC_SUCCESS must unregister before it ends. */
GC_API int GC_CALL GC_register_my_thread(const struct GC_stack_base *base) GC_ATTR_NONNULL(1);

/* Undoes GC_register_my_thread; from here on the thread's stack is no root. GC_SUCCESS. */
GC_API int GC_CALL GC_unregister_my_thread(void);

/* Nonzero if the calling thread is registered. Needs no registration. */
GC_API int GC_CALL GC_thread_is_registered(void);

/* Names the calling thread's normal stack and its signal stack (lowest address, size each), so that
   the right one is searched while a handler runs on the other. */
GC_API void GC_CALL GC_register_altstack(void *stack, GC_word stack_size, void *altstack,
                                         GC_word altstack_size);

/* The base that the collector uses for the calling thread. Returns the thread's handle. */
GC_API void *GC_CALL GC_get_my_stackbottom(struct GC_stack_base *base) GC_ATTR_NONNULL(1);

/* Changes the base, for a program that switches stacks: `thread` is a handle, or NULL for the
   calling thread. pre: the lock is held. Before GC_init the call is for the main thread, and needs
   no lock. */
GC_API void GC_CALL GC_set_stackbottom(void *thread, const struct GC_stack_base *base)
    GC_ATTR_NONNULL(2);

/* Called under the lock before a thread's stack is searched; the thread is stopped or is the
   caller. The arguments are the address of the thread's stack pointer and its pthread_t. For a
   thread that runs on a stack of the program's own, the procedure may set the stack pointer to the
   part of the thread's own stack in use; memory above the original stack pointer is searched as
   well. Stopped threads may hold any lock of the program or the C library, so the procedure must
   take none and must not allocate. NULL, the default: nothing is called. Plain. Not in libgc 8.2.2;
   its later versions have it. */
typedef void(GC_CALLBACK *GC_sp_corrector_proc)(void **stack_pointer, void *thread);
GC_API void GC_CALL GC_set_sp_corrector(GC_sp_corrector_proc proc);
GC_API GC_sp_corrector_proc GC_CALL GC_get_sp_corrector(void);

/* Runs fn(data) and returns its result. Meanwhile the calling thread counts as inactive:
   collections do not wait for it or stop it, and of its stack they search only the frames above
   this call. fn may not touch the heap, except in GC_call_with_gc_active. Needs GC_init and
   registration. */
GC_API void *GC_CALL GC_do_blocking(GC_fn_type fn, void *data) GC_ATTR_NONNULL(1);

/* Runs fn(data) as a normal, active part inside GC_do_blocking. Outside of one, the thread's stack
   is searched at least up to this call's frame. Both nest to any depth. */
GC_API void *GC_CALL GC_call_with_gc_active(GC_fn_type fn, void *data) GC_ATTR_NONNULL(1);

/* Runs fn(data) under the lock and returns its result: nothing is collected and no link is cleared
   meanwhile. The lock is not recursive, and fn may not allocate. */
GC_API void *GC_CALL GC_call_with_alloc_lock(GC_fn_type fn, void *data) GC_ATTR_NONNULL(1);
/* GC_call_with_alloc_lock: there is no lock for readers only. `release` has no effect. Not in libgc
   8.2.2; its later versions have it. */
GC_API void *GC_CALL GC_call_with_reader_lock(GC_fn_type fn, void *data, int release)
    GC_ATTR_NONNULL(1);
/* GC_call_with_alloc_lock in two halves. The thread that locked unlocks. */
GC_API void GC_CALL GC_alloc_lock(void);
GC_API void GC_CALL GC_alloc_unlock(void);

/* Stops all other registered threads, and lets them go again. The lock is held in between. */
GC_API void GC_CALL GC_stop_world_external(void);
GC_API void GC_CALL GC_start_world_external(void);

/* Sets how fork() is handled. The library's fork handlers keep the heap usable in the child, where
   only the calling thread remains: with 0 too, since the collector has threads of its own. 1: a
   message if there is no memory for the handlers. To be set before GC_init. */
GC_API void GC_CALL GC_set_handle_fork(int mode);
/* To be called before fork(), and after it in the parent and in the child, if the library has no
   fork handlers. No effect if it has. */
GC_API void GC_CALL GC_atfork_prepare(void);
GC_API void GC_CALL GC_atfork_parent(void);
GC_API void GC_CALL GC_atfork_child(void);

/* The signals that stop and resume a thread. To be set before GC_init; later calls have no
   effect. */
GC_API void GC_CALL GC_set_suspend_signal(int signal_number);
GC_API int GC_CALL GC_get_suspend_signal(void);
GC_API void GC_CALL GC_set_thr_restart_signal(int signal_number);
GC_API int GC_CALL GC_get_thr_restart_signal(void);

/* How many threads are to mark, the collecting one included; 0 lets the collector decide. Before
   GC_init. */
GC_API void GC_CALL GC_set_markers_count(unsigned markers);
/* Starts the marking threads now, for instance in a forked child. */
GC_API void GC_CALL GC_start_mark_threads(void);
/* The number of marking threads without the collecting one. Plain. */
GC_API int GC_CALL GC_get_parallel(void);

/* ---- Finalizers ---- */
/*
 * When an object cannot be reached any more, fn(object, data) is called once, and the registration
 * is over. The object stays for that call, and longer if the call stores its address. Each object
 * has at most one finalizer, of one of four orders, which differ in which other references count:
 *
 *   - (no suffix): an object waits while a finalizable object refers to it, directly or not: chains
 *     are finalized from the front, one object a collection, and a cycle never is;
 *   - ignore_self: as without suffix, but references of the object to itself do not count;
 *   - no_order: no reference from finalizable objects counts: all that became unreachable are
 *     finalized together;
 *   - unreachable: an object waits while any object still to be finalized, no_order ones included,
 *     refers to it.
 *
 * `object` is the base of an object; otherwise nothing is registered, and the old values are 0. fn
 * NULL removes the finalizer. Memory that `data` points to is kept until the call. The old function
 * and data are stored in *old_fn and *old_data unless these are NULL; if there is no memory for the
 * new entry, nothing is stored.
 */
typedef void(GC_CALLBACK *GC_finalization_proc)(void *object, void *data);

GC_API void GC_CALL GC_register_finalizer(void *object, GC_finalization_proc fn, void *data,
                                          GC_finalization_proc *old_fn, void **old_data)
    GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_register_finalizer_ignore_self(void *object, GC_finalization_proc fn,
                                                      void *data, GC_finalization_proc *old_fn,
                                                      void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_register_finalizer_no_order(void *object, GC_finalization_proc fn,
                                                   void *data, GC_finalization_proc *old_fn,
                                                   void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_register_finalizer_unreachable(void *object, GC_finalization_proc fn,
                                                      void *data, GC_finalization_proc *old_fn,
                                                      void **old_data) GC_ATTR_NONNULL(1);

/* The four calls for objects with checks (GC_DEBUG): `object`, and the first argument of fn, is the
   address that the program knows. */
GC_API void GC_CALL GC_debug_register_finalizer(void *object, GC_finalization_proc fn, void *data,
                                                GC_finalization_proc *old_fn, void **old_data)
    GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer_ignore_self(void *object, GC_finalization_proc fn,
                                                            void *data,
                                                            GC_finalization_proc *old_fn,
                                                            void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer_no_order(void *object, GC_finalization_proc fn,
                                                         void *data, GC_finalization_proc *old_fn,
                                                         void **old_data) GC_ATTR_NONNULL(1);
GC_API void GC_CALL GC_debug_register_finalizer_unreachable(void *object, GC_finalization_proc fn,
                                                            void *data,
                                                            GC_finalization_proc *old_fn,
                                                            void **old_data) GC_ATTR_NONNULL(1);

#ifdef GC_DEBUG
#define GC_REGISTER_FINALIZER(object, fn, data, old_fn, old_data) \
  GC_debug_register_finalizer(object, fn, data, old_fn, old_data)
#define GC_REGISTER_FINALIZER_IGNORE_SELF(object, fn, data, old_fn, old_data) \
  GC_debug_register_finalizer_ignore_self(object, fn, data, old_fn, old_data)
#define GC_REGISTER_FINALIZER_NO_ORDER(object, fn, data, old_fn, old_data) \
  GC_debug_register_finalizer_no_order(object, fn, data, old_fn, old_data)
#define GC_REGISTER_FINALIZER_UNREACHABLE(object, fn, data, old_fn, old_data) \
  GC_debug_register_finalizer_unreachable(object, fn, data, old_fn, old_data)
#else
#define GC_REGISTER_FINALIZER(object, fn, data, old_fn, old_data) \
  GC_register_finalizer(object, fn, data, old_fn, old_data)
#define GC_REGISTER_FINALIZER_IGNORE_SELF(object, fn, data, old_fn, old_data) \
  GC_register_finalizer_ignore_self(object, fn, data, old_fn, old_data)
#define GC_REGISTER_FINALIZER_NO_ORDER(object, fn, data, old_fn, old_data) \
  GC_register_finalizer_no_order(object, fn, data, old_fn, old_data)
#define GC_REGISTER_FINALIZER_UNREACHABLE(object, fn, data, old_fn, old_data) \
  GC_register_finalizer_unreachable(object, fn, data, old_fn, old_data)
#endif

/* Nonzero if finalizers are due. Plain. */
GC_API int GC_CALL GC_should_invoke_finalizers(void);

/* Calls the finalizers that are due, on the calling thread and without the lock, and returns how
   many. Allocation does this by itself now and then unless finalize_on_demand is set. */
GC_API int GC_CALL GC_invoke_finalizers(void);

/* Nonzero: finalizers run only in GC_invoke_finalizers. Plain. */
GC_API void GC_CALL GC_set_finalize_on_demand(int on);
GC_API int GC_CALL GC_get_finalize_on_demand(void);

/* Called without the lock, at most once a collection, when finalizers have become due and
   finalize_on_demand is set. NULL: nothing is called. */
typedef void(GC_CALLBACK *GC_finalizer_notifier_proc)(void);
GC_API void GC_CALL GC_set_finalizer_notifier(GC_finalizer_notifier_proc notifier);
GC_API GC_finalizer_notifier_proc GC_CALL GC_get_finalizer_notifier(void);

/* Called under the lock for each object whose finalizer becomes due. NULL: nothing is called. */
typedef void(GC_CALLBACK *GC_await_finalize_proc)(void *object);
GC_API void GC_CALL GC_set_await_finalize_proc(GC_await_finalize_proc proc);
GC_API GC_await_finalize_proc GC_CALL GC_get_await_finalize_proc(void);

/* Stored, and has no effect here: finalizable objects' references are always marked in a pass of
   their own, as in libgc with 1, the default. Plain. */
GC_API void GC_CALL GC_set_java_finalization(int on);
GC_API int GC_CALL GC_get_java_finalization(void);

/* While collections find finalizers due, each registration of a finalizer counts as this many
   allocated bytes in the decision when to collect. Default 10000; 0: it does not count. Plain. */
GC_API void GC_CALL GC_set_allocd_bytes_per_finalizer(GC_word bytes);
GC_API GC_word GC_CALL GC_get_allocd_bytes_per_finalizer(void);

/* ---- Disappearing links ---- */
/*
 * A link is a word that the collector sets to 0 when its object goes. It does not keep the object
 * by itself, but the pointer in it does if it lies where the collector looks. So the pointer is
 * hidden (GC_HIDE_POINTER) or lies in a pointer-free object. The link is aligned to the
 * pointer size. Registrations inside objects end with these objects.
 *
 * Short links are cleared when the object is first found unreachable, before finalizers are decided
 * on; long links when it is not even reachable from finalizers, so it can never come back.
 */

/* A short link in the object itself: cleared when the object that contains the link goes.
   GC_SUCCESS, GC_DUPLICATE or GC_NO_MEMORY. */
GC_API int GC_CALL GC_register_disappearing_link(void **link) GC_ATTR_NONNULL(1);

/* A short link anywhere, cleared when `object` (a base) goes. GC_SUCCESS; GC_DUPLICATE if the link
   was registered before; it is now registered for `object`; GC_NO_MEMORY. */
GC_API int GC_CALL GC_general_register_disappearing_link(void **link, const void *object)
    GC_ATTR_NONNULL(1) GC_ATTR_NONNULL(2);

/* Moves the registration of a link to the word at `new_link`; neither word changes. GC_SUCCESS,
   also if both are the same registered link; GC_DUPLICATE if new_link is registered; GC_NOT_FOUND
   if link is not. */
GC_API int GC_CALL GC_move_disappearing_link(void **link, void **new_link) GC_ATTR_NONNULL(2);

/* 1 if the link was registered, and now is not; else 0. */
GC_API int GC_CALL GC_unregister_disappearing_link(void **link);

/* The three calls for long links, which have a table of their own. */
GC_API int GC_CALL GC_register_long_link(void **link, const void *object) GC_ATTR_NONNULL(1)
    GC_ATTR_NONNULL(2);
GC_API int GC_CALL GC_move_long_link(void **link, void **new_link) GC_ATTR_NONNULL(2);
GC_API int GC_CALL GC_unregister_long_link(void **link);

#ifdef GC_DEBUG
#define GC_GENERAL_REGISTER_DISAPPEARING_LINK(link, object) \
  GC_general_register_disappearing_link(link, GC_base((void *)(object)))
#define GC_REGISTER_LONG_LINK(link, object) GC_register_long_link(link, GC_base((void *)(object)))
#else
#define GC_GENERAL_REGISTER_DISAPPEARING_LINK(link, object) \
  GC_general_register_disappearing_link(link, object)
#define GC_REGISTER_LONG_LINK(link, object) GC_register_long_link(link, object)
#endif

/* ---- Toggle references ---- */
/*
 * For a library whose objects are paired with objects that something else owns, which counts
 * references: while others hold the partner, the object must be kept; otherwise it goes with the
 * last reference from the heap. The collector holds a registered object strongly or weakly; a
 * function of the program decides that at each collection.
 */
typedef enum {
  GC_TOGGLE_REF_DROP,   /* the registration ends */
  GC_TOGGLE_REF_STRONG, /* keep the object */
  GC_TOGGLE_REF_WEAK    /* do not keep the object */
} GC_ToggleRefStatus;

/* Called at each collection for each registered object, under the lock, threads not stopped. */
typedef GC_ToggleRefStatus(GC_CALLBACK *GC_toggleref_func)(void *object);
/* NULL, the default: nothing is called, and objects stay what they are. */
GC_API void GC_CALL GC_set_toggleref_func(GC_toggleref_func fn);
GC_API GC_toggleref_func GC_CALL GC_get_toggleref_func(void);

/* Registers an object, strongly (nonzero) or weakly at first. GC_SUCCESS, also if nothing is done
   because there is no function; GC_NO_MEMORY. */
GC_API int GC_CALL GC_toggleref_add(void *object, int is_strong) GC_ATTR_NONNULL(1);

/* ---- Failures, messages and events ---- */

/* Called without the lock with the size of an allocation that failed. Its result, NULL or an
   object, is the allocation's; or it does not return. The default returns NULL. Not NULL itself. */
typedef void *(GC_CALLBACK *GC_oom_func)(size_t bytes);
GC_API void GC_CALL GC_set_oom_fn(GC_oom_func fn) GC_ATTR_NONNULL(1);
GC_API GC_oom_func GC_CALL GC_get_oom_fn(void);

/* Ends the process with a message: for allocations that cannot be allowed to fail. */
GC_API void GC_CALL GC_abort_on_oom(void);

/* Called with warnings: a printf format with at most one conversion, and its argument. The default
   prints to stderr. Possibly under the lock. Not NULL. */
typedef void(GC_CALLBACK *GC_warn_proc)(char *format, GC_word argument);
GC_API void GC_CALL GC_set_warn_proc(GC_warn_proc proc) GC_ATTR_NONNULL(1);
GC_API GC_warn_proc GC_CALL GC_get_warn_proc(void);
/* The warn function that prints nothing. */
GC_API void GC_CALLBACK GC_ignore_warn_proc(char *format, GC_word argument);

/* Called before the library ends the process, with the reason, or with NULL before a plain exit.
   The default prints the reason to stderr. Not NULL. */
typedef void(GC_CALLBACK *GC_abort_func)(const char *reason);
GC_API void GC_CALL GC_set_abort_func(GC_abort_func fn) GC_ATTR_NONNULL(1);
GC_API GC_abort_func GC_CALL GC_get_abort_func(void);

/* Where messages other than warnings go, instead of stderr. */
GC_API void GC_CALL GC_set_log_fd(int fd);

/* Prints to stdout, to stderr, and to where messages go (GC_set_log_fd), at most 1023 bytes a call.
   Allocates nothing. GC_log_printf may be called under the lock and with threads stopped. */
GC_API void GC_printf(const char *format, ...) GC_ATTR_PRINTF;
GC_API void GC_err_printf(const char *format, ...) GC_ATTR_PRINTF;
GC_API void GC_log_printf(const char *format, ...) GC_ATTR_PRINTF;

/* Descriptions of the collector's state for people, to stdout; their form may change. GC_dump
   takes the lock and prints all of it under the number of the last collection. GC_dump_named uses
   `name` unless it is NULL. GC_dump_regions prints every region of pages, and GC_dump_finalization
   registered links and finalizers. pre for these three: the caller holds the lock, or no other
   thread runs. */
GC_API void GC_CALL GC_dump(void);
GC_API void GC_CALL GC_dump_named(const char *name);
GC_API void GC_CALL GC_dump_regions(void);
GC_API void GC_CALL GC_dump_finalization(void);

/* Called under the lock: by GC_expand_hp, with the size in bytes that the heap may now grow to, and
   at the end of a collection, with the heap's size, if that has changed. NULL: nothing is
   called. */
typedef void(GC_CALLBACK *GC_on_heap_resize_proc)(GC_word new_bytes);
GC_API void GC_CALL GC_set_on_heap_resize(GC_on_heap_resize_proc proc);
GC_API GC_on_heap_resize_proc GC_CALL GC_get_on_heap_resize(void);

/* The stages of a collection that stops all threads: START PRE_STOP_WORLD POST_STOP_WORLD
   MARK_START MARK_END PRE_START_WORLD POST_START_WORLD END, in this order, and RECLAIM_START
   RECLAIM_END anywhere between MARK_END and END. */
typedef enum {
  GC_EVENT_START,
  GC_EVENT_MARK_START,
  GC_EVENT_MARK_END,
  GC_EVENT_RECLAIM_START,
  GC_EVENT_RECLAIM_END,
  GC_EVENT_END,
  GC_EVENT_PRE_STOP_WORLD,
  GC_EVENT_POST_STOP_WORLD,
  GC_EVENT_PRE_START_WORLD,
  GC_EVENT_POST_START_WORLD,
  GC_EVENT_THREAD_SUSPENDED, /* these two only for thread events */
  GC_EVENT_THREAD_UNSUSPENDED
} GC_EventType;

/* Called at each stage, under the lock, possibly with threads stopped. NULL: nothing is called. */
typedef void(GC_CALLBACK *GC_on_collection_event_proc)(GC_EventType event);
GC_API void GC_CALL GC_set_on_collection_event(GC_on_collection_event_proc proc);
GC_API GC_on_collection_event_proc GC_CALL GC_get_on_collection_event(void);

/* Called under the lock for each thread that is stopped or resumed; `thread` is its pthread_t.
   NULL: nothing is called. */
typedef void(GC_CALLBACK *GC_on_thread_event_proc)(GC_EventType event, void *thread);
GC_API void GC_CALL GC_set_on_thread_event(GC_on_thread_event_proc proc);
GC_API GC_on_thread_event_proc GC_CALL GC_get_on_thread_event(void);

/* Called under the lock as a collection of the whole heap begins, before threads are stopped. NULL:
   nothing is called. */
typedef void(GC_CALLBACK *GC_start_callback_proc)(void);
GC_API void GC_CALL GC_set_start_callback(GC_start_callback_proc proc);
GC_API GC_start_callback_proc GC_CALL GC_get_start_callback(void);

/* ---- Settings ---- */
/* Plain. A setting takes effect at the next decision that it concerns, unless noted otherwise. */

/* Nonzero (the default): a pointer to any byte of an object, or just past its end, keeps it. 0:
   from heap objects and static data only pointers to its base and to registered displacements do;
   from stacks and registers all. Before GC_init. */
GC_API void GC_CALL GC_set_all_interior_pointers(int on);
GC_API int GC_CALL GC_get_all_interior_pointers(void);

/* libgc: nonzero: grow the heap only if collecting does not help. No effect here. */
GC_API void GC_CALL GC_set_dont_expand(int on);
GC_API int GC_CALL GC_get_dont_expand(void);

/* libgc: nonzero: no collection as part of GC_init. No effect here: GC_init never collects. */
GC_API void GC_CALL GC_set_dont_precollect(int on);
GC_API int GC_CALL GC_get_dont_precollect(void);

/* Between two collections about (bytes that a collection looks at) / divisor bytes are allocated. A
   larger divisor means a smaller heap and more collections. At least 1, default 3. */
GC_API void GC_CALL GC_set_free_space_divisor(GC_word divisor);
GC_API GC_word GC_CALL GC_get_free_space_divisor(void);

/* How many minor collections are made between two of the whole heap, in generational mode. */
GC_API void GC_CALL GC_set_full_freq(int count);
GC_API int GC_CALL GC_get_full_freq(void);

/* How long the final stop of an incremental collection should take, as far as the collector can
   tell before it: milliseconds, or milliseconds and nanoseconds (below one million).
   GC_TIME_UNLIMITED, the default: as the collector sees fit, about 2 ms. Takes effect at the
   next collection. */
#define GC_TIME_UNLIMITED 999999
struct GC_timeval_s {
  unsigned long tv_ms;   /* milliseconds */
  unsigned long tv_nsec; /* nanoseconds more, 0 to 999999 */
};
GC_API void GC_CALL GC_set_time_limit(unsigned long milliseconds);
GC_API unsigned long GC_CALL GC_get_time_limit(void);
GC_API void GC_CALL GC_set_time_limit_tv(struct GC_timeval_s limit);
GC_API struct GC_timeval_s GC_CALL GC_get_time_limit_tv(void);

/* libgc: how many more collections to try before an allocation fails. No effect here. Default 0. */
GC_API void GC_CALL GC_set_max_retries(GC_word count);
GC_API GC_word GC_CALL GC_get_max_retries(void);

/* libgc: how often an incremental collection may give up its final stop. No effect here. */
GC_API void GC_CALL GC_set_max_prior_attempts(int count);
GC_API int GC_CALL GC_get_max_prior_attempts(void);

/* The smallest number of bytes allocated between two collections; not 0, default 1. */
GC_API void GC_CALL GC_set_min_bytes_allocd(size_t bytes);
GC_API size_t GC_CALL GC_get_min_bytes_allocd(void);

/* How much work incremental collections do for each byte allocated, in tenths of the default, which
   is 10: with 20, twice as much. Not 0. Takes effect at the next collection. */
GC_API void GC_CALL GC_set_rate(int rate);
GC_API int GC_CALL GC_get_rate(void);

/* Nonzero: GC_gcollect returns free memory to the system as GC_gcollect_and_unmap does. */
GC_API void GC_CALL GC_set_force_unmap_on_gcollect(int on);
GC_API int GC_CALL GC_get_force_unmap_on_gcollect(void);

/* Nonzero: objects may hold code that is executed. Before GC_init. */
GC_API void GC_CALL GC_set_pages_executable(int on);
GC_API int GC_CALL GC_get_pages_executable(void);

/* Bytes in objects that a collection cannot free; uncollectable objects add themselves. The figure
   is counted only: it does not enter the decision when to collect. */
GC_API void GC_CALL GC_set_non_gc_bytes(GC_word bytes);
GC_API GC_word GC_CALL GC_get_non_gc_bytes(void);

/* Nonzero: objects that become unreachable without GC_free are reported to stderr by the collection
   that finds them, with the place of their allocation if they were allocated with checks
   (GC_DEBUG), and then given back. There is a last collection at the program's end. Finalizers
   and links are not registered meanwhile: the calls do nothing, and those that return a status
   return GC_UNIMPLEMENTED. Before GC_init, or as the first action after it. */
GC_API void GC_CALL GC_set_find_leak(int on);
GC_API int GC_CALL GC_get_find_leak(void);

/* For a program that hands out memory of its objects by itself: counts bytes as allocated or as
   given to GC_free since the last collection. pre: the lock is held. */
GC_API void GC_CALL GC_incr_bytes_allocd(size_t bytes);
GC_API void GC_CALL GC_incr_bytes_freed(size_t bytes);

/* ---- Variables ---- */
/* The settings themselves, for programs that write them directly. The collector reads them each
   time it needs them. Functions above with the same name describe them. */

GC_API int GC_all_interior_pointers;
GC_API int GC_dont_expand;
GC_API int GC_dont_precollect;
GC_API int GC_finalize_on_demand;
GC_API int GC_find_leak;
GC_API int GC_full_freq;
GC_API int GC_java_finalization;
GC_API int GC_no_dls;
GC_API int GC_parallel; /* to be read only */
GC_API unsigned long GC_time_limit;
GC_API GC_word GC_free_space_divisor;
GC_API GC_word GC_gc_no; /* to be read only */
GC_API GC_word GC_max_retries;
GC_API GC_word GC_non_gc_bytes;
GC_API GC_oom_func GC_oom_fn;
GC_API GC_on_heap_resize_proc GC_on_heap_resize;
GC_API GC_finalizer_notifier_proc GC_finalizer_notifier;
GC_API GC_push_other_roots_proc GC_push_other_roots;
GC_API GC_abort_func GC_on_abort; /* the function of GC_set_abort_func */

/* Number of GC_disable calls without a matching GC_enable. */
GC_API int GC_dont_gc;

/* libgc: nonzero: use up the whole heap before collecting. No effect here. */
GC_API int GC_use_entire_heap;

/* The cold end of the main thread's stack. A program that switches stacks by itself may set it. */
GC_API char *GC_stackbottom;

/* No object lies below the first or above the second address. To be read only. */
GC_API void *GC_least_plausible_heap_addr;
GC_API void *GC_greatest_plausible_heap_addr;

/* ---- GC_INIT ---- */
/*
 * Applies settings given as macros at compilation, and starts the collector. To be used in main()
 * of the program. The macros, each optional, and the function or variable each stands for:
 *
 *   - without a value: GC_DONT_EXPAND, GC_FORCE_UNMAP_ON_GCOLLECT, GC_DONT_GC, GC_IGNORE_WARN;
 *   - with a value: GC_MAX_RETRIES, GC_ALLOCD_BYTES_PER_FINALIZER, GC_FREE_SPACE_DIVISOR,
 *     GC_FULL_FREQ, GC_TIME_LIMIT, GC_MAXIMUM_HEAP_SIZE, GC_MARKERS, GC_SIG_SUSPEND,
 *     GC_SIG_THR_RESTART;
 *   - GC_INITIAL_HEAP_SIZE, in bytes: the heap is expanded to this size after the start.
 */
#define GC_INIT()            \
  {                          \
    GC_INIT_CONF_EXPAND_     \
    GC_INIT_CONF_UNMAP_      \
    GC_INIT_CONF_RETRIES_    \
    GC_INIT_CONF_FINALIZERS_ \
    GC_INIT_CONF_DIVISOR_    \
    GC_INIT_CONF_FREQ_       \
    GC_INIT_CONF_TIME_       \
    GC_INIT_CONF_MARKERS_    \
    GC_INIT_CONF_SUSPEND_    \
    GC_INIT_CONF_RESTART_    \
    GC_INIT_CONF_LIMIT_      \
    GC_init();               \
    GC_INIT_CONF_WARN_       \
    GC_INIT_CONF_SIZE_       \
  }

#ifdef GC_DONT_EXPAND
#define GC_INIT_CONF_EXPAND_ GC_set_dont_expand(1);
#else
#define GC_INIT_CONF_EXPAND_
#endif
#ifdef GC_FORCE_UNMAP_ON_GCOLLECT
#define GC_INIT_CONF_UNMAP_ GC_set_force_unmap_on_gcollect(1);
#else
#define GC_INIT_CONF_UNMAP_
#endif
#if defined(GC_DONT_GC)
#define GC_INIT_CONF_RETRIES_ GC_dont_gc = 1;
#elif defined(GC_MAX_RETRIES)
#define GC_INIT_CONF_RETRIES_ GC_set_max_retries(GC_MAX_RETRIES);
#else
#define GC_INIT_CONF_RETRIES_
#endif
#ifdef GC_ALLOCD_BYTES_PER_FINALIZER
#define GC_INIT_CONF_FINALIZERS_ GC_set_allocd_bytes_per_finalizer(GC_ALLOCD_BYTES_PER_FINALIZER);
#else
#define GC_INIT_CONF_FINALIZERS_
#endif
#ifdef GC_FREE_SPACE_DIVISOR
#define GC_INIT_CONF_DIVISOR_ GC_set_free_space_divisor(GC_FREE_SPACE_DIVISOR);
#else
#define GC_INIT_CONF_DIVISOR_
#endif
#ifdef GC_FULL_FREQ
#define GC_INIT_CONF_FREQ_ GC_set_full_freq(GC_FULL_FREQ);
#else
#define GC_INIT_CONF_FREQ_
#endif
#ifdef GC_TIME_LIMIT
#define GC_INIT_CONF_TIME_ GC_set_time_limit(GC_TIME_LIMIT);
#else
#define GC_INIT_CONF_TIME_
#endif
#ifdef GC_MARKERS
#define GC_INIT_CONF_MARKERS_ GC_set_markers_count(GC_MARKERS);
#else
#define GC_INIT_CONF_MARKERS_
#endif
#ifdef GC_SIG_SUSPEND
#define GC_INIT_CONF_SUSPEND_ GC_set_suspend_signal(GC_SIG_SUSPEND);
#else
#define GC_INIT_CONF_SUSPEND_
#endif
#ifdef GC_SIG_THR_RESTART
#define GC_INIT_CONF_RESTART_ GC_set_thr_restart_signal(GC_SIG_THR_RESTART);
#else
#define GC_INIT_CONF_RESTART_
#endif
#ifdef GC_MAXIMUM_HEAP_SIZE
#define GC_INIT_CONF_LIMIT_ GC_set_max_heap_size(GC_MAXIMUM_HEAP_SIZE);
#else
#define GC_INIT_CONF_LIMIT_
#endif
#ifdef GC_IGNORE_WARN
#define GC_INIT_CONF_WARN_ GC_set_warn_proc(GC_ignore_warn_proc);
#else
#define GC_INIT_CONF_WARN_
#endif
#ifdef GC_INITIAL_HEAP_SIZE
#define GC_INIT_CONF_SIZE_                                 \
  if (GC_get_heap_size() < (size_t)(GC_INITIAL_HEAP_SIZE)) \
    (void)GC_expand_hp((size_t)(GC_INITIAL_HEAP_SIZE)-GC_get_heap_size());
#else
#define GC_INIT_CONF_SIZE_
#endif

#ifdef __cplusplus
}
#endif

/* The pthread wrappers, and pthread_create and its relations redirected to them. */
#ifdef GC_PTHREADS
#include "gc_pthread_redirects.h"
#endif

#ifdef GLEANER_INLINE_MALLOC
#include "gc_bump.h"
#endif

#endif /* GC_H */
