// GLEANER_PROFILE: the heap profile's file, and when it is written
// (docs/reference/heap.md). What is sampled: alloc/sampler.h. What is kept of it:
// gc/finish/heap_samples.h.
//
// Stacks are walked where objects are handed out, in a critical section: the walk takes no lock,
// the loader's neither, and allocates nothing (platform/unwind/unwind.h). The file is written
// outside all locks of the collector, from a copy of the samples.
#pragma once

#include "platform/os/base.h"

namespace gleaner::runtime {

// Samples from now on if the options say so, and begins the file. Complains if it cannot. Before
// the first thread registers.
void StartProfiling();

// alloc::Hooks::sampled.
void OnSampled(Addr object, size_t bytes);

// Writes what has been sampled so far. Returns 0, or the number of the error: ENOTSUP if nothing is
// sampled, EEXIST if the file is no heap profile, EBUSY if another thread writes one or another
// process this file, a handler has interrupted the allocator, or fork handlers have not run. Not
// with a lock, or in a callback of the collector.
[[nodiscard]] int WriteHeapProfile(const char* path);

// In a forked child, by its only thread. The first only forgets what the parent wrote and sampled:
// it may be called in a handler that has interrupted the allocator.
void ResetProfileFileAfterFork();
void ResetProfilingAfterFork();

}  // namespace gleaner::runtime
