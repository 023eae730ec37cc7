// One collection, from the decision to the report. A stop-parallel one does all of the following at
// once; of a concurrent cycle (gc/cycle.h) this is the final stop.
//
//   1. under the collector lock: tunables are read, helper threads started if the heap warrants it
//   2. stop      every mutator is parked or blocked (platform/stop_world.h)
//   3. hide      the threads' unused runs become free slots (alloc/thread_heap.h, [inv.run])
//   4. mark      roots, then everything reachable, in parallel (gc/marker.h)
//   5. decide    short links, finalizers, long links (gc/finalize.h)
//   6. flip      black becomes the live epoch; the runs' windows are restored in it
//   7. sweep     mark bytes to page lists, in parallel (gc/sweeper.h);
//                or beside the program, until the next collection at the latest
//   8. pace      the next allowance (gc/pacer.h)
//   9. resume    the mutators
//  10. give lasting surplus back to the system, report
#pragma once

#include "alloc/hooks.h"
#include "gc/cycle.h"
#include "gc/cycle_pacer.h"
#include "gc/driver.h"
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
  bool concurrent = false;   // marking began before the stop
  bool overrun = false;      // and was not ready for it
  bool minor = false;        // young objects alone were looked at
};

// Sums over the life of the process.
struct CollectorTotals {
  uint64_t collections = 0;
  PauseTimes pauses;
  PauseTimes longest_pause;  // the parts of the one that took longest
  PauseTimes longest_parts;  // the most that each part took, in whichever pause
  uint64_t freed_bytes = 0;
  uint64_t concurrent = 0;  // collections that marked concurrently
  uint64_t overruns = 0;    // of these, those that had not come to an end when memory ran out
  uint64_t concurrent_sweeps = 0;  // collections that left the sweep to the running program
  uint64_t minors = 0;             // collections of young objects alone
  uint64_t minor_ns = 0;           // their pauses together

  void Add(const CycleReport& report, bool sweeps_concurrently);
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
  uint64_t collections() const {
    return alloc::g_collections.Load(platform::memory_order_relaxed);
  }  // a count

  // --- The concurrent sweep. Any thread. ---
  // Hooks::sweep.
  static bool SweepSome();
  // Sweeps what is left of it; false if nothing was. Not inside critical sections.
  bool SweepRest();
  // If all is swept, and nobody collects, tells the pacer what was found and gives lasting surplus
  // back. A look at one word otherwise. Not inside critical sections.
  void EndSweepIfDone() {
    if (GLEANER_UNLIKELY(sweeper_.IsConcurrent() && sweeper_.IsDone())) TryEndSweep();
  }

  // Pointers with that displacement into an object, less than a page, count from here on. pre:
  // lock() is held.
  void ValidateDisplacement(size_t displacement);

  // --- Cycles beside the program. ---
  // Guarded by lock().
  Cycle& cycle() { return cycle_; }
  // A mutator has allocated so many bytes: starts a cycle if one is due, and does a share of the
  // one that goes on unless there is a driver that keeps up. True if the caller is to collect now,
  // for Cause::kAllocation. Not inside critical sections. `stack_pointer` as in Collect.
  bool Advance(uint64_t bytes, Addr stack_pointer);
  // The next Advance starts a cycle, be it due or not. Any thread.
  void WantCycle() { cycle_pacer_.Want(); }
  bool CanMarkConcurrently() const { return cycle_pacer_.CanBegin(); }
  CyclePacer& cycle_pacer() { return cycle_pacer_; }
  // Whether the next collection that allocation causes is to be a minor one, which does not mark
  // beside the program.
  bool IsMinorNext() const {
    return minor_next_.Load(platform::memory_order_relaxed);  // a hint
  }
  // Whether the program has allocated so much meanwhile that it cannot wait for the cycle's end.
  bool IsOverrun() const {
    return pacer_.allocated() > pacer_.allowance() + pacer_.allowance() / 8;
  }

  // What is registered for the object is so for the `bytes` at `to`, to which its contents have
  // been copied; nowhere if `to` is 0 (gc/finalize.h). pre: lock() is held; the object is
  // allocated.
  void MoveRegistered(const alloc::ObjectRef& object, Addr to = 0, size_t bytes = 0);

  // Stops the world and calls `f` for every object. pre: lock() is held.
  void ForEachObject(void (*f)(const alloc::ObjectRef& object, void* context), void* context);

  // Gives free pages back to the system. Not inside critical sections.
  static void ReturnFreeMemory();

  // `alone`: the process had one mutator when it forked.
  void ResetAfterFork(bool alone);

 private:
  // One collection, as its phases hand it on.
  struct Collection {
    Tunables tunables;
    CycleReport report;
    bool gives_up_cycle = false;  // it does not use what a cycle has marked
    bool is_early = false;        // the cycle is not ready for the stop
    bool sweeps_concurrently = false;
    uint64_t bytes_in_cycle = 0;  // allocated while the cycle went on
    uint64_t young_bytes = 0;     // allocated since the last collection
  };
  // The phases of CollectLocked, in this order. From the second to the last but one the world is
  // stopped.
  Collection Prepare(Cause cause);
  bool StopUnlessGivenUp(int (*give_up)(), PauseClock* clock);
  // Also says in the report what kind of collection it is.
  void Mark(Collection* collection, Addr stack_pointer, PauseClock* clock);
  void ActOnUnreachable(Collection* collection);
  void ChangeColours(const Tunables& tunables);
  void PaceNext(const SweepTotals& swept, const PauseClock& clock, Collection* collection);
  // Decides whether the next collection may be minor, and prepares it.
  void EndGeneration(const Collection& collection, const PauseClock& clock);
  void AfterResume();

  bool MayBeMinor(Cause cause, const Tunables& tunables) const;
  // Whether the next collection may be minor, as far as what is known before the sweep.
  bool MayTrack(const Tunables& tunables) const;
  bool TryStartCycle();
  // What a mutator does when there is a driver; as Advance.
  bool AdvanceWithDriver(Addr stack_pointer);
  // The driver's: a step of whatever goes on. False if there is nothing to do.
  bool Drive();
  static bool DriveStep(void* collector) { return static_cast<Collector*>(collector)->Drive(); }
  void Throttle(Addr stack_pointer);
  // In the stop; adds up what was found. What has a value of the mask `dead` is unreachable.
  SweepTotals Sweep(uint8_t dead);
  static void SweepJob(void* collector, int worker);
  // The beginning, all that is left, and the end of a concurrent sweep. The second returns
  // when nothing is left to claim; a mutator may still be at a step.
  SweepTotals BeginConcurrentSweepWorldStopped(uint8_t dead);
  void FinishSweep();
  void EndSweep();
  GLEANER_COLD void TryEndSweep();
  static void StepJob(void* collector, int worker);
  uint64_t UnpaddedBytes(const SweepTotals& swept) const;
  uint64_t FreeBytes(const SweepTotals& swept) const;
  void NoteLive(CycleReport* report, uint64_t live_bytes) const;

  World world_ = {};
  // Guards all that follows, but for what is atomic and for parts that have a say of their own:
  // pool_ and marker_ in a slice, sweeper_'s steps, and what mutators call in cycle_ and pacer_.
  platform::Lock lock_{platform::LockRank::kCollector};
  WorkerPool pool_;
  RootTasks roots_;
  Marker marker_;
  Cycle cycle_;
  CyclePacer cycle_pacer_{pacer_, cycle_, pool_};
  Driver driver_;
  // The driver has done what can be done concurrently. A hint: who collects asks the cycle.
  // Written under lock_.
  platform::Atomic<bool> stop_wanted_{false};
  Generations generations_;
  MarkConfig last_config_;                    // of the last collection
  platform::Atomic<bool> minor_next_{false};  // written under lock_
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
  uint64_t live_before_ = 0;        // bytes there were before the last collection
  bool unpadded_counts_ = false;    // see PacerInput
  uint64_t resident_at_sweep_ = 0;  // bytes, when the last sweep began
  uint64_t scanned_bytes_ = 0;      // by the last collection
};

extern Collector g_collector;

}  // namespace gleaner::gc
