// Filters of system calls (seccomp). A filter may end the process for a call that its author did
// not think of. So once the program has installed one, the library makes no calls but those that
// every collector makes: it starts no thread, tracks no writes and opens no file on its own
// account. What the program asks for (options, API) is done all the same.
//
// A library that has not started yet starts before the filter, since its start makes calls of its
// own.
//
// The library replaces prctl and syscall (interposed_calls.h), so that a filter is noted before it
// is installed. One that is installed without the C library is not noticed.
//
// A filter may come for all threads at once (SECCOMP_FILTER_FLAG_TSYNC), while another thread is in
// a step: it has found no filter, and is about to make such a call. So steps have a lock, the
// collector's: it is taken before HasFilter is asked, and released after the call. The thread that
// installs a filter records it, and then waits until it has had that lock, too (AwaitSteps in
// runtime/collect/tracking.cc). A step that had the lock before is over then. One that has it later
// sees the record, which the lock publishes. So no step makes its call under the filter, except
// where the thread must not wait.
#pragma once

namespace gleaner::platform {

// The program is about to install a filter. Async-signal-safe, as is the next, once the library has
// started.
void RecordFilter();
// The system has refused the filter.
void ForgetFilter();
// Whether the program has installed a filter, in any thread, or is about to. A load.
bool HasFilter();
// Whether a filter was inherited by the process, or HasFilter. Costs a system call.
bool HasAnyFilter();

// From now on RecordFilter calls `start` before the program's first filter. It starts the library,
// or does nothing.
void SetStartBeforeFilters(void (*start)());

// From now on RecordFilter calls `await`, which returns when no step of another thread is under
// way. pre: OwnMemory has returned true (process.h).
void SetAwaitSteps(void (*await)());

}  // namespace gleaner::platform
