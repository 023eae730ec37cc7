/* Calls for runtimes of languages with Java-like finalization and debuggers. */
#ifndef GC_JAVAXFC_H
#define GC_JAVAXFC_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs every registered finalizer, whether or not its object can still be reached, until none is
   left. It does not return if finalizers always register new ones. The notifier is not called.
   Meant for the end of a program, on a thread that holds no lock that a finalizer may take. */
GC_API void GC_CALL GC_finalize_all(void);

#ifdef GC_THREADS

/* For a gc.h that was included before GC_THREADS was defined. */
#ifndef GC_SUSPEND_THREAD_ID
#define GC_SUSPEND_THREAD_ID void*
#endif

/* Stops one registered thread until GC_resume_thread. The thread runs no code, and its stack stays
   a root. Calls are not counted: one resume ends any number of suspends. Returns once the thread
   has stopped (a thread in GC_do_blocking stops when it next becomes active). An unknown thread is
   ignored. */
GC_API void GC_CALL GC_suspend_thread(GC_SUSPEND_THREAD_ID thread);

/* Lets a thread that GC_suspend_thread stopped run on. A thread that was not stopped is ignored. */
GC_API void GC_CALL GC_resume_thread(GC_SUSPEND_THREAD_ID thread);

/* 1 while the thread is suspended, else 0; 0 for an unknown thread. */
GC_API int GC_CALL GC_is_thread_suspended(GC_SUSPEND_THREAD_ID thread);

#endif

#ifdef __cplusplus
}
#endif

#endif
