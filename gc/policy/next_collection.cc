#include "gc/policy/next_collection.h"

namespace gleaner::gc {

namespace {

constexpr Decision Stop(Reason reason, double price = 0) {
  return {NextCollection::kStop, reason, true, price};
}
constexpr Decision Concurrent(Reason reason, double price = 0) {
  return {NextCollection::kConcurrent, reason, false, price};
}

}  // namespace

bool FitsIntoAllowance(const Measurements& found) {
  return found.garbage_in_cycle_bytes <=
         static_cast<double>(found.allowance_bytes) / kMaxRunwayShare;
}

double LossOfCycle(const Measurements& found) {
  const auto allowance = static_cast<double>(found.allowance_bytes);
  const double garbage = found.garbage_in_cycle_bytes > 0 ? found.garbage_in_cycle_bytes : 0;
  const double times = garbage * kMaxRunwayShare < allowance ? allowance / (allowance - garbage)
                       : allowance > 0                       ? kMaxRunwayShare
                                                             : 1;
  const double expected = times * found.cycle_ns - found.stop_ns;
  return expected > found.excess_ns ? expected : found.excess_ns;
}

namespace {

bool IsTooMuch(double loss_ns, const Measurements& found) {
  return loss_ns * kGoalPrice > found.run_ns && !found.budget.Allows(loss_ns);
}

}  // namespace

bool IsDear(const Tunables& tunables, const Measurements& found) {
  return tunables.weighs_cost && IsTooMuch(LossOfCycle(found), found);
}

bool IsCycleGood(const Tunables& tunables, const Measurements& found) {
  return (!tunables.weighs_cost || FitsIntoAllowance(found)) && !IsDear(tunables, found);
}

Decision Decide(const Tunables& tunables, const Measurements& found) {
  if (!tunables.concurrent_mark) return {NextCollection::kStop, Reason::kOnlyKind, false, 0};  // K1
  if (found.is_cycle_wanted) return Concurrent(Reason::kAsked);                                // K2
  const bool fits = !tunables.weighs_cost || FitsIntoAllowance(found);
  const bool is_dear = fits && IsDear(tunables, found);
  if (found.is_minor_next && (!found.is_minor_long || !fits || is_dear)) {
    return {NextCollection::kMinor, Reason::kYoungDie, true, 0};  // K3
  }
  if (tunables.automatic && found.is_near_limit) return Stop(Reason::kMemoryLimit);     // K4
  if (found.expected_stop_ns < PauseGoalNs(tunables)) return Stop(Reason::kShortStop);  // K5
  if (!fits) return Stop(Reason::kFastAllocation);                                      // K6
  const double loss = LossOfCycle(found);
  const double price = loss > 0 && found.run_ns > 0 ? loss / found.run_ns : 0;
  if (!is_dear) return Concurrent(Reason::kLongStop, price);  // K8
  Measurements without_garbage = found;
  without_garbage.garbage_in_cycle_bytes = 0;
  const bool is_dear_without_garbage = IsDear(tunables, without_garbage);
  return Stop(is_dear_without_garbage ? Reason::kDearCycle : Reason::kFastAllocation, price);  // K7
}

void Schedule::EndCycle(ptrdiff_t bytes) {
  const ptrdiff_t before = cycle_bytes_.Get();
  const ptrdiff_t smoothed = before == PTRDIFF_MAX ? bytes : before + (bytes - before) / 4;
  cycle_bytes_.Set(smoothed > bytes ? smoothed : bytes);
}

}  // namespace gleaner::gc
