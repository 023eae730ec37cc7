// How much the collector may lose by kinds of collection that do not pay, where it chooses the kind
// itself (docs/design/policy.md, "What a kind costs").
//
// What tracking costs the program depends on the machine and on what the program writes, so whether
// a concurrent cycle or a minor collection pays is known only after one has been tried. A trial may
// lose. All losses together stay below 1/kShare of the program's processor time, and what the
// caller adds to that: a kind that has lost is tried again when the program has run long enough for
// another such loss.
//
// Guarded by the collector lock.
#pragma once

#include <cstdint>

namespace gleaner::gc {

class LossBudget {
 public:
  // The program has run for so many nanoseconds of processor time more.
  void Run(uint64_t processor_ns) { run_ns_ += static_cast<double>(processor_ns); }
  // A collection has cost so much more than one of another kind would have; what is gained
  // (negative) does not count, since it is no reason to lose again.
  void AddLoss(double loss_ns) {
    if (loss_ns > 0) lost_ns_ += loss_ns;
  }
  // How much may be lost now; negative if more has been lost than the program has run for.
  double Left() const { return run_ns_ / kShare - lost_ns_; }
  // Whether a collection may be tried that loses at most this much.
  bool Allows(double loss_ns) const { return loss_ns <= Left(); }
  double lost_ns() const { return lost_ns_; }

 private:
  static constexpr double kShare = 50;

  double run_ns_ = 0;
  double lost_ns_ = 0;
};

}  // namespace gleaner::gc
