// The paths of files that options name, for what the library writes.
#pragma once

#include "platform/os/base.h"

namespace gleaner::runtime {

// Makes `given` absolute, with each %p replaced by the number of the process, each %r by its rank
// among the processes of an MPI run, or by "0" if it has none, and each %% by %. False, after a
// message that there is no `what`, if that does not fit, or there is no current folder.
bool ExpandOutputPath(const char* what, const char* given, char* out, size_t capacity);

// The name for attempt i of a file that other processes may write, too: `path`, then PATH.PROCESS,
// then PATH.PROCESS.1 and so on. False if it does not fit.
bool NameAttempt(const char* path, int i, char* out, size_t capacity);

}  // namespace gleaner::runtime
