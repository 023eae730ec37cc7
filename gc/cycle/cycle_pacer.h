// How fast a concurrent cycle has to mark, so that it ends when the program has used up its
// allowance (gc/policy/pacer.h); and what is measured to decide whether one begins
// (gc/policy/next_collection.h).
//
// Call order: Measure for each decision. For each cycle the collector calls Begin; then IsPressing,
// PartUsed, IsBehind and SliceBytes while the cycle is under way; then EndCycle in the final stop.
// It calls EndStop at the end of each stop.
//
// Guarded by the collector lock.
#pragma once

#include "gc/cycle/cycle.h"
#include "gc/mark/worker_pool.h"
#include "gc/policy/loss_budget.h"
#include "gc/policy/next_collection.h"
#include "gc/policy/pacer.h"
#include "gc/policy/stop_forecast.h"

namespace gleaner::gc {

class CyclePacer {
 public:
  constexpr CyclePacer(const Pacer& pacer, const Cycle& cycle, const HeapWrites& writes,
                       const WorkerPool& pool, const StopForecast& forecast, LossBudget* budget)
      : pacer_(pacer),
        cycle_(cycle),
        writes_(writes),
        pool_(pool),
        forecast_(forecast),
        budget_(*budget) {}

  // What the kind of the next collection depends on, but for what the schedule knows
  // (Schedule::AddTo).
  Measurements Measure(const Tunables& tunables) const;
  // How long a stop-parallel collection of the whole heap is expected to take, if it comes when the
  // allowance is used up.
  uint64_t ExpectedStopNs() const;
  void Begin(const Tunables& tunables);
  // Called when the cycle is over. Returns the net bytes allocated since it began.
  ptrdiff_t EndCycle(const Tunables& tunables);
  // The stop of a collection ends. `allocated_bytes`: since the collection before.
  // `processor_clocks`: Tunables::processor_clocks.
  enum class Kind : uint8_t { kOther, kStop, kConcurrent };  // the first two: of the whole heap
  void EndStop(Kind kind, uint64_t allocated_bytes, uint64_t end_ns, bool processor_clocks);
  uint64_t last_end_ns() const { return last_end_ns_; }  // 0 before the first stop
  uint64_t last_end_processor_ns() const { return last_end_processor_ns_; }  // 0 if not known
  void ResetAfterFork() {
    last_end_ns_ = last_end_processor_ns_ = 0;
    last_kind_ = Kind::kOther;
  }  // the child's processor time begins at 0

  // --- In a cycle. ---
  // Bytes allocated since the last collection when the cycle began.
  ptrdiff_t started_at() const { return started_at_; }
  // Workers that mark concurrently while the marking keeps up.
  int background_markers() const { return background_markers_; }
  // Tunables::slice_bytes.
  uint64_t given_slice_bytes() const { return slice_bytes_; }
  // Whether the program has used at least four fifths of as many processors as there are markers
  // since the last collection, and at that pace would use up more than a quarter of its allowance
  // while the background markers work. Then a short cycle is better than an early one: objects
  // allocated during the cycle have to be scanned and stay. A program that waits now and then is
  // not throttled for this reason.
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
  uint64_t ExpectedScanBytes() const;
  uint64_t ExpectedMarkNs(int workers) const {
    return forecast_.MarkNs(ExpectedScanBytes(), workers);
  }
  double BytesAllocatedWhileMarking(int background_markers) const;
  bool IsAllocationPressing() const;
  double RunNs() const;
  double ExpectedSlowdownNs(const Tunables& tunables) const;
  double Pace() const;
  void LearnSlowdown(ptrdiff_t cycle_bytes);
  void LearnExcess(Kind kind, double ns_per_byte);

  const Pacer& pacer_;
  const Cycle& cycle_;
  const HeapWrites& writes_;
  const WorkerPool& pool_;
  const StopForecast& forecast_;
  LossBudget& budget_;

  // Settings of the cycle under way, written by Begin.
  uint64_t slice_bytes_ = 0;
  int background_markers_ = 1;
  double rate_ = 1;  // Tunables::rate / 10
  bool pressing_ = false;
  ptrdiff_t started_at_ = 0;
  uint64_t started_ns_ = 0;
  uint64_t started_processor_ns_ = 0;  // the process's processor time then; 0 if not known
  double pace_before_ = 0;             // Pace() when the cycle began

  // What the program wrote to for the first time in the last cycle; UINT64_MAX before the first.
  uint64_t written_bytes_ = UINT64_MAX;
  // How much cycles have slowed the program down, in nanoseconds of processor time for each byte to
  // scan: a mean in which the last one counts a quarter. Less than 0 before the first.
  double slowdown_ = -1;
  // How much longer the program, with its stops, has taken to allocate a byte before a concurrent
  // collection than before a stop-parallel one, by pairs of periods that follow each other: the
  // program goes through phases, in which it allocates at other paces. A mean in which the last
  // pair counts a quarter, and which loses an eighth at each collection that makes no pair. It has
  // what a cycle leaves behind, too: pages that fault again, caches. Periods in which the program
  // waits, or that end early, do not count.
  double excess_ns_per_byte_ = 0;
  bool is_excess_known_ = false;
  Kind last_kind_ = Kind::kOther;
  double last_ns_per_byte_ = 0;
  uint64_t last_end_ns_ = 0;            // end of the last collection; 0 before the first
  uint64_t last_end_processor_ns_ = 0;  // the process's processor time at last_end_ns_
};

}  // namespace gleaner::gc
