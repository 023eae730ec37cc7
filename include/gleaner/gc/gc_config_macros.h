/*
 * Compiler and platform macros of the GC_ headers, for gc/gc.h, which includes this file.
 *
 * Macros a program may define before it includes gc.h:
 *   GC_THREADS                 the program has threads: declares the pthread wrappers and redirects
 *                              pthread_create and its relations to them (gc_pthread_redirects.h).
 *   GC_NO_THREAD_REDIRECTS     declare the wrappers, redirect nothing.
 *   GC_USE_LD_WRAP             the same, for programs linked with --wrap.
 *   GC_NO_DLOPEN, GC_NO_PTHREAD_SIGMASK, GC_NO_PTHREAD_CANCEL
 *                              neither declare nor redirect that one call.
 *   GC_OOM_FUNC_RETURNS_ALIAS  the out-of-memory function may return an object that is in use, so
 *                              the compiler must not assume that allocation results are fresh.
 *   GC_BUILD                   set by the library's own sources, which check their arguments: no
 *                              attribute may then tell the compiler that they are valid.
 */
#ifndef GLEANER_GC_CONFIG_MACROS_H
#define GLEANER_GC_CONFIG_MACROS_H

#include <stddef.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "Gleaner's GC_ interface is for 64-bit Linux"
#endif

/* Older spellings of GC_THREADS that programs still use. */
#if !defined(GC_THREADS) && (defined(GC_LINUX_THREADS) || defined(LINUX_THREADS))
#define GC_THREADS
#endif

#ifdef GC_THREADS
#ifndef GC_LINUX_THREADS
#define GC_LINUX_THREADS
#endif
#ifndef GC_PTHREADS
#define GC_PTHREADS
#endif
#ifndef _REENTRANT
#define _REENTRANT 1
#endif
#endif

/* Public symbols stay visible in a library that is built with -fvisibility=hidden. */
#ifndef GC_API
#define GC_API extern __attribute__((__visibility__("default")))
#endif

/* Calling conventions: always the C one. They stand in declarations for source compatibility. */
#ifndef GC_CALL
#define GC_CALL
#endif
#ifndef GC_CALLBACK
#define GC_CALLBACK GC_CALL
#endif

#ifndef GC_ATTR_MALLOC
#ifdef GC_OOM_FUNC_RETURNS_ALIAS
#define GC_ATTR_MALLOC
#else
#define GC_ATTR_MALLOC __attribute__((__malloc__))
#endif
#endif

#ifndef GC_ATTR_ALLOC_SIZE
#define GC_ATTR_ALLOC_SIZE(argnum) __attribute__((__alloc_size__(argnum)))
#endif

#ifndef GC_ATTR_PRINTF
#define GC_ATTR_PRINTF __attribute__((__format__(__printf__, 1, 2)))
#endif

#ifndef GC_ATTR_NONNULL
#ifdef GC_BUILD
#define GC_ATTR_NONNULL(argnum)
#else
#define GC_ATTR_NONNULL(argnum) __attribute__((__nonnull__(argnum)))
#endif
#endif

#endif
