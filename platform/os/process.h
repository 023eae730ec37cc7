// Facts about the process.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

// Whether the process runs with rights that its caller does not have (set-user-ID and the like):
// then the environment cannot be trusted.
bool HasElevatedRights();

// The owner of the memory in which the calling process runs. A forked child has a copy of its
// parent's memory; a child of vfork runs in its parent's own memory, concurrently with the parent's
// other threads. The first process and each forked child call OwnMemory; from then on the answers
// are right. Both questions are async-signal-safe, OwnMemory is not.
//
// Notes that the calling process owns its memory. False if the system cannot tell a copy
// (MADV_WIPEONFORK, Linux 4.14).
[[nodiscard]] bool OwnMemory();
// Whether the memory is a copy by fork in which OwnMemory has not been called yet.
bool MemoryIsCopy();
// Whether the memory is another process's. Costs a system call.
bool MemoryIsAnothers();

// The system's calls, without the C library.
int RawPrlimit(int process, int resource, const void* limit, void* old);
int RawMlockall(int flags);

// Opens a file for appending; -1 if that fails.
int OpenLogFile(const char* path);
// Opens a file for reading; -1 if that fails.
int OpenForReading(const char* path);

// Reads a file of at most `capacity` bytes. False with errno if that fails, and with errno 0 if the
// file is longer.
bool ReadFile(const char* path, char* text, size_t capacity, size_t* bytes);

// Reads the beginning of a file, as much as fits, as a string. Returns 0, or the number of the
// error; ENODATA if the file is empty. Keeps errno.
int ReadSmallFile(const char* path, char* text, size_t capacity);

// Gets the path of the running program, links resolved. False if it is unknown or does not fit.
bool ReadProgramPath(char* path, size_t capacity);

// Whether `path` is a file that this process may execute.
bool IsExecutable(const char* path);

// Makes a path absolute by the current directory. False if the directory is unknown or the result
// does not fit.
bool MakeAbsolute(const char* path, char* out, size_t capacity);

// Whether the limit on the size of files allows `bytes` more at the file's end: a file beyond it
// would end the program by SIGXFSZ.
bool IsWithinFileLimit(int fd, size_t bytes);

// When a process began, in ticks since the machine's start; 0 if there is none or the system does
// not tell.
uint64_t ProcessStart(uint64_t process);

// Gets the command line on one line: arguments separated by spaces, control characters and `\` as
// \ooo. Cut off where it does not fit; empty if it is unknown.
void ReadCommandLine(char* out, size_t capacity);

// Maps the first `bytes` of a file of exactly one OS page, shared and writable; null if that fails.
void* MapSharedFile(const char* path, size_t bytes);

// Gets the resident bytes of the process that are no file's and no shared memory's. False if the
// system does not tell, as where no descriptor is left. Reads a file: 5-15 us.
[[nodiscard]] bool GetAnonymousProcessBytes(uint64_t* bytes);

// The maximum of resident bytes since the process started its present program; 0 if the system does
// not tell. Reads a file.
uint64_t PeakResidentBytes();

}  // namespace gleaner::platform
