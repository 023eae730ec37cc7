// What the allocator asks of the layer above it.
#pragma once

#include "alloc/page.h"

namespace gleaner::alloc {

// Collections so far. Written by the collecting thread with the world stopped; any thread reads it
// as a count.
extern platform::Atomic<uint64_t> g_collections;

// A request that may have to be tried again.
struct Attempts {
  uint64_t collections_before = 0;  // as they were when it was tried last
  int failed = 0;                   // of those after which this thread has collected
  uint64_t collecting_ns = 0;       // what these collections have taken

  void Begin() {
    // Relaxed: a count. Read too early, it costs one try more.
    collections_before = g_collections.Load(platform::memory_order_relaxed);
  }
  // Whether another thread has collected since, so that memory may be had.
  bool IsOutOfDate() const {
    return g_collections.Load(platform::memory_order_relaxed) != collections_before;  // as above
  }
};

struct Hooks {
  // A thread has allocated `bytes` net since its last call. May collect. Called outside critical
  // sections and without locks.
  void (*allocated)(ptrdiff_t bytes);
  // `bytes` cannot be had without passing the heap limit or the system's own. True if it is worth
  // trying again. Same context as above.
  bool (*exhausted)(size_t bytes, Attempts* attempts);
  // `bytes` cannot be had unless the heap grows beyond the limit (LimitGrowth). Makes room or moves
  // the limit: the request is tried again in any case. Same context.
  void (*grow)(size_t bytes, const Attempts& attempts);
  // Sweeps some pages; false if there are none left. Called inside critical sections, and only
  // while g_dead_mark says that a sweep goes on: null where there are none.
  bool (*sweep)() = nullptr;
};

extern Hooks g_hooks;

// A thread calls `allocated` about every so many bytes. Set by the pacer, read by all. Relaxed: a
// number by itself.
extern platform::Atomic<ptrdiff_t> g_poll_bytes;

// A share of the concurrent sweep, if one does. pre: in a critical section.
inline bool SweepSome() {
  // Relaxed: a hint; the hook decides.
  return g_dead_mark.Load(platform::memory_order_relaxed) != 0 && g_hooks.sweep();
}

}  // namespace gleaner::alloc
