// The calls from the allocator to the layer above it. That layer sets g_hooks before the first
// allocation.
#pragma once

#include "alloc/page.h"

namespace gleaner::alloc {

// The number of collections so far. Written by the collecting thread with the world stopped; any
// thread reads it.
extern platform::Hint<uint64_t> g_collections;

// The state of a request that may have to be tried again. Used by one thread.
struct Attempts {
  uint64_t collections_before = 0;  // g_collections at the last try; an old one costs one try more
  int failed = 0;                   // tries after which this thread has collected
  uint64_t collecting_ns = 0;       // the time of these collections

  void Begin() { collections_before = g_collections.Get(); }
  // Whether a collection has finished since the last try, so that memory may be available.
  bool IsOutOfDate() const { return g_collections.Get() != collections_before; }
};

struct Hooks {
  // The calling thread has allocated `bytes` net since its last call. May collect. Called outside
  // critical sections and without locks.
  void (*allocated)(ptrdiff_t bytes);
  // `bytes` cannot be allocated without passing the heap limit or a limit of the system. True if
  // the request should be tried again. Called outside critical sections and without locks.
  bool (*exhausted)(size_t bytes, Attempts* attempts);
  // `bytes` cannot be allocated unless the heap grows beyond the limit of LimitGrowth. Makes room
  // or moves the limit; the allocator tries again in any case. Called outside critical sections and
  // without locks.
  void (*grow)(size_t bytes, const Attempts& attempts);
  // Sweeps some pages; false if no page is left to sweep. Called inside critical sections, and only
  // while g_dead_mark says that a sweep goes on. Null if the layer above has no concurrent sweep.
  bool (*sweep)() = nullptr;
  // The heap profile samples the object, which has just been handed out or has another size now;
  // `bytes` is 0 if it is not sampled at its new size. Called inside critical sections, and only if
  // g_sample_mean_bytes is not 0.
  void (*sampled)(Addr object, size_t bytes) = nullptr;
};

extern Hooks g_hooks;

// A thread calls `allocated` about once in this many bytes. Set by the pacer, read by all threads.
extern platform::Hint<ptrdiff_t> g_poll_bytes;

// Sweeps some pages if a concurrent sweep goes on. False if it does not, or no page is left. pre:
// in a critical section.
inline bool SweepSome() {
  // Relaxed: a hint; the hook decides.
  return g_dead_mark.Load(platform::memory_order_relaxed) != 0 && g_hooks.sweep();
}

}  // namespace gleaner::alloc
