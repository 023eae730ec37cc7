// Facts about the process.
#pragma once

#include "platform/base.h"

namespace gleaner::platform {

// Whether the process runs with rights its caller does not have (set-user-ID and the like): the
// environment is not to be trusted then.
bool HasElevatedRights();

// Opens a file for appending; -1 if that fails.
int OpenLogFile(const char* path);
// Opens a file for reading; -1 if that fails.
int OpenForReading(const char* path);

}  // namespace gleaner::platform
