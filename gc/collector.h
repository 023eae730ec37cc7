// One stop-parallel collection, from the decision to the report.
//
//   1. under the collector lock: tunables are read, helper threads started if the heap warrants it
//   2. stop      every mutator is parked or blocked (platform/stop_world.h)
//   3. hide      the threads' unused runs become free slots (alloc/thread_heap.h, [inv.run])
//   4. mark      roots, then everything reachable, in parallel (gc/marker.h)
//   5. decide    short links, finalizers, long links (gc/finalize.h)
//   6. flip      black becomes the live epoch; the runs' windows are restored in it
//   7. sweep     mark bytes to page lists, in parallel (gc/sweeper.h)
//   8. pace      the next allowance (gc/pacer.h)
//   9. resume
//  10. give lasting surplus back to the system, report
#pragma once

#include "gc/pause.h"
#include "gc/sweeper.h"
#include "gc/world.h"

namespace gleaner::gc {

enum class Cause : uint8_t { kAllocation, kExplicit, kExhausted };
const char* NameOf(Cause cause);

struct CycleReport {
  uint64_t number = 0;  // of this collection, from 1
  Cause cause = Cause::kExplicit;
  uint64_t live_bytes = 0;
  uint64_t live_objects = 0;
  uint64_t freed_bytes = 0;  // objects that died, by size
  uint64_t resident_bytes = 0;
  PauseTimes pause;
  uint64_t steals = 0;       // of work between markers
  uint64_t finalizable = 0;  // objects queued for finalization
  int markers = 0;           // workers that took part in marking
};

// Sums over the life of the process.
struct CollectorTotals {
  uint64_t collections = 0;
  PauseTimes pauses;
  PauseTimes longest_pause;  // the parts of the one that took longest
  PauseTimes longest_parts;  // the most that each part took, in whichever pause
  uint64_t freed_bytes = 0;
};

class Collector {
 public:
  [[nodiscard]] bool Init(const World& world, int max_markers);

  // Collects unless another thread did while the lock was waited for (then only kExplicit collects
  // again). Returns false if nothing was done. Not inside critical sections.
  // `stack_pointer`: the caller's stack counts from there on, its registers spilled above.
  // `give_up`, if not null, is asked before the threads are stopped and once more before marking:
  // nonzero gives the collection up.
  bool Collect(Cause cause, Addr stack_pointer, int (*give_up)() = nullptr);
  // --- Guarded by lock(). ---
  // Collects, unless it is given up or the world cannot be stopped.
  bool CollectLocked(Cause cause, Addr stack_pointer, int (*give_up)());
  platform::Lock& lock() { return lock_; }
  Finalizers& finalizers() { return finalizers_; }
  Links& short_links() { return short_links_; }
  Links& long_links() { return long_links_; }
  ToggleRefs& toggle_refs() { return toggle_refs_; }
  WorkerPool& pool() { return pool_; }
  Marker& marker() { return marker_; }
  const CycleReport& last() const { return last_; }
  const CollectorTotals& totals() const { return totals_; }

  // --- Any thread. ---
  Pacer& pacer() { return pacer_; }
  uint64_t collections() const { return number_.Load(platform::memory_order_relaxed); }  // a count

  // Stops the world and calls `f` for every object. pre: lock() is held.
  void ForEachObject(void (*f)(const alloc::ObjectRef& object, void* context), void* context);

  // Gives free pages back to the system. Not inside critical sections.
  static void ReturnFreeMemory();

  // `alone`: the process had one mutator when it forked.
  void ResetAfterFork(bool alone);

 private:
  void Mark(const Tunables& tunables, Addr stack_pointer, PauseClock* clock);
  void Sweep();
  static void SweepJob(void* collector, int worker);

  World world_ = {};
  platform::Lock lock_{platform::LockRank::kCollector};
  platform::Atomic<uint64_t> number_{0};  // written under lock_

  WorkerPool pool_;
  RootTasks roots_;
  Marker marker_;
  Sweeper sweeper_;
  SweepTotals sweep_totals_[kMaxWorkers];
  Finalizers finalizers_;
  Links short_links_;
  Links long_links_;
  ToggleRefs toggle_refs_;
  Pacer pacer_;
  CycleReport last_;
  CollectorTotals totals_;
  uint64_t allocated_at_last_ = 0;  // sum of all heaps' allocated less freed bytes
  uint64_t last_end_ns_ = 0;        // of the last collection; 0 before the first
};

extern Collector g_collector;

}  // namespace gleaner::gc
