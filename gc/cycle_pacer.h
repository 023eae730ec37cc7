// When a concurrent cycle begins, and how fast it has to go. It is to be over when the
// program has used up its allowance (gc/pacer.h).
//
// For each cycle the collector calls MayBegin, Begin, then IsPressing, IsBehind and SliceBytes as
// it goes on, and at its end NoteCycleBytes. After each stop it calls NoteStop.
#pragma once

#include "gc/cycle.h"
#include "gc/pacer.h"
#include "gc/pause.h"
#include "gc/worker_pool.h"
#include "gc/world.h"

namespace gleaner::gc {

class CyclePacer {
 public:
  constexpr CyclePacer(const Pacer& pacer, const Cycle& cycle, const WorkerPool& pool)
      : pacer_(pacer), cycle_(cycle), pool_(pool) {}

  // --- Any thread: hints. ---
  // The next cycle is due, whatever has been allocated.
  void Want() { wanted_.Store(true, platform::memory_order_relaxed); }
  bool IsWanted() const { return wanted_.Load(platform::memory_order_relaxed); }
  // Whether the last cycle that was due could be started, or has yet to be tried.
  bool CanBegin() const { return can_begin_.Load(platform::memory_order_relaxed); }
  bool IsDue(bool minor_next) const;

  // --- Guarded by the collector lock. ---
  // Whether a cycle that is due is to begin. It is not if writes cannot be tracked, or if a stop
  // that marks everything is expected to be short: that costs the program least.
  bool MayBegin(const Tunables& tunables);
  // MayBegin has found that the next stop is short. Cleared by the next collection.
  bool IsStopShort() const { return is_stop_short_; }
  void BeginStop() { is_stop_short_ = false; }
  void Begin(const Tunables& tunables);
  // What the program has allocated since the cycle began, in bytes. The cycle is over.
  uint64_t NoteCycleBytes();
  // A stop is over that scanned so many bytes. `tracks_processor_time`: IsPressing is to be known.
  void NoteStop(bool marked_all, const PauseTimes& pause, int markers, uint64_t scanned_bytes,
                uint64_t end_ns, bool tracks_processor_time);
  uint64_t last_end_ns() const { return last_end_ns_; }
  void ResetAfterFork() { last_end_ns_ = 0; }  // the process's processor time begins anew

  // --- In a cycle. ---
  // Bytes allocated since the last collection when the cycle began.
  ptrdiff_t started_at() const { return started_at_; }
  // Workers that concurrent mark while they keep up.
  int background_markers() const { return background_markers_; }
  // The option for tests that makes each step so many bytes of marking; 0: it is not given.
  uint64_t given_slice_bytes() const { return slice_bytes_; }
  // Whether the program has kept all processors busy since the last collection, and at that pace
  // would use up more than a quarter of its allowance while the background markers work. Then it is
  // better to make the cycle short than to begin it early: whatever is allocated meanwhile has to
  // be scanned, and stays. A program that waits for something now and then is rather left alone.
  bool IsPressing() const { return pressing_; }
  // Whether it is pressing, and all workers together take less than `ns` to mark.
  bool IsPressingAndShorterThan(uint64_t ns) const {
    return pressing_ && ExpectedMarkNs(pool_.size()) < ns;
  }
  // Whether more of what may be allocated during the cycle has been than of the work is done, and
  // some.
  bool IsBehind() const;
  // What a mutator that has allocated so many bytes is to mark, in bytes.
  uint64_t SliceBytes(uint64_t allocated_bytes) const;

  // What a worker takes to mark a byte, in place of what the stops show: that depends on the
  // machine and what else it does. pre: no other thread uses the collector.
  void SetMarkTimeForTesting(double ns_per_byte) {
    ns_per_byte_ = ns_per_byte;
    mark_time_is_given_ = true;
  }

 private:
  uint64_t ExpectedMarkNs(int workers) const;
  bool IsAllocationPressing() const;
  ptrdiff_t Runway() const;

  const Pacer& pacer_;
  const Cycle& cycle_;
  const WorkerPool& pool_;

  platform::Atomic<bool> wanted_{false};
  platform::Atomic<bool> can_begin_{true};  // written under the collector lock
  // What the program allocates during a cycle, smoothed; PTRDIFF_MAX before the first. Written
  // under the collector lock.
  platform::Atomic<ptrdiff_t> cycle_bytes_{PTRDIFF_MAX};
  // Of the cycle under way. Written by Begin.
  uint64_t slice_bytes_ = 0;
  int background_markers_ = 1;
  double rate_ = 1;  // Tunables::rate / 10
  bool pressing_ = false;
  ptrdiff_t started_at_ = 0;

  bool is_stop_short_ = false;
  double ns_per_byte_ = 1;  // a worker's time to mark, in the last stop
  bool mark_time_is_given_ = false;
  uint64_t last_end_ns_ = 0;            // of the last collection; 0 before the first
  uint64_t last_end_processor_ns_ = 0;  // the process's processor time then
};

}  // namespace gleaner::gc
