// Facts about the process.
#pragma once

#include "platform/base.h"

namespace gleaner::platform {

// Whether the process runs with rights its caller does not have (set-user-ID and the like): the
// environment is not to be trusted then.
bool HasElevatedRights();

// Whose memory the calling process runs in. A forked child has a copy of its parent's; a child of
// vfork runs in its parent's own, beside the parent's other threads. Known from OwnMemory on, which
// the first process and each forked child calls; async-signal-safe but for that.
//
// False if the system cannot tell a copy (MADV_WIPEONFORK, Linux 4.14).
[[nodiscard]] bool OwnMemory();
// It is a copy, and OwnMemory has not been called since it was made.
bool MemoryIsCopy();
// It is another process's. Costs a system call.
bool MemoryIsAnothers();

// Opens a file for appending; -1 if that fails.
int OpenLogFile(const char* path);
// Opens a file for reading; -1 if that fails.
int OpenForReading(const char* path);

// Reads a file that has at most `capacity` bytes; false, with errno, if that fails, and with errno
// 0 if it has more.
bool ReadFile(const char* path, char* text, size_t capacity, size_t* bytes);

// The path of the program that runs here, links resolved; false if it is unknown or does not fit.
bool ReadProgramPath(char* path, size_t capacity);

// Whether there is a file that this process may execute.
bool IsExecutable(const char* path);

// Makes a path absolute by the current directory; false if that is unknown or does not fit.
bool MakeAbsolute(const char* path, char* out, size_t capacity);

// Writes all of it; false if that fails.
bool WriteAll(int fd, const char* text, size_t bytes);

// Maps the first `bytes` of a file of exactly one OS page, shared and writable; null if that fails.
void* MapSharedFile(const char* path, size_t bytes);

// The memory that the process has resident now; 0 if the system does not say. Reads a file: 5-15
// us.
uint64_t ResidentProcessBytes();

// The most memory the present program of the process has had resident so far; 0 if the system does
// not say. Reads a file.
uint64_t PeakResidentBytes();

}  // namespace gleaner::platform
