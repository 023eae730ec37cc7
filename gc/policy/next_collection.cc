#include "gc/policy/next_collection.h"

namespace gleaner::gc {

namespace {

// A cycle may cost the program 1/kGoalPrice of its time more than a stop: that is what the pause
// goal is worth if the program has not set it.
constexpr double kGoalPrice = 32;

constexpr Decision Stop(Reason reason) { return {NextCollection::kStop, reason, true}; }
constexpr Decision Concurrent(Reason reason) {
  return {NextCollection::kConcurrent, reason, false};
}

}  // namespace

bool FitsIntoAllowance(const Measurements& found) {
  return found.garbage_in_cycle_bytes <=
         static_cast<double>(found.allowance_bytes) / kMaxRunwayShare;
}

bool IsDear(const Tunables& tunables, const Measurements& found) {
  return tunables.weighs_cost && found.loss_ns * kGoalPrice > found.run_ns &&
         !found.budget.Allows(found.loss_ns);
}

Decision Decide(const Tunables& tunables, const Measurements& found) {
  if (!tunables.concurrent_mark) return {NextCollection::kStop, Reason::kOnlyKind, false};  // K1
  if (found.is_cycle_wanted) return Concurrent(Reason::kAsked);                             // K2
  const bool fits = !tunables.automatic || FitsIntoAllowance(found);
  const bool is_dear = fits && IsDear(tunables, found);
  if (found.is_minor_next && (!found.is_minor_long || !fits || is_dear)) {
    return {NextCollection::kMinor, Reason::kYoungDie, true};  // K3
  }
  if (tunables.automatic && found.is_near_limit) return Stop(Reason::kMemoryLimit);     // K4
  if (found.expected_stop_ns < PauseGoalNs(tunables)) return Stop(Reason::kShortStop);  // K5
  if (!fits) return Stop(Reason::kFastAllocation);                                      // K6
  return is_dear ? Stop(Reason::kDearCycle) : Concurrent(Reason::kLongStop);            // K7, K8
}

void Schedule::EndCycle(ptrdiff_t bytes) {
  const ptrdiff_t before = cycle_bytes_.Get();
  const ptrdiff_t smoothed = before == PTRDIFF_MAX ? bytes : before + (bytes - before) / 4;
  cycle_bytes_.Set(smoothed > bytes ? smoothed : bytes);
}

}  // namespace gleaner::gc
