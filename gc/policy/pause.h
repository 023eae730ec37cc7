// A pause and its parts. docs/reference/statistics.md tells what is done in which part.
#pragma once

#include "observe/events.h"
#include "platform/os/clock.h"

namespace gleaner::gc {

enum class PausePart : uint8_t {
  kStop,    // from the first signal until every thread is stopped
  kRoots,   // the threads' unused runs are retired, the roots are collected
  kDirty,   // dirty cards are found and scanned again; pages are armed for a minor collection
  kMark,    // the roots, and all reachable objects that are not marked yet, are scanned
  kWeak,    // links, finalizers, toggle references; World::inspect
  kSweep,   // the epoch changes, pages are classified, the next cycle is paced
  kResume,  // until the call that resumes the threads has returned
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
  // Sets each figure to the larger of the two.
  void Raise(const PauseTimes& other) {
    if (other.all_ns > all_ns) all_ns = other.all_ns;
    for (int i = 0; i < kPauseParts; ++i) {
      if (other.part_ns[i] > part_ns[i]) part_ns[i] = other.part_ns[i];
    }
  }
};

// Measures one pause, which is in one part at any time and may enter a part several times. The
// collecting thread only. Call order: Enter any number of times, then End once.
class PauseClock {
 public:
  // The pause begins in kStop.
  PauseClock() : begin_ns_(platform::NowNs()), since_ns_(begin_ns_) {}

  void Enter(PausePart part) {
    Charge(platform::NowNs());
    part_ = part;
  }
  // Ends the pause.
  const PauseTimes& End() {
    Charge(platform::NowNs());
    return times_;
  }
  // Since the last Enter.
  uint64_t InPartNs() const { return platform::NowNs() - since_ns_; }
  uint64_t begin_ns() const { return begin_ns_; }
  uint64_t end_ns() const { return since_ns_; }  // after End

 private:
  void Charge(uint64_t now) {
    times_.part_ns[static_cast<int>(part_)] += now - since_ns_;
    platform::OnPausePart(part_, since_ns_, now - since_ns_);
    times_.all_ns = now - begin_ns_;
    since_ns_ = now;
  }

  PauseTimes times_;
  PausePart part_ = PausePart::kStop;
  uint64_t begin_ns_;
  uint64_t since_ns_;
};

}  // namespace gleaner::gc
