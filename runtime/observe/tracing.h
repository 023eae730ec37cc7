// GLEANER_TRACE: which file the collector's events go to, and when (docs/reference/statistics.md).
//
// Draining: one thread at a time, which holds g_draining. Nobody waits for it but the process's
// last drain.
#pragma once

#include "observe/trace.h"

namespace gleaner::runtime {

// Opens the file that the option names, and traces from now on. Complains if it cannot. Before the
// first thread registers.
void StartTracing();

// Writes what threads have emitted, if that is due, and emits the levels of the heap. At the end of
// a collection, and when a thread reports what it has allocated. Not with a lock of rank kThreads
// or above.
void ContinueTracing();

// In a forked child, by its only thread.
void ResetTracingAfterFork();

}  // namespace gleaner::runtime
