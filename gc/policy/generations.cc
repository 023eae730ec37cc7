#include "gc/policy/generations.h"

namespace gleaner::gc {

void Generations::LearnFromFull(const Outcome& outcome, uint64_t allowance_bytes) {
  full_ns_ = outcome.cost_ns;
  full_stop_ns_ = outcome.stop_ns;
  max_live_bytes_ = outcome.live_bytes + allowance_bytes / kGrowthShare;
  minors_ = 0;
  minor_stop_ns_ = outcome.minor_stop_ns;
  const bool was_sampled = wants_sample_ && outcome.is_sampled;
  if (rest_ != 0 && --rest_ == 0) unpaid_ = kPatience - 1;  // one trial
  const bool most_die =
      outcome.young_bytes != 0 && outcome.freed_bytes * kMinFreed >= outcome.young_bytes;
  const bool may = mode_ != GenerationalMode::kOff && max_minors_ != 0;
  const bool may_try = may && rest_ == 0 && most_die;
  const bool is_worth = budget_ == nullptr || outcome.minor_cost_ns < WorthOf(outcome);
  wants_minor_ =
      ((may && mode_ == GenerationalMode::kAlways) || (may_try && is_worth && MayLoseAgain())) &&
      IsShortEnough();
  // That all memory is written may be why it does not pay, or is expected to take too long.
  const bool may_be_wrong =
      !is_worth || (!outcome.are_faults_known && !was_minor_ && !IsShortEnough());
  wants_sample_ = budget_ != nullptr && may_try && !wants_minor_ && !was_sampled && may_be_wrong;
  if (was_sampled && may_try && !is_worth) Rest();
}

double Generations::WorthOf(const Outcome& outcome) const {
  const auto young_bytes = static_cast<double>(outcome.young_bytes);
  return young_bytes == 0 ? 0
                          : static_cast<double>(full_ns_) *
                                static_cast<double>(outcome.freed_bytes) / young_bytes;
}

void Generations::LearnFromMinor(const Outcome& outcome) {
  ++minors_;
  wants_sample_ = false;
  loss_ns_ = static_cast<double>(outcome.cost_ns) - WorthOf(outcome);
  was_minor_ = true;
  if (budget_ != nullptr) budget_->AddLoss(loss_ns_);
  const bool pays = loss_ns_ < 0;
  unpaid_ = pays ? 0 : unpaid_ + 1;
  if (pays) next_rest_ = kFirstRest;
  if (full_stop_ns_ != 0) {
    // 1 at most: what takes longer than a full one was held up.
    const double share = static_cast<double>(outcome.stop_ns) / static_cast<double>(full_stop_ns_);
    minor_share_ = share < 1 ? share : 1;
  }
  wants_minor_ = mode_ != GenerationalMode::kOff && minors_ < max_minors_ &&
                 outcome.live_bytes <= max_live_bytes_ && IsShortEnough() &&
                 (mode_ == GenerationalMode::kAlways || MayLoseAgain());
  if (unpaid_ < kPatience || mode_ != GenerationalMode::kAdaptive) return;
  wants_minor_ = false;
  Rest();
}

}  // namespace gleaner::gc
