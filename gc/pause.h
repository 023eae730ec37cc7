// A pause and what it is spent on. docs/latency.md says what is done in which part.
#pragma once

#include "platform/clock.h"

namespace gleaner::gc {

enum class PausePart : uint8_t {
  kStop,    // from the first signal until every thread is stopped
  kRoots,   // what the threads hold in reserve is hidden, the roots are found
  kDirty,   // objects on pages written to since they were marked are scanned anew
  kMark,    // the roots are scanned, and all that is reachable and not marked yet
  kWeak,    // links, finalizers, toggle references; what the runtime asks of the marks
  kSweep,   // the epoch changes, pages are classified, the next cycle is paced
  kResume,  // until the call that lets the threads go on has returned
};
inline constexpr int kPauseParts = 7;
constexpr const char* NameOf(PausePart part) {
  constexpr const char* kNames[] = {"stop", "roots", "dirty", "mark", "weak", "sweep", "resume"};
  return kNames[static_cast<int>(part)];
}

// Durations in nanoseconds. Those of the parts add up to `all_ns`.
struct PauseTimes {
  uint64_t all_ns = 0;
  uint64_t part_ns[kPauseParts] = {};

  uint64_t of(PausePart part) const { return part_ns[static_cast<int>(part)]; }
  void Add(const PauseTimes& other) {
    all_ns += other.all_ns;
    for (int i = 0; i < kPauseParts; ++i) part_ns[i] += other.part_ns[i];
  }
  // Each figure becomes the larger one.
  void Raise(const PauseTimes& other) {
    if (other.all_ns > all_ns) all_ns = other.all_ns;
    for (int i = 0; i < kPauseParts; ++i) {
      if (other.part_ns[i] > part_ns[i]) part_ns[i] = other.part_ns[i];
    }
  }
};

// Measures one pause: it is in one part at any time, in each as often as need be. The collecting
// thread only.
class PauseClock {
 public:
  // The pause begins, with kStop.
  PauseClock() : begin_ns_(platform::NowNs()), since_ns_(begin_ns_) {}

  void Enter(PausePart part) {
    Charge(platform::NowNs());
    part_ = part;
  }
  // The pause is over.
  const PauseTimes& End() {
    Charge(platform::NowNs());
    return times_;
  }
  uint64_t begin_ns() const { return begin_ns_; }
  uint64_t end_ns() const { return since_ns_; }  // after End

 private:
  void Charge(uint64_t now) {
    times_.part_ns[static_cast<int>(part_)] += now - since_ns_;
    times_.all_ns = now - begin_ns_;
    since_ns_ = now;
  }

  PauseTimes times_;
  PausePart part_ = PausePart::kStop;
  uint64_t begin_ns_;
  uint64_t since_ns_;
};

}  // namespace gleaner::gc
