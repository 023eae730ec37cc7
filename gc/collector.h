// One collection, from the decision to the report. A stop-parallel collection does all of the
// following at once. For a concurrent cycle (gc/cycle/cycle.h) the same sequence is the final stop.
//
//   1. prepare   under the collector lock: read the tunables; start helpers if the heap is large
//   2. stop      every mutator is parked or blocked (platform/threads/stop_world.h)
//   3. retire    the threads' unused runs become free slots (alloc/thread_heap.h, [inv.run])
//   4. mark      roots, then everything reachable, in parallel (gc/mark/marker.h)
//   5. decide    short links, finalizers, long links (gc/finish/finalize.h)
//   6. flip      black becomes the live epoch; the threads' runs are revived in it
//   7. sweep     mark bytes to page lists, in parallel (gc/finish/sweeper.h);
//                or concurrently, until the next collection at the latest
//   8. pace      the next allowance (gc/policy/pacer.h)
//   9. resume    the mutators
//  10. finish    disarm pages, give lasting surplus back to the system, report
#pragma once

#include "alloc/hooks.h"
#include "gc/cycle/cycle.h"
#include "gc/cycle/cycle_pacer.h"
#include "gc/cycle/driver.h"
#include "gc/finish/registrations.h"
#include "gc/finish/sweeper.h"
#include "gc/policy/next_collection.h"
#include "gc/policy/pause.h"
#include "gc/policy/stop_forecast.h"
#include "gc/world.h"

namespace gleaner::gc {

// kInspection: the collection shows the heap to somebody, by a snapshot or a report of leaks. Its
// pause is the tool's: neither the sums of pauses nor what is learned for later collections have
// it.
enum class Cause : uint8_t { kAllocation, kExplicit, kExhausted, kInspection };
inline constexpr int kCauses = 4;
const char* NameOf(Cause cause);
// Whether the collection has to begin after the call, and to find all that is dead by then.
constexpr bool IsAskedFor(Cause cause) {
  return cause == Cause::kExplicit || cause == Cause::kInspection;
}

struct CycleReport {
  uint64_t number = 0;  // of this collection, counted from 1
  Cause cause = Cause::kExplicit;
  uint64_t live_bytes = 0;
  uint64_t live_objects = 0;
  uint64_t freed_bytes = 0;  // objects that died, by size
  uint64_t resident_bytes = 0;
  PauseTimes pause;
  uint64_t end_ns = 0;       // of the pause, by CLOCK_MONOTONIC
  uint64_t steals = 0;       // segments of work that one marker took from another
  uint64_t finalizable = 0;  // objects queued for finalization
  int markers = 0;           // workers that took part in marking
  bool concurrent = false;   // marking began before the stop
  bool overrun = false;      // the stop came before a concurrent cycle was ready for it
  bool minor = false;        // only young objects were marked and freed
  Reason reason = Reason::kOnlyKind;
  // Before the collection: how long it was expected to stop the program; if concurrent, how long a
  // stop-parallel one.
  uint64_t expected_ns = 0;
  double price = 0;  // Decision::price, if it is of the kind that was decided
};

enum class CollectionKind : uint8_t { kStopParallel, kConcurrent, kOverrun, kMinor };
constexpr CollectionKind KindOf(const CycleReport& report) {
  return report.minor        ? CollectionKind::kMinor
         : report.overrun    ? CollectionKind::kOverrun
         : report.concurrent ? CollectionKind::kConcurrent
                             : CollectionKind::kStopParallel;
}
constexpr const char* NameOf(CollectionKind kind) {
  constexpr const char* kNames[] = {"stop-parallel", "concurrent", "overrun", "minor"};
  return kNames[static_cast<int>(kind)];
}

// Sums over the life of the process.
struct CollectorTotals {
  uint64_t collections = 0;
  uint64_t inspections = 0;  // collections whose pauses are not among these:
  PauseTimes pauses;
  PauseTimes longest_pause;  // the parts of the longest pause
  PauseTimes longest_parts;  // the maximum of each part over all pauses
  uint64_t freed_bytes = 0;
  uint64_t concurrent = 0;  // collections that marked concurrently
  uint64_t overruns = 0;    // concurrent collections that were stopped before they were ready
  uint64_t concurrent_sweeps = 0;  // collections that swept concurrently
  uint64_t minors = 0;             // minor collections
  uint64_t minor_ns = 0;           // pauses of all minor collections together

  void Add(const CycleReport& report, bool sweeps_concurrently);
};

// Init once, before all other calls. Then any mutator calls Collect, or calls Advance at each poll
// and Collect if Advance says so. The driver thread calls Drive. lock() is the collector lock.
class Collector {
 public:
  [[nodiscard]] bool Init(const World& world, int max_markers);

  // Collects. If another thread has collected while this call waited for the lock, only one that
  // is asked for collects again. False if this call did not collect. Not inside critical sections.
  // `stack_pointer`: the caller's stack counts from there upwards; its registers are spilled above.
  // `give_up`, if not null, is called before the threads are stopped and again before marking;
  // nonzero gives the collection up.
  bool Collect(Cause cause, Addr stack_pointer, int (*give_up)() = nullptr);
  // --- Guarded by lock(). ---
  // Collects. False if `give_up` says so or the world cannot be stopped.
  bool CollectLocked(Cause cause, Addr stack_pointer, int (*give_up)());
  platform::Lock& lock() { return lock_; }
  Registrations& registered() { return registered_; }
  WorkerPool& pool() { return pool_; }
  Marker& marker() { return marker_; }
  const CycleReport& last() const { return last_; }
  const CollectorTotals& totals() const { return totals_; }

  // --- Any thread. ---
  Pacer& pacer() { return pacer_; }
  uint64_t collections() const { return alloc::g_collections.Get(); }

  // --- The concurrent sweep. Any thread. ---
  // Implements Hooks::sweep.
  static bool SweepSome();
  // Sweeps all pages that are still unclaimed; false if there are none. Not inside critical
  // sections.
  bool SweepRest();
  // Pages that the sweep under way has still to come to; 0 without one. A snapshot.
  size_t UnsweptPages() const { return sweeper_.UnsweptPages(); }
  // If all pages are swept and no thread has the lock: reports the totals to the pacer and returns
  // lasting surplus to the system. Otherwise at most two loads. Not inside critical sections.
  void EndSweepIfDone() {
    if (GLEANER_UNLIKELY(sweeper_.IsConcurrent() && sweeper_.IsDone())) TryEndSweep();
  }

  // Pointers with this displacement into an object count from now on. pre: lock() is held;
  // displacement < kPageBytes.
  void ValidateDisplacement(size_t displacement);

  // --- Concurrent cycles. ---
  // Guarded by lock().
  Cycle& cycle() { return cycle_; }
  HeapWrites& writes() { return writes_; }
  // A mutator calls this at each poll, after it has allocated `bytes`. Starts a cycle if one is
  // due. Does a share of the cycle under way if there is no driver, and is throttled if the driver
  // does not keep up. True if the caller has to call Collect(Cause::kAllocation) now. Not inside
  // critical sections. `stack_pointer` as in Collect.
  bool Advance(uint64_t bytes, Addr stack_pointer);
  // Whether Advance may have something to do; a few loads.
  bool MayAdvance() const {
    return cycle_.state() != CycleState::kIdle || sweeper_.IsConcurrent() ||
           schedule_.IsCycleWanted() || (schedule_.MayBeConcurrent() && schedule_.IsTimeToDecide());
  }
  // Whether the collection that is due may be left to a cycle, which is under way or may still
  // begin. Any thread, as a hint.
  bool MayLeaveToCycle() const {
    return schedule_.MayBeConcurrent() && !schedule_.IsMinorNext() && !IsOverrun();
  }
  // The next Advance starts a cycle, whether it is time or not. Any thread.
  void WantCycle() { schedule_.WantCycle(); }
  // A collection is due before the allowance is used up. True if the next polls see to it, by a
  // cycle; false if the caller has to call Collect(Cause::kAllocation). Any thread.
  bool HurryCycle();
  // A collection is due, and perhaps stop-parallel only because the program allocated too fast for
  // a cycle. Then decides again. Whether the next Advance begins a cycle instead. Any thread.
  bool DecideAgain();
  // The kind of the next collection, as far as it is decided. Guarded by lock().
  const Decision& decision() const { return schedule_.decision(); }
  // Guarded by lock().
  StopForecast& forecast() { return forecast_; }
  uint64_t ExpectedStopNs() const { return cycle_pacer_.ExpectedStopNs(); }
  // An object was given a finalizer, which weighs as much as `weight` bytes. Whether a collection
  // is due. `process_bytes` reads what the process has outside the heap; false if it may not now.
  // Guarded by lock().
  bool WeighFinalizable(size_t weight, bool (*process_bytes)(uint64_t*));
  // Whether the program has allocated too much during the cycle to wait for the cycle's end.
  bool IsOverrun() const {
    return pacer_.allocated() > pacer_.allowance() + pacer_.allowance() / 8;
  }

  // Stops the world and calls `f` for every object. pre: lock() is held.
  void ForEachObject(void (*f)(const alloc::ObjectRef& object, void* context), void* context);

  // Returns free pages to the system. Not inside critical sections.
  static void ReturnFreeMemory();

  // In the child. `alone`: the process had one mutator when it forked.
  void ResetAfterFork(bool alone);

 private:
  // State of one collection, passed from phase to phase.
  struct Collection {
    Tunables tunables;
    CycleReport report;
    bool discards_cycle = false;  // marks of the cycle under way are not used
    bool is_early = false;        // the cycle is not ready for the stop
    bool sweeps_concurrently = false;
    // Processor time before the stop, of the process and of this thread; 0 if it is not known.
    uint64_t begin_processor_ns = 0;
    uint64_t begin_thread_ns = 0;
    uint64_t sweep_thread_ns = 0;       // the thread's before the sweep
    uint64_t bytes_in_cycle = 0;        // allocated while the cycle was under way
    uint64_t young_bytes = 0;           // allocated since the last collection, net
    double price = 0;                   // Decision::price
    Reason reason = Reason::kOnlyKind;  // of the kind that was chosen; it may not have come to that
    // A concurrent cycle would have been possible in place of this collection.
    bool cycle_was_possible = false;
  };
  // The phases of CollectLocked, in this order. The world is stopped from the end of
  // StopUnlessGivenUp until AfterResume.
  Collection Prepare(Cause cause);
  bool StopUnlessGivenUp(int (*give_up)(), PauseClock* clock);
  // Also sets the kind of collection (minor, concurrent, overrun) in the report.
  void Mark(Collection* collection, Addr stack_pointer, PauseClock* clock);
  // Ends the program with a message if it has made this address, of a root, unreadable. Called by a
  // signal handler, in a marker.
  static void TellOfFault(Addr address);
  void ActOnUnreachable(Collection* collection);
  void ChangeColours(const Tunables& tunables);
  void PaceNext(const SweepTotals& swept, const PauseClock& clock, Collection* collection);
  // How long a stop-parallel collection takes this thread.
  uint64_t FullStopNs(const Collection& collection) const;
  AllowanceLaw::Period PeriodOf(const Collection& collection, const PauseClock& clock) const;
  // Decides whether the next collection may be minor, and prepares it.
  void EndGeneration(const Collection& collection, const PauseClock& clock);
  // Tells the forecast and the pacing of cycles of the stop that is over.
  void LearnFromStop(const Collection& collection, uint64_t end_ns);
  void AfterResume();
  void TraceCollection(const PauseClock& clock) const;

  bool MayBeMinor(Cause cause, const Tunables& tunables) const;
  // Whether writes may be tracked until the next collection, so that it may be minor.
  bool MayTrack(const Tunables& tunables) const;
  // What the kind of the next collection depends on. Guarded by lock(), as the next three.
  Measurements Measure(const Tunables& tunables) const;
  // Decides the kind anew (gc/policy/next_collection.h).
  const Decision& DecideNext(const Tunables& tunables);
  const Decision& DecideNext();  // reads the settings
  // False if it is not time for a cycle, another kind is decided, or no cycle can begin now.
  bool TryStartCycle();
  // Advance for the case that the driver runs.
  bool AdvanceWithDriver(Addr stack_pointer);
  // The driver thread makes one step of the sweep or the cycle. False if there is nothing to do.
  bool Drive();
  static bool DriveStep(void* collector) { return static_cast<Collector*>(collector)->Drive(); }
  // Sweeps in the stop and returns the sum of the workers' totals. Slots whose mark byte has a bit
  // of `dead` are unreachable.
  SweepTotals Sweep(uint8_t dead);
  static void SweepJob(void* collector, int worker);
  // Starts a concurrent sweep. Returns estimated totals.
  SweepTotals BeginConcurrentSweepWorldStopped(uint8_t dead);
  // Sweeps in parallel until no page is left to claim. A mutator may still be in a step.
  void FinishSweep();
  // Ends a concurrent sweep whose steps are all done, and corrects the estimated totals.
  void EndSweep();
  GLEANER_COLD void TryEndSweep();
  static void StepJob(void* collector, int worker);
  uint64_t FreeBytes(const SweepTotals& swept) const;
  void SetLive(CycleReport* report, uint64_t live_bytes) const;

  World world_ = {};  // constant after Init
  platform::Lock lock_{platform::LockRank::kCollector};

  // --- Guarded by lock_; while a slice is open, by the slice (gc/cycle/cycle.h). ---
  WorkerPool pool_;
  Marker marker_;

  // --- Guarded by lock_, but for the functions that say otherwise. ---
  HeapWrites writes_;
  Cycle cycle_{&writes_};
  Pacer pacer_;
  Schedule schedule_{pacer_};
  Sweeper sweeper_;
  Driver driver_;

  // --- Guarded by lock_. ---
  RootTasks roots_;
  StopForecast forecast_;
  LossBudget budget_;
  CyclePacer cycle_pacer_{pacer_, cycle_, writes_, pool_, forecast_, &budget_};
  Generations generations_;
  MarkConfig last_config_;                 // the last collection's settings
  SweepTotals sweep_totals_[kMaxWorkers];  // in a job, each worker has its own
  Registrations registered_;
  CycleReport last_;
  CollectorTotals totals_;
  // All heaps' allocated less freed bytes at the last collection.
  uint64_t allocated_at_last_ = 0;
  uint64_t live_before_ = 0;        // bytes of objects just before the last collection
  uint64_t resident_at_sweep_ = 0;  // resident bytes when the last sweep began
  uint64_t scanned_bytes_ = 0;      // bytes the last full collection scanned

  // --- Any thread reads it as a hint; written under lock_. ---
  // The driver has done all that can be done concurrently: one mutator collects. The collecting
  // thread asks cycle_.
  platform::Hint<bool> stop_wanted_{false};
};

extern Collector g_collector;

}  // namespace gleaner::gc
