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
 *   GLEANER_INLINE_MALLOC      GC_MALLOC and GC_MALLOC_ATOMIC without a call (gc_bump.h).
 *   GC_BUILD                   set by the library's own sources, which check their arguments: no
 *                              attribute may then tell the compiler that they are valid.
 */
#ifndef GLEANER_GC_CONFIG_MACROS_H
#define GLEANER_GC_CONFIG_MACROS_H

#include <stddef.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "Gleaner's GC_ interface is for 64-bit Linux"
#endif

/* Older spellings that programs still use. */
#if !defined(GC_THREADS) && (defined(GC_LINUX_THREADS) || defined(LINUX_THREADS))
#define GC_THREADS
#endif
#if !defined(GC_USE_LD_WRAP) && defined(USE_LD_WRAP)
#define GC_USE_LD_WRAP
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

/* pthread_exit has a wrapper, pthread_create takes its attributes as const. */
#ifdef GC_PTHREADS
#ifndef GC_HAVE_PTHREAD_EXIT
#define GC_HAVE_PTHREAD_EXIT
#define GC_PTHREAD_EXIT_ATTRIBUTE __attribute__((__noreturn__))
#endif
#ifndef GC_PTHREAD_CREATE_CONST
#define GC_PTHREAD_CREATE_CONST const
#endif
#endif

/* Whether the compiler is at least this version of gcc, or says that it is compatible with it. */
#define GC_GNUC_PREREQ(major, minor) \
  ((__GNUC__ << 16) + __GNUC_MINOR__ >= ((major) << 16) + (minor))

/* Call stacks can be recorded, by backtrace() of <execinfo.h>. */
#if !defined(GC_HAVE_BUILTIN_BACKTRACE) && !defined(GC_MISSING_EXECINFO_H)
#define GC_HAVE_BUILTIN_BACKTRACE
#endif
#ifndef GC_CAN_SAVE_CALL_STACKS
#define GC_CAN_SAVE_CALL_STACKS
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

#ifndef GC_ATTR_CALLOC_SIZE
#define GC_ATTR_CALLOC_SIZE(count, size) __attribute__((__alloc_size__(count, size)))
#endif

#ifndef GC_ATTR_NONNULL
#ifdef GC_BUILD
#define GC_ATTR_NONNULL(argnum)
#else
#define GC_ATTR_NONNULL(argnum) __attribute__((__nonnull__(argnum)))
#endif
#endif

#ifndef GC_ATTR_CONST
#define GC_ATTR_CONST __attribute__((__const__))
#endif

#ifndef GC_ATTR_DEPRECATED
#ifdef GC_BUILD
#define GC_ATTR_DEPRECATED
#else
#define GC_ATTR_DEPRECATED __attribute__((__deprecated__))
#endif
#endif

#ifdef __cplusplus
/* For constructors of programs that want them explicit where that has its full meaning. */
#ifndef GC_ATTR_EXPLICIT
#if __cplusplus >= 201103L && !defined(__clang__)
#define GC_ATTR_EXPLICIT explicit
#else
#define GC_ATTR_EXPLICIT
#endif
#endif
#ifndef GC_NOEXCEPT
#if __cplusplus >= 201103L
#define GC_NOEXCEPT noexcept
#else
#define GC_NOEXCEPT throw()
#endif
#endif
#endif

#endif
