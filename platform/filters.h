// Filters of system calls (seccomp). A filter may end the process for a call that its author did
// not think of. So once the program has installed one, the library makes no calls but those that
// every collector makes: it starts no thread, tracks no writes and opens no file on its own
// account. What the program asks for (options, API) is done all the same.
//
// The library replaces prctl and syscall, so that a filter is noted before it is installed. One
// that is installed without the C library is not noticed.
#pragma once

namespace gleaner::platform {

// The program is about to install a filter. Returns whether that was noted before.
// Async-signal-safe, as is the next.
bool NoteFilter();
// The system has refused the filter.
void ForgetFilter();
// Whether the program has installed a filter, in any thread. A load.
bool HasFilter();
// Whether a filter was inherited by the process, or the program has installed one. Costs a system
// call.
bool HasAnyFilter();

}  // namespace gleaner::platform
