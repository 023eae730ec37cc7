// When a concurrent cycle begins, and how fast it has to mark, so that it ends when the program has
// used up its allowance (gc/policy/pacer.h).
//
// Call order: for each cycle the collector calls MayBegin and Begin; then IsPressing, PartUsed,
// IsBehind and SliceBytes while the cycle is under way; then BeginStop and NoteCycleBytes in the
// final stop. It calls NoteStop at the end of each stop. The kinds of collection that are chosen
// from: docs/design/policy.md.
#pragma once

#include "gc/cycle/cycle.h"
#include "gc/mark/loss_budget.h"
#include "gc/mark/worker_pool.h"
#include "gc/policy/pacer.h"
#include "gc/policy/reason.h"
#include "gc/policy/stop_forecast.h"
#include "gc/world.h"

namespace gleaner::gc {

class CyclePacer {
 public:
  constexpr CyclePacer(const Pacer& pacer, const Cycle& cycle, const WorkerPool& pool,
                       const StopForecast& forecast, LossBudget* budget)
      : pacer_(pacer), cycle_(cycle), pool_(pool), forecast_(forecast), budget_(*budget) {}

  // --- Any thread: hints. ---
  // The program asks for a cycle: one begins as soon as it can, whatever has been allocated.
  void Want() { wanted_.Store(true, platform::memory_order_relaxed); }
  bool IsWanted() const { return wanted_.Load(platform::memory_order_relaxed); }
  // Makes the next collection due now, of whatever kind.
  void HurryUp() { is_hurried_.Store(true, platform::memory_order_relaxed); }
  // From HurryUp to the next stop.
  bool IsHurried() const { return is_hurried_.Load(platform::memory_order_relaxed); }
  // False from when a cycle was due and could not begin to the next stop.
  bool CanBegin() const { return can_begin_.Load(platform::memory_order_relaxed); }
  bool IsDue(bool minor_next) const;
  // Whether the next collection is a minor one, unless a cycle turns out to be possible when the
  // collection is due.
  bool IsMinorLong() const { return is_minor_long_.Load(platform::memory_order_relaxed); }

  // --- Guarded by the collector lock. ---
  // Whether a cycle that is due begins now. False if writes cannot be tracked, or if a collection
  // of another kind is the better choice; then that stands until BeginStop, or until MayBegin is
  // asked again. `minor_next`: the next collection can be a minor one.
  bool MayBegin(const Tunables& tunables, bool minor_next);
  // MayBegin has chosen a collection of another kind.
  bool HasChosenStop() const {
    return reason_ == Reason::kShortStop || reason_ == Reason::kFastAllocation ||
           reason_ == Reason::kMemoryLimit || reason_ == Reason::kDearCycle ||
           reason_ == Reason::kYoungDie;
  }
  // Why MayBegin has chosen as it has; kOnlyKind if it has not been asked since the last stop.
  Reason reason() const { return reason_; }
  void BeginStop() {
    reason_ = Reason::kOnlyKind;
    // Relaxed, both: hints to others.
    can_begin_.Store(true, platform::memory_order_relaxed);
    is_hurried_.Store(false, platform::memory_order_relaxed);
  }
  // How long a stop-parallel collection of the whole heap is expected to take, if it comes when the
  // allowance is used up.
  uint64_t ExpectedStopNs() const;
  // How long a stop should take at most.
  static uint64_t PauseGoalNs(const Tunables& tunables);
  // Whether a concurrent cycle would keep little garbage: whether what the program allocates
  // during the marking, at its rate since the last collection, and does not need any more at the
  // end, is less than half of the allowance.
  bool FitsIntoAllowance(int background_markers) const;
  // Whether a concurrent cycle would cost the program too much: docs/design/policy.md, "What a kind
  // costs".
  bool IsDear(const Tunables& tunables) const;
  void Begin(const Tunables& tunables);
  // Called when the cycle is over. Returns the bytes allocated since it began.
  uint64_t NoteCycle(const Tunables& tunables);
  // `processor_clocks`: Tunables::processor_clocks. `is_minor_long`: a minor collection is expected
  // to exceed the pause goal.
  void NoteStop(uint64_t end_ns, bool processor_clocks, bool is_minor_long);
  uint64_t last_end_ns() const { return last_end_ns_; }  // 0 before the first stop
  uint64_t last_end_processor_ns() const { return last_end_processor_ns_; }  // 0 if not known
  void ResetAfterFork() {
    last_end_ns_ = last_end_processor_ns_ = 0;
  }  // the child's processor time begins at 0

  // --- In a cycle. ---
  // Bytes allocated since the last collection when the cycle began.
  ptrdiff_t started_at() const { return started_at_; }
  // Workers that mark concurrently while the marking keeps up.
  int background_markers() const { return background_markers_; }
  // Tunables::slice_bytes.
  uint64_t given_slice_bytes() const { return slice_bytes_; }
  // Whether the program has kept all processors busy since the last collection, and at that pace
  // would use up more than a quarter of its allowance while the background markers work. Then a
  // short cycle is better than an early one: objects allocated during the cycle have to be scanned
  // and stay. A program that waits now and then is not throttled for this reason.
  bool IsPressing() const { return pressing_; }
  // Whether IsPressing, and all workers together take less than `ns` to mark.
  bool IsPressingAndShorterThan(uint64_t ns) const {
    return pressing_ && ExpectedMarkNs(pool_.size()) < ns;
  }
  // The part of the cycle's allowance that is used up; or that of the finalizable objects, of which
  // there are `finalizable` now, if that is larger (Pacer::PartOverdue).
  double PartUsed(size_t finalizable) const;
  // Whether `part_used` exceeds the part of the marking that is done by more than an eighth.
  bool IsBehind(double part_used) const;
  // Bytes that a mutator has to mark after it has allocated `allocated_bytes`.
  uint64_t SliceBytes(uint64_t allocated_bytes) const;

 private:
  Reason Choose(const Tunables& tunables, bool minor_next) const;
  uint64_t ExpectedScanBytes() const;
  uint64_t ExpectedMarkNs(int workers) const {
    return forecast_.MarkNs(ExpectedScanBytes(), workers);
  }
  double BytesAllocatedWhileMarking(int background_markers) const;
  bool IsAllocationPressing() const;
  ptrdiff_t Runway() const;
  double RunNs() const;
  double ExpectedSlowdownNs(const Tunables& tunables) const;
  double ExpectedLossNs(const Tunables& tunables) const;
  double Pace() const;
  void NoteSlowdown(ptrdiff_t cycle_bytes);

  const Pacer& pacer_;
  const Cycle& cycle_;
  const WorkerPool& pool_;
  const StopForecast& forecast_;
  LossBudget& budget_;

  platform::Atomic<bool> wanted_{false};
  platform::Atomic<bool> is_hurried_{false};
  platform::Atomic<bool> is_minor_long_{false};  // written under the collector lock
  platform::Atomic<bool> can_begin_{true};       // written under the collector lock
  // Bytes allocated during a cycle, smoothed; PTRDIFF_MAX before the end of the first cycle.
  // Written under the collector lock.
  platform::Atomic<ptrdiff_t> cycle_bytes_{PTRDIFF_MAX};

  // Settings of the cycle under way, written by Begin.
  uint64_t slice_bytes_ = 0;
  int background_markers_ = 1;
  double rate_ = 1;  // Tunables::rate / 10
  bool pressing_ = false;
  ptrdiff_t started_at_ = 0;
  uint64_t started_ns_ = 0;
  double pace_before_ = 0;  // Pace() when the cycle began

  Reason reason_ = Reason::kOnlyKind;
  // What the program wrote to for the first time in the last cycle; UINT64_MAX before the first.
  uint64_t written_bytes_ = UINT64_MAX;
  // How much cycles have slowed the program down, in nanoseconds of processor time for each byte to
  // scan: a mean in which the last one counts a quarter. Less than 0 before the first.
  double slowdown_ = -1;
  uint64_t last_end_ns_ = 0;            // end of the last collection; 0 before the first
  uint64_t last_end_processor_ns_ = 0;  // the process's processor time at last_end_ns_
};

}  // namespace gleaner::gc
