// Memory figures of this process from the operating system, and access to whole files. Used by the
// tools alone, not by the library.
#pragma once

#include "platform/os/base.h"

namespace gleaner::tools {

// The figures of this moment. Reading them allocates nothing and takes a few microseconds. Any
// thread.
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

// Bytes of memory available without swapping, as the kernel estimates; UINT64_MAX if unknown.
uint64_t AvailableMemory();

// Reads a file into new memory, which platform Release frees; an empty file is null with *error 0.
// Null with *error set to errno if the file cannot be read.
const uint8_t* ReadWholeFile(const char* path, size_t* bytes, int* error);

// Writes the absolute form of a path to `buffer` of `bytes`; the file need not exist. Returns 0 or
// errno.
int AbsolutePath(const char* path, char* buffer, size_t bytes);

// Removes the file at `path`, if any, and checks that one can be created there. Returns 0 or errno;
// EISDIR or EINVAL if something other than a regular file is there.
int ClearPath(const char* path);

}  // namespace gleaner::tools
