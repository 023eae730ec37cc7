// How often a test of a race repeats it.
#pragma once

#include <chrono>
#include <cstdint>

namespace gleaner::testing {

// For tests of races, whose rounds take long on a loaded machine: they do as many as they have time
// for, and one at least.
class Rounds {
 public:
  explicit Rounds(uint64_t max) : max_(max) {}
  // Whether there is another; to be asked before each.
  bool Next() {
    if (done_ == max_) return false;
    if (done_ != 0 && std::chrono::steady_clock::now() >= end_) return false;
    ++done_;
    return true;
  }
  uint64_t current() const { return done_; }  // from 1

 private:
  const uint64_t max_;
  uint64_t done_ = 0;
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(3);
};

}  // namespace gleaner::testing
