// Whether the next collection may be a minor one: docs/generational.md, "By yield".
//
// When it may, no old object holds a pointer to a young one [inv.no-old-to-young].
//
// Guarded by the collector lock; NoteFull and NoteMinor at the end of each collection.
#pragma once

#include <cstdint>

namespace gleaner::gc {

enum class GenerationalMode : uint8_t {
  kOff,
  kAdaptive,  // minor collections as long as they pay
  kAlways,    // whether they pay or not (for tests)
};

class Generations {
 public:
  void Configure(GenerationalMode mode, uint64_t most_minors) {
    mode_ = mode;
    most_minors_ = most_minors;
  }

  struct Outcome {
    uint64_t cost_ns;      // with the program's write faults
    uint64_t young_bytes;  // allocated since the collection before
    uint64_t freed_bytes;
    uint64_t live_bytes;  // what is left; after a minor collection with what is dead and old
  };
  // A collection of the whole heap is over; the allowance is what follows.
  void NoteFull(const Outcome& outcome, uint64_t allowance_bytes);
  void NoteMinor(const Outcome& outcome);

  // Whether the next collection that allocation causes should be minor.
  bool WantsMinor() const { return wants_minor_; }

 private:
  // So many minor collections running that do not pay end them.
  static constexpr int kPatience = 2;
  // As long as full ones free less than this part of what is young, no minor one is tried.
  static constexpr uint64_t kMinFreed = 2;
  // For so many full ones at first, and at most.
  static constexpr uint32_t kFirstRest = 2;
  static constexpr uint32_t kLongestRest = 64;
  // A full one is due when the heap has grown by this part of the allowance that followed the last
  // one: what minor collections keep costs memory, and room for the young.
  static constexpr uint64_t kGrowthShare = 4;

  GenerationalMode mode_ = GenerationalMode::kOff;
  uint64_t most_minors_ = 0;
  bool wants_minor_ = false;
  uint64_t minors_ = 0;  // since the last full one
  int unpaid_ = 0;       // minor ones running
  uint32_t rest_ = 0;    // full collections until minor ones are tried again
  uint32_t next_rest_ = kFirstRest;
  uint64_t full_ns_ = 0;
  uint64_t most_live_bytes_ = 0;  // of minor collections
};

}  // namespace gleaner::gc
