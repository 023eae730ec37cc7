// Whether the next collection should be a minor one: docs/design/collection.md, "By yield".
//
// When it may be minor, no old object holds a pointer to a young one [inv.no-old-to-young].
//
// Guarded by the collector lock. At the end of each collection: Configure, then LearnFromFull or
// LearnFromMinor, then WantsMinor.
#pragma once

#include <cstdint>

#include "gc/policy/loss_budget.h"

namespace gleaner::gc {

enum class GenerationalMode : uint8_t {
  kOff,
  kAdaptive,  // minor collections as long as they pay
  kAlways,    // minor collections whether they pay or not (for tests)
};

class Generations {
 public:
  // `max_minors`: between two full collections. `max_stop_ns`: a minor collection that is expected
  // to stop the program for longer is not wanted, unless the mode is kAlways. `budget`: losses are
  // counted there, and minor collections that may lose more than it allows are not wanted; null:
  // losses are not weighed.
  void Configure(GenerationalMode mode, uint64_t max_minors, uint64_t max_stop_ns = UINT64_MAX,
                 LossBudget* budget = nullptr) {
    mode_ = mode;
    max_minors_ = max_minors;
    max_stop_ns_ = max_stop_ns;
    budget_ = budget;
  }

  struct Outcome {
    uint64_t stop_ns;      // of the collection; of a concurrent one, what a stop-parallel one takes
    uint64_t cost_ns;      // processor time of the program, with its write faults
    uint64_t young_bytes;  // allocated since the collection before
    uint64_t freed_bytes;
    uint64_t live_bytes;  // not freed; after a minor collection this includes dead old objects
    // Of a full collection: what a minor one in its place would have taken, if all that is young
    // and was not freed is what it would have kept.
    uint64_t minor_stop_ns = 0;
    double minor_cost_ns = 0;      // processor time of the program, with its write faults
    bool are_faults_known = true;  // else they are those of all memory that is tracked
    bool is_sampled = false;       // a sample that was wanted has been counted
  };
  // A collection of the whole heap is over. `allowance_bytes`: until the next collection.
  void LearnFromFull(const Outcome& outcome, uint64_t allowance_bytes);
  void LearnFromMinor(const Outcome& outcome);

  // Whether the next collection that allocation causes should be minor.
  bool WantsMinor() const { return wants_minor_; }
  // Whether it should be found out how much the program writes: if it writes to all memory that is
  // tracked, minor collections do not pay, and nobody knows whether it does.
  bool WantsSample() const { return wants_sample_; }
  // What finding that out may cost, in processor time of the program.
  double MaxSampleNs() const { return budget_ == nullptr ? 0 : MaxLoss(); }
  // How long a minor collection is expected to stop the program: the last full stop, times the
  // ratio of the last minor stop to the full stop before it. If there was no minor one, what the
  // last full one says.
  uint64_t ExpectedMinorNs() const {
    return was_minor_ ? static_cast<uint64_t>(minor_share_ * static_cast<double>(full_stop_ns_))
                      : minor_stop_ns_;
  }

 private:
  // What a full collection costs that frees as much: it would have freed about as much as was
  // allocated.
  double WorthOf(const Outcome& outcome) const;
  bool IsShortEnough() const {
    return mode_ == GenerationalMode::kAlways || ExpectedMinorNs() <= max_stop_ns_;
  }
  // What may be lost by a trial: what the budget has left, and a full collection, which is about
  // what a minor one can gain. So in the long run the budget is kept, and in the beginning a trial
  // is not put off longer than it costs.
  double MaxLoss() const { return budget_->Left() + static_cast<double>(full_ns_); }
  // Whether the last trial's loss may come again.
  bool MayLoseAgain() const { return budget_ == nullptr || loss_ns_ <= 0 || loss_ns_ <= MaxLoss(); }
  // Minor collections are not tried for some full ones, each time for twice as many.
  void Rest() {
    rest_ = next_rest_;
    if (next_rest_ < kLongestRest) next_rest_ *= 2;
  }

  // Minor collections stop after this many unprofitable ones in a row.
  static constexpr int kPatience = 2;
  // Minor collections start only if the last full one freed 1/kMinFreed of the young bytes.
  static constexpr uint64_t kMinFreed = 2;
  // Full collections until minor ones are tried again: the first time, and the limit of its growth.
  // A trial that does not pay costs about two full collections, with what it leaves to the next
  // one: at most 1 % of the collections' time in the long run.
  static constexpr uint32_t kFirstRest = 8;
  static constexpr uint32_t kLongestRest = 256;
  // A full collection is due when the heap has grown by 1/kGrowthShare of the allowance since the
  // last full one: dead old objects take memory, and room from the young.
  static constexpr uint64_t kGrowthShare = 4;

  GenerationalMode mode_ = GenerationalMode::kOff;
  uint64_t max_minors_ = 0;            // maximum of minor collections between two full ones
  uint64_t max_stop_ns_ = UINT64_MAX;  // maximum of a minor collection's expected stop
  bool wants_minor_ = false;
  bool wants_sample_ = false;
  uint64_t minors_ = 0;              // minor collections since the last full one
  int unpaid_ = 0;                   // unprofitable minor collections in a row
  uint32_t rest_ = 0;                // full collections until minor ones are tried again
  uint32_t next_rest_ = kFirstRest;  // the next value of rest_
  uint64_t full_ns_ = 0;             // cost of the last full collection
  uint64_t full_stop_ns_ = 0;        // stop of the last full collection
  double minor_share_ = 1;           // the last minor collection's stop, in parts of full_stop_ns_
  // What the last minor collection cost more than a full one that frees as much.
  double loss_ns_ = 0;
  bool was_minor_ = false;      // there was a minor one
  uint64_t minor_stop_ns_ = 0;  // Outcome::minor_stop_ns
  LossBudget* budget_ = nullptr;
  uint64_t max_live_bytes_ = 0;  // a minor collection that leaves more ends minor collections
};

}  // namespace gleaner::gc
