// What the tests of threads share: random numbers from --seed, and threads that start together.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "platform/os/atomic.h"
#include "platform/os/clock.h"
#include "tests/support/flags.h"

namespace gleaner::testing {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
// Work is divided by this.
inline constexpr size_t kSlowdown = kThreadSanitizer ? 8 : 1;

class Random {
 public:
  explicit Random(uint64_t stream)
      : state_(Mix64(uint64_t{Seed()} * 0x9e3779b97f4a7c15u + stream)) {}
  uint64_t Next() { return Mix64(state_ += 0x9e3779b97f4a7c15u); }
  size_t Below(size_t n) { return static_cast<size_t>(Next() % n); }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

// Lets other threads in, or goes on at once, so that steps interleave differently each time.
inline void Jitter(Random& random) {
  if (random.OneIn(16)) sched_yield();
  for (size_t i = random.Below(64); i != 0; --i) platform::CpuRelax();
}

// Runs f(0) ... f(count - 1), each on a thread of its own, all begun before any goes on.
template <class F>
void RunThreads(size_t count, F f) {
  std::barrier<> begin(static_cast<ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&begin, &f, i] {
      begin.arrive_and_wait();
      f(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A time limit for loops that wait for another thread.
class Deadline {
 public:
  explicit Deadline(uint64_t seconds) : end_(platform::NowNs() + seconds * 1000000000u) {}
  bool passed() const { return platform::NowNs() > end_; }

 private:
  uint64_t end_;
};

class ConcurrentTest : public ::testing::Test {
 protected:
  void SetUp() override { Seed(); }  // is printed
};

}  // namespace gleaner::testing
