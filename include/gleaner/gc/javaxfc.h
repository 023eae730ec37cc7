/* Calls for runtimes of languages with Java-like finalization and debuggers. */
#ifndef GC_JAVAXFC_H
#define GC_JAVAXFC_H

#include "gc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs every finalizer that is registered, whether or not its object can still be reached, until
   none is left; a finalizer that registers another one each time keeps it going for ever. The
   notifier is not called. Meant for the end of a program, on a thread that holds no lock a
   finalizer may want. */
GC_API void GC_CALL GC_finalize_all(void);

#ifdef GC_THREADS

/* For a gc.h that was included before GC_THREADS was defined. */
#ifndef GC_SUSPEND_THREAD_ID
#define GC_SUSPEND_THREAD_ID void*
#endif

/* Stops one registered thread until GC_resume_thread: it runs none of its code, but its stack stays
   a root. Not counted: one resume ends any number of suspends. Returns once the thread has stopped
   (a thread in GC_do_blocking stops when it next becomes active). An unknown thread is ignored. */
GC_API void GC_CALL GC_suspend_thread(GC_SUSPEND_THREAD_ID thread);

/* Lets a thread that GC_suspend_thread stopped run on. A thread that was not stopped is ignored. */
GC_API void GC_CALL GC_resume_thread(GC_SUSPEND_THREAD_ID thread);

/* 1 between suspend and resume of that thread, else 0; 0 for an unknown thread. */
GC_API int GC_CALL GC_is_thread_suspended(GC_SUSPEND_THREAD_ID thread);

#endif

#ifdef __cplusplus
}
#endif

#endif
