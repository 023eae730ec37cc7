// The collector's part of concurrent cycles: it starts a cycle, and mutators or the driver advance
// it a step at a time.
#include "gc/collector.h"
#include "observe/events.h"
#include "platform/os/clock.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

constexpr int kStepsAtOnce = 64;  // steps of the sweep in one Drive: some 150 us
// Bytes that each worker scans in a slice of the driver: 1 ms, or 8 ms when all workers mark, since
// waking them takes time. Sorting a batch may come on top, some 8 ms for each GB of the heap.
constexpr uint64_t kDriverSliceBytes = 2 * kMiB;
static_assert(kDriverSliceBytes >= kMinSortingSlice);
constexpr uint64_t kPressingSliceBytes = 16 * kMiB;
// A pressing cycle that is expected to be shorter than this has urgency kClosing from the
// beginning.
constexpr uint64_t kShortCycleNs = 50'000'000;
constexpr uint64_t kYieldNs = 20'000;
// Threads report at least every kCycleReportBytes in a cycle, so that each thread's share is small;
// every kClosingReportBytes near its end, so that they run for tens of microseconds between waits.
constexpr size_t kCycleReportBytes = 128 * kKiB;
constexpr size_t kClosingReportBytes = 4 * kKiB;

Measurements Collector::Measure(const Tunables& tunables) const {
  Measurements found = cycle_pacer_.Measure(tunables);
  schedule_.AddTo(&found);
  return found;
}

const Decision& Collector::DecideNext() {
  Tunables tunables;
  world_.read_tunables(&tunables);
  return DecideNext(tunables);
}

const Decision& Collector::DecideNext(const Tunables& tunables) {
  schedule_.Set(Decide(tunables, Measure(tunables)));
  return schedule_.decision();
}

bool Collector::TryStartCycle() {
  if (!schedule_.IsTimeToDecide()) return false;
  if (schedule_.decision().stands && !schedule_.IsCycleWanted()) return false;
  if (sweeper_.IsConcurrent()) {
    if (pacer_.allocated() >= pacer_.allowance()) FinishSweep();
    if (!sweeper_.IsDone()) return false;
    EndSweep();
  }
  Tunables tunables;
  world_.read_tunables(&tunables);
  if (DecideNext(tunables).next != NextCollection::kConcurrent) return false;
  writes_.LoseTrackerIfBarred();
  if (!writes_.IsTracking()) return false;
  cycle_pacer_.Begin(tunables);
  schedule_.BeginCycle();
  const bool has_driver = tunables.driver && driver_.Start(DriveStep, this);
  if (has_driver) pool_.StartHelpers();
  const ptrdiff_t allocated = cycle_pacer_.started_at();
  cycle_.Start(tunables.mark, allocated > 0 ? static_cast<uint64_t>(allocated) : 0, has_driver,
               tunables.pause_target_ns);
  const bool closes = cycle_pacer_.IsPressingAndShorterThan(kShortCycleNs);
  if (closes) cycle_.Raise(Urgency::kClosing);
  pacer_.ReportAfter(closes ? kClosingReportBytes : kCycleReportBytes);
  stop_wanted_.Set(false);
  if (has_driver) driver_.Wake();
  return true;
}

bool Collector::HurryCycle() {
  if (!writes_.ServesCycles() || (schedule_.IsMinorNext() && !schedule_.IsMinorLong()) ||
      IsOverrun() || !schedule_.MayBeConcurrent()) {
    return false;
  }
  if (cycle_.IsUnderWay() || schedule_.IsHurried()) return true;
  const platform::HandlersWait no_handlers;
  // If the lock is taken, its holder collects, or another poll decides.
  if (lock_.TryAcquire()) {
    if (cycle_.state() == CycleState::kIdle) DecideNext();
    lock_.Release();
  }
  // By this thread's decision, or by that of a thread that has the lock.
  if (!schedule_.MayBeConcurrent()) return false;
  schedule_.Hurry();
  return true;
}

bool Collector::DecideAgain() {
  const platform::HandlersWait no_handlers;
  // If the lock is taken, its holder collects.
  if (!lock_.TryAcquire()) return false;
  const bool is_open =
      cycle_.state() == CycleState::kIdle && schedule_.decision().reason == Reason::kFastAllocation;
  const bool begins = is_open && DecideNext().next == NextCollection::kConcurrent;
  lock_.Release();
  return begins;
}

bool Collector::AdvanceWithDriver(Addr stack_pointer) {
  if (stop_wanted_.Get()) return true;
  if (cycle_.IsUnderWay()) {
    if (IsOverrun()) return true;
    cycle_.throttle().Wait(stack_pointer);
    return stop_wanted_.Get();
  }
  if (!schedule_.IsTimeToDecide()) return false;
  const platform::HandlersWait no_handlers;
  if (!lock_.TryAcquire()) return false;
  if (cycle_.state() == CycleState::kIdle) TryStartCycle();
  lock_.Release();
  return false;
}

bool Collector::Drive() {
  lock_.Acquire();
  bool more = true;
  bool yield = false;
  if (!cycle_.IsUnderWay() && writes_.DisarmSome()) {
    // Disarming comes before the sweep: the program takes faults until it is done.
  } else if (sweeper_.IsConcurrent()) {
    {
      const platform::SweepEvent event;
      for (int i = 0; i < kStepsAtOnce && more; ++i) more = sweeper_.Step();
    }
    if (sweeper_.IsDone()) {
      EndSweep();
      if (pacer_.ShouldReturnFreeMemory()) {
        lock_.Release();  // the system calls take milliseconds
        ReturnFreeMemory();
        return true;
      }
    }
  } else {
    const double used = cycle_pacer_.PartUsed(registered_.finalizers.registered());
    if (cycle_.state() == CycleState::kMarking &&
        (cycle_pacer_.IsPressing() || cycle_pacer_.IsBehind(used))) {
      cycle_.Raise(Urgency::kPressing);
    }
    if (used >= 1) cycle_.Raise(Urgency::kClosing);
    const Cycle::Next next = cycle_.Advance(0);
    const Urgency urgency = cycle_.throttle().urgency();
    const bool closing = urgency == Urgency::kClosing;
    if (closing) pacer_.ReportAfter(kClosingReportBytes);
    switch (next) {
      case Cycle::Next::kAgain:
        break;
      case Cycle::Next::kMark:
        marker_.SetConcurrentWorkers(urgency != Urgency::kNone ? pool_.size()
                                                               : cycle_pacer_.background_markers());
        lock_.Release();
        cycle_.Mark(closing                         ? kNeverPause
                    : urgency == Urgency::kPressing ? kPressingSliceBytes
                                                    : kDriverSliceBytes);
        return true;
      case Cycle::Next::kStop:
        stop_wanted_.Set(true);
        cycle_.throttle().End();  // one mutator collects
        more = false;
        break;
      case Cycle::Next::kNothing:
        more = cycle_.IsUnderWay();  // a mutator has a slice
        yield = more;
        break;
    }
  }
  // A thread that waits for the lock gets it before the next step.
  if ((lock_.Release() || yield) && more) platform::FutexSleep(kYieldNs);
  return more;
}

bool Collector::Advance(uint64_t bytes, Addr stack_pointer) {
  if (driver_.running()) return AdvanceWithDriver(stack_pointer);
  if (sweeper_.IsConcurrent() && !sweeper_.IsDone()) {
    // Enough steps for the sweep to be over long before the next cycle.
    for (size_t steps = 4 + sweeper_.pages() / 4096; steps != 0; --steps) {
      platform::CriticalSection section;
      if (!sweeper_.Step()) break;
    }
  }
  const platform::HandlersWait no_handlers;
  // If the lock is taken, its holder collects or advances the cycle.
  if (!lock_.TryAcquire()) return false;
  bool collect = false;
  if (cycle_.IsUnderWay() && IsOverrun()) {
    collect = true;
  } else if (cycle_.state() != CycleState::kIdle || (TryStartCycle() && !driver_.running())) {
    // Steps for this time, then a slice. With Tunables::slice_bytes, one step.
    const uint64_t max_ns = cycle_pacer_.given_slice_bytes() != 0 ? 0 : 300000;
    const uint64_t begin_ns = platform::NowNs();
    Cycle::Next next;
    do {
      next = cycle_.Advance(stack_pointer);
    } while (next == Cycle::Next::kAgain && platform::NowNs() - begin_ns < max_ns);
    if (next == Cycle::Next::kMark) {
      platform::CriticalSection section;
      const uint64_t slice = cycle_pacer_.SliceBytes(bytes);
      lock_.Release();
      cycle_.Mark(slice);
      return false;
    }
    collect = next == Cycle::Next::kStop;
  }
  lock_.Release();
  return collect;
}

}  // namespace gleaner::gc
