// System calls that fail: in the verify build, each that the library makes may, with each error
// that the system has for it, at any point of the process's life.
//
// The shared libraries of that build are linked so that their calls go to platform/failing_calls.cc
// (the linker's --wrap; the list is in cmake/failures.cmake); those of the program do not. There a
// call asks Fails whether it is to fail in place of being made. docs/failures.md says what each
// failure leads to.
//
// Which calls fail follows from the seed, and from how many of that sort came before: with one
// thread a run can be had again. Depending on the seed they fail one by one, or 4, 16 or 64 of a
// sort in a row, as where the system has run out of something.
#pragma once

#include <cstdint>

namespace gleaner::platform {

enum class Failing : uint8_t {
  kMapping,  // mmap, mprotect, mremap, munmap
  kAdvice,   // madvise, mincore
  kFile,     // open, pipe2, memfd_create, fallocate, fcntl, fstat and their like
  kData,     // read, pread, write, ioctl
  kThread,   // pthread_create, tgkill, affinities
  kWait,     // futex, nanosleep, waitpid
  kProcess,  // process_vm_readv, getrlimit, sigaltstack, atexit
};

#ifdef GLEANER_VERIFY

// From here on about one call in `calls` fails, of the sorts in the set. 0: none, as at first. Any
// thread.
constexpr uint32_t SetOf(Failing sort) { return 1u << static_cast<uint32_t>(sort); }
constexpr uint32_t kAllSorts = ~0u;
void SetFailures(uint32_t calls, uint32_t seed, uint32_t sorts = kAllSorts);

// Whether a call of the sort is to fail now. Async-signal-safe; keeps errno.
bool Fails(Failing sort);
// A number that goes with the last failure of the calling thread: which error, how short.
uint32_t FailureDraw();

#else
inline void SetFailures(uint32_t, uint32_t) {}
inline bool Fails(Failing) { return false; }
#endif

}  // namespace gleaner::platform
