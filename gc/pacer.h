// When to collect: the heap may grow by a share of what the last collection found live.
//
// With libgc's free_space_divisor d (default 3) the allowance between two collections is
//   (2 * live bytes + bytes of roots) / d
// so that a program tuned for libgc keeps its balance of time and memory; it is never less than
// `min_allowance_bytes`. libgc counts pointer-free bytes for less here, but in effect collects later,
// namely when its heap is full; counting them in full comes to the same memory (docs/performance.md). A heap that the program expanded (GC_expand_hp) is filled before it is
// collected.
#pragma once

#include "platform/atomic.h"

namespace gleaner::gc {

struct PacerConfig {
  size_t min_allowance_bytes = 0;
  size_t free_space_divisor = 3;
  // If not 0: collect every so many bytes, whatever is live (for tests).
  size_t stress_bytes = 0;
  size_t initial_heap_bytes = 0;
};

class Pacer {
 public:
  // Before the first collection, and whenever the configuration changes.
  void Configure(const PacerConfig& config);
  // The program wants the heap to be this much larger. Guarded by the collector lock.
  void ExpandHeap(size_t bytes);
  // After a collection, with the world stopped.
  void StartCycle(uint64_t live_bytes, size_t root_bytes);

  // A thread reports net allocation. True if a collection is due.
  bool OnAllocated(ptrdiff_t bytes) {
    // Relaxed: a count; a thread that sees it late collects a little late.
    const ptrdiff_t before = allocated_.FetchAdd(bytes, platform::memory_order_relaxed);
    return before + bytes >= allowance_.Load(platform::memory_order_relaxed);
  }
  // Net bytes since the last collection, as far as reported.
  ptrdiff_t allocated() const { return allocated_.Load(platform::memory_order_relaxed); }  // a count
  ptrdiff_t allowance() const { return allowance_.Load(platform::memory_order_relaxed); }  // likewise

 private:
  void SetAllowance();

  PacerConfig config_;
  size_t root_bytes_ = 0;
  uint64_t live_bytes_ = 0;
  uint64_t expanded_bytes_ = 0;  // what the program asked for, over the whole run
  platform::Atomic<ptrdiff_t> allocated_{0};
  platform::Atomic<ptrdiff_t> allowance_{PTRDIFF_MAX};
};

}  // namespace gleaner::gc
