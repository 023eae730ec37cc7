/*
 * Thread calls that the collector takes part in. gc/gc.h includes this file when GC_THREADS is
 * defined; without GC_THREADS it is empty.
 *
 * Each wrapper has the contract of the call it is named after, and adds what its comment says. The
 * second half makes the plain names mean the wrappers. To undo it in one file, #undef the name.
 *
 * GC_PTHREAD_REDIRECTS_ONLY (defined before the inclusion) leaves out the declarations: for a
 * second inclusion, after a system header that undoes the redirection.
 */
#ifndef GC_H
#include "gc.h"
#endif

#ifdef GC_PTHREADS

#if !defined(GC_PTHREAD_REDIRECTS_H) && !defined(GC_PTHREAD_REDIRECTS_ONLY)
#define GC_PTHREAD_REDIRECTS_H

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

/* The type that names a thread in GC_suspend_thread and related calls. */
#ifndef GC_SUSPEND_THREAD_ID
#define GC_SUSPEND_THREAD_ID pthread_t
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* pthread_create that registers the new thread before it returns: the thread's stack and
   thread-local variables are roots from its first instruction to its last thread-specific-data
   destructor. `arg` is kept alive until the thread has it. Returns an errno value. */
GC_API int GC_pthread_create(pthread_t *thread, GC_PTHREAD_CREATE_CONST pthread_attr_t *attr,
                             void *(*start)(void *), void *arg);

/* pthread_join. The thread's result stays reachable until the thread has been joined. */
GC_API int GC_pthread_join(pthread_t thread, void **result);

/* pthread_detach. The result of a detached thread is not kept. */
GC_API int GC_pthread_detach(pthread_t thread);

#ifndef GC_PTHREAD_EXIT_DECLARED
#define GC_PTHREAD_EXIT_DECLARED
/* pthread_exit. */
GC_API void GC_pthread_exit(void *result) GC_PTHREAD_EXIT_ATTRIBUTE;
#endif

#ifndef GC_NO_PTHREAD_CANCEL
/* pthread_cancel. */
GC_API int GC_pthread_cancel(pthread_t thread);
#endif

/* Strict ISO C has no sigset_t: <signal.h> declares it where POSIX is asked for. */
#if !defined(GC_NO_PTHREAD_SIGMASK) &&                                                   \
    (defined(_GNU_SOURCE) || (defined(_POSIX_C_SOURCE) && _POSIX_C_SOURCE >= 199506L) || \
     (defined(_XOPEN_SOURCE) && _XOPEN_SOURCE >= 500))
/* pthread_sigmask, except that SIG_BLOCK and SIG_SETMASK never block the suspend signal: a
   registered thread that blocks it would hold up every collection. */
GC_API int GC_pthread_sigmask(int how, const sigset_t *set, sigset_t *old_set);
#endif

#ifndef GC_NO_DLOPEN
/* dlopen with collections held off meanwhile, so that constructors of the opened object may
   allocate before its data is known as a root. */
GC_API void *GC_dlopen(const char *path, int mode);
#endif

#ifdef __cplusplus
}
#endif

#endif /* declarations */

#if !defined(GC_NO_THREAD_REDIRECTS) && !defined(GC_USE_LD_WRAP)

#undef pthread_create
#undef pthread_join
#undef pthread_detach
#undef pthread_exit
#define pthread_create GC_pthread_create
#define pthread_join GC_pthread_join
#define pthread_detach GC_pthread_detach
#define pthread_exit GC_pthread_exit

#ifndef GC_NO_PTHREAD_CANCEL
#undef pthread_cancel
#define pthread_cancel GC_pthread_cancel
#endif

#ifndef GC_NO_PTHREAD_SIGMASK
#undef pthread_sigmask
#define pthread_sigmask GC_pthread_sigmask
#endif

#ifndef GC_NO_DLOPEN
#undef dlopen
#define dlopen GC_dlopen
#endif

#endif /* redirections */

#endif /* GC_PTHREADS */
