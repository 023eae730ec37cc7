// What the operating system says of this process's memory, and reading a whole file. Of the tools
// alone: not part of the library.
#pragma once

#include "platform/base.h"

namespace gleaner::tools {

// Of the moment. Without allocation; a few microseconds. Any thread.
struct MemoryNow {
  uint64_t resident_bytes = 0;
  uint64_t address_space_bytes = 0;
};
MemoryNow ReadMemoryNow();

// Peaks since the start of the process, or since ResetPeakResident.
struct MemoryPeaks {
  uint64_t resident_bytes = 0;
  uint64_t address_space_bytes = 0;  // cannot be reset
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
};
MemoryPeaks ReadMemoryPeaks();
void ResetPeakResident();

// Memory that could be had without swapping, as the kernel estimates it; UINT64_MAX if unknown.
uint64_t AvailableMemory();

// The bytes of a file, in memory of their own that Release gives back; an empty file is null with
// *error 0. Null with *error set to errno if it cannot be read.
const uint8_t* ReadWholeFile(const char* path, size_t* bytes, int* error);

// The absolute form of a path for a file that need not exist, in `buffer` of `bytes`. 0 or errno.
int AbsolutePath(const char* path, char* buffer, size_t bytes);

// Makes way for a file at `path`: removes the one that is there, and sees that one can be created.
// 0; errno; EISDIR or EINVAL if what is there is no regular file.
int ClearPath(const char* path);

}  // namespace gleaner::tools
