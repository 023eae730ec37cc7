// System calls that fail: in the verify build, every system call of the library may fail, with
// every error that the system has for it, at any point of the process's life.
//
// The shared libraries of that build are linked so that their calls, but not the program's, go to
// platform/faults/failing_calls.cc (the linker's --wrap; the list is in cmake/failures.cmake). Each
// function there asks Fails whether to fail instead of making the call. docs/design/reliability.md
// says what each failure leads to.
//
// The seed and the number of earlier calls of the same sort determine which calls fail, so a run
// with one thread is repeatable. Depending on the seed, calls fail one by one, or 4, 16 or 64 of a
// sort in a row, as when the system has run out of something.
#pragma once

#include <cstdint>

namespace gleaner::platform {

enum class Failing : uint8_t {
  kMapping,  // mmap, mprotect, mremap, munmap
  kAdvice,   // madvise, mincore, mbind and its like
  kFile,     // open, pipe2, memfd_create, fallocate, fcntl, fstat and their like
  kData,     // read, pread, write, ioctl
  kThread,   // pthread_create, tgkill, affinities
  kWait,     // futex, nanosleep, waitpid
  kProcess,  // process_vm_readv, getrlimit, sigaltstack, atexit
};

#ifdef GLEANER_VERIFY

// From here on about one call in `calls` of the sorts in the set fails. 0, the initial value: none.
// Any thread.
constexpr uint32_t SetOf(Failing sort) { return 1u << static_cast<uint32_t>(sort); }
constexpr uint32_t kAllSorts = ~0u;
void SetFailures(uint32_t calls, uint32_t seed, uint32_t sorts = kAllSorts);

// Whether the present call of the sort is to fail. Async-signal-safe; keeps errno.
bool Fails(Failing sort);
// A random number that belongs to the last failure of the calling thread: it selects the error, or
// the shortened length.
uint32_t FailureDraw();

#else
inline void SetFailures(uint32_t, uint32_t) {}
inline bool Fails(Failing) { return false; }
#endif

}  // namespace gleaner::platform
