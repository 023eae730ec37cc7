// When the next collection that allocation causes comes, and of which kind. This file has the rule,
// what is known of the last decision, and what the program has asked for.
//
// Whether there are cycles and minor collections at all, the runtime says by Tunables
// (runtime/collect/tracking.h). A collection that the program asks for, or that comes because
// memory is exhausted, is not decided on: it comes at once. For the others three questions are
// asked.
//
// 1. Is a collection due? Every allocating thread asks at each report of what it has allocated, and
// before the heap grows. The thresholds are set at the end of a collection (gc/policy/pacer.h).
//
//    row  condition                                               asked by
//    D1   the allowance is used up                                Pacer::OnAllocated
//    D2   the weight of objects with finalizers is reached        Pacer::WantsFull
//    D3   the share is used up, and the heap has grown            Pacer::OnAllocated
//    D4   the heap is to grow, and the share is used up           Pacer::ShouldCollectToGrow
//    D5   the heap is to grow beyond the memory limit             Pacer::ShouldCollectToGrow
//    D6   the first access to memory takes as long as 8 stops     Pacer::PaysToCollectFor
//
//    A collection that is due by D1 or D3 is left to a cycle, if one is under way or may still
//    begin, until the allowance is exceeded by an eighth (Collector::MayLeaveToCycle). By D2, D4
//    and D5 the decision is hurried, and the collection left to the cycle if that is the decision
//    (Collector::HurryCycle).
//
// 2. Is it time to decide the kind? A thread asks at each report, without the lock
// (Schedule::IsTimeToDecide). A cycle has to begin before the collection is due, since the program
// allocates while it marks. The first row that holds counts.
//
//    row  condition                                                         time to decide
//    T1   the program asks for a cycle                                      yes
//    T2   the next collection is minor, and is not expected to be long      no
//    T3   the decision is hurried                                           yes
//    T4   the allowance is used up but for what a cycle takes (BeginsAt)    yes
//    T5   otherwise                                                         no
//
// 3. Which kind? Decide says it, under the collector lock. The first row that holds counts. `fits`:
// a cycle can end in time (FitsIntoAllowance), or what it costs is not weighed. `dear`: it fits,
// and keeping the pause goal costs the program too much (IsDear).
//
//    row  condition                                       next         reason          stands
//    K1   the collector does not mark concurrently        kStop        kOnlyKind       no
//    K2   the program asks for a cycle                    kConcurrent  kAsked          no
//    K3   the next collection is minor, and is not        kMinor       kYoungDie       yes
//         expected to be long, or a cycle does not fit,
//         or is dear
//    K4   automatic, and the memory limit is near         kStop        kMemoryLimit    yes
//    K5   the stop is expected to keep the pause goal     kStop        kShortStop      yes
//    K6   a cycle does not fit                            kStop        kFastAllocation yes
//    K7   a cycle is dear                                 kStop        kDearCycle, or  yes
//         for the garbage that it keeps alone                          kFastAllocation
//    K8   otherwise                                       kConcurrent  kLongStop       no
//
// A decision that stands is not made again before the next stop, with two exceptions: the program
// asks for a cycle, and K6, which is weighed again when the collection is due
// (Collector::DecideAgain). A cycle that is decided begins at once, unless the tracker is lost;
// then a later report may decide again. While a sweep is under way nothing is decided
// (Collector::TryStartCycle), unless the decision is hurried.
//
// When the collection comes, it is minor if the last one has prepared that (Collector::MayBeMinor);
// else it ends the cycle under way, or is stop-parallel if there is none. docs/design/policy.md
// says why the rule is as it is, and gc/policy/generations.h when a minor collection is prepared.
//
// Invariants:
//   - From a stop until Decide is called, the decision is kUndecided and the reason kOnlyKind.
//   - Only a decision for a stop or a minor collection stands.
//   - Decide depends on its arguments alone.
//   - What other threads read is a hint: a thread that reads an old one asks once more, or collects
//     a little early or late. Whoever acts on a hint takes the lock and decides by what holds then.
//
// Who may call what: Decide and its parts are functions of numbers. The functions of Schedule say
// it at each group: requests and hints are for any thread, the rest is guarded by the collector
// lock.
#pragma once

#include "gc/policy/loss_budget.h"
#include "gc/policy/pacer.h"
#include "gc/policy/reason.h"
#include "gc/policy/tunables.h"
#include "platform/os/atomic.h"

namespace gleaner::gc {

// What the next collection that allocation causes will be.
//   kUndecided -> any      Decide
//   any -> kUndecided      a stop
//   kStop, kMinor -> any   Decide, if the decision does not stand, or by the exceptions above
enum class NextCollection : uint8_t { kUndecided, kConcurrent, kStop, kMinor };

struct Decision {
  NextCollection next = NextCollection::kUndecided;
  Reason reason = Reason::kOnlyKind;
  bool stands = false;  // until the next stop
  // The part of the program's time that keeping the pause goal by a cycle costs, as far as a cycle
  // was weighed; else 0. It may be more than 1.
  double price = 0;
};

// What Decide needs to know beside the settings. All times are in nanoseconds; those of processors
// are sums over all that the program keeps busy.
struct Measurements {
  bool is_cycle_wanted = false;  // the program asks for a cycle
  bool is_minor_next = false;    // the next collection can be a minor one
  bool is_minor_long = false;    // a minor collection is expected to exceed the pause goal
  bool is_near_limit = false;    // the allowance might not fit below the memory limit
  ptrdiff_t allowance_bytes = 0;
  // Of a stop-parallel collection of the whole heap that comes when the allowance is used up.
  uint64_t expected_stop_ns = 0;
  // What the program allocates during a cycle at its present pace, less what is expected to stay.
  double garbage_in_cycle_bytes = 0;
  // Processor time that a cycle, and that a stop-parallel collection, takes from the program.
  double cycle_ns = 0;
  double stop_ns = 0;
  // How much more the program has lost by cycles than by stop-parallel collections, for as much
  // allocation as the allowance; 0 if that is not known.
  double excess_ns = 0;
  // Processor time of the program from the last stop until the allowance is used up.
  double run_ns = 0;
  LossBudget budget;
};

// A cycle begins when all but 1/kMaxRunwayShare of the allowance is used up, if cycles take as much
// or more, or none has been.
inline constexpr int kMaxRunwayShare = 2;

// How many bytes have been allocated when it is time to decide (T4): a quarter more than cycles
// take is left then. `usual_cycle_bytes`: what is allocated during a cycle; PTRDIFF_MAX before the
// end of the first.
constexpr ptrdiff_t BeginsAt(ptrdiff_t allowance_bytes, ptrdiff_t usual_cycle_bytes) {
  const ptrdiff_t min_runway = allowance_bytes / 16;
  const ptrdiff_t max_runway = allowance_bytes / kMaxRunwayShare;
  if (usual_cycle_bytes >= max_runway) return allowance_bytes - max_runway;
  const ptrdiff_t runway = usual_cycle_bytes + usual_cycle_bytes / 4;
  return allowance_bytes - (runway > min_runway ? runway : min_runway);
}

// How long a stop should take at most.
constexpr uint64_t PauseGoalNs(const Tunables& tunables) {
  return tunables.pause_target_ns != 0 && tunables.pause_target_ns < tunables.short_pause_ns
             ? tunables.pause_target_ns
             : tunables.short_pause_ns;
}
// Whether a concurrent cycle can end before the program has used up its allowance: whether what the
// program allocates during the marking, and does not need any more at the end, is at most half of
// the allowance.
bool FitsIntoAllowance(const Measurements& found);
// What a concurrent cycle costs the program more than a stop-parallel collection, in nanoseconds of
// processor time until the allowance is used up; negative if it costs less. Garbage that is
// allocated during a cycle stays until the next one, so cycles come the more often the more of the
// allowance that is, up to kMaxRunwayShare times. Or what cycles have cost more so far
// (Measurements::excess_ns), if that is more.
double LossOfCycle(const Measurements& found);
// Whether a concurrent cycle would cost the program too much: docs/design/policy.md, "What a kind
// costs".
bool IsDear(const Tunables& tunables, const Measurements& found);

// Whether a cycle is possible, and not dear.
bool IsCycleGood(const Tunables& tunables, const Measurements& found);

// The pause goal is kept where that costs the program at most 1/kGoalPrice of its time, unless the
// program has set it: then at any price.
inline constexpr double kGoalPrice = 10;

Decision Decide(const Tunables& tunables, const Measurements& found);

// The last decision, what the program has asked for, and whether a minor collection is prepared.
class Schedule {
 public:
  explicit constexpr Schedule(const Pacer& pacer) : pacer_(pacer) {}

  // --- Any thread: requests. ---
  // The program asks for a cycle: one begins as soon as it can, whatever has been allocated. Until
  // a cycle begins.
  void WantCycle() { is_cycle_wanted_.Set(true); }
  // It is time to decide now, and the next collection is due, of whatever kind. Until the next
  // stop.
  void Hurry() { is_hurried_.Set(true); }

  // --- Any thread: hints. ---
  bool IsCycleWanted() const { return is_cycle_wanted_.Get(); }
  bool IsHurried() const { return is_hurried_.Get(); }
  // Whether the next collection may still be concurrent: no other kind has been chosen.
  bool MayBeConcurrent() const {
    const NextCollection next = next_.Get();
    return next == NextCollection::kUndecided || next == NextCollection::kConcurrent;
  }
  // Whether the next collection is a minor one, unless a cycle turns out to be possible when it is
  // time to decide. A minor collection does not mark concurrently.
  bool IsMinorNext() const { return is_minor_prepared_.Get() && !pacer_.WantsFull(); }
  bool IsMinorLong() const { return is_minor_long_.Get(); }
  // Rows T1 to T5.
  bool IsTimeToDecide() const {
    if (IsCycleWanted()) return true;
    if (IsMinorNext() && !IsMinorLong()) return false;
    return IsHurried() || pacer_.allocated() >= BeginsAt(pacer_.allowance(), cycle_bytes_.Get());
  }

  // --- Guarded by the collector lock. ---
  const Decision& decision() const { return decision_; }
  // Sets the fields of `found` that the schedule knows.
  void AddTo(Measurements* found) const {
    found->is_cycle_wanted = IsCycleWanted();
    found->is_minor_next = IsMinorNext();
    found->is_minor_long = IsMinorLong();
    found->allowance_bytes = pacer_.allowance();
    found->is_near_limit = pacer_.IsNearLimit();
  }
  void Set(const Decision& decision) {
    decision_ = decision;
    next_.Set(decision.next);
  }
  // A cycle begins: the request is met, and the record of writes that a minor collection needs is
  // dropped.
  void BeginCycle() {
    is_cycle_wanted_.Set(false);
    is_minor_prepared_.Set(false);
  }
  // A cycle is over, in which `bytes` were allocated.
  void EndCycle(ptrdiff_t bytes);
  void BeginStop() {
    Set({});
    is_hurried_.Set(false);
  }
  // Whether the next collection can be a minor one, and whether it is expected to exceed the pause
  // goal. pre: the world is stopped, or the caller is the only thread.
  void PrepareMinor(bool is_prepared, bool is_long) {
    is_minor_prepared_.Set(is_prepared);
    is_minor_long_.Set(is_long);
  }

 private:
  const Pacer& pacer_;
  Decision decision_;  // guarded by the collector lock

  platform::Hint<NextCollection> next_{NextCollection::kUndecided};  // that of decision_
  platform::Hint<bool> is_cycle_wanted_{false};
  platform::Hint<bool> is_hurried_{false};
  platform::Hint<bool> is_minor_prepared_{false};
  platform::Hint<bool> is_minor_long_{false};
  // Bytes allocated during a cycle, smoothed; PTRDIFF_MAX before the end of the first cycle.
  platform::Hint<ptrdiff_t> cycle_bytes_{PTRDIFF_MAX};
};

}  // namespace gleaner::gc
