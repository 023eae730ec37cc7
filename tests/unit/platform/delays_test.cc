#include "platform/faults/delays.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "platform/os/atomic.h"
#include "platform/os/lock.h"
#include "tests/support/child.h"

namespace gleaner::platform {
namespace {

constexpr int kRepeats = 20;

// Delays that kRepeats calls of f take if every step is delayed.
template <class F>
uint64_t DelaysOf(const F& f) {
  SetDelays(1);
  const uint64_t before = DelayCount();
  for (int i = 0; i < kRepeats; ++i) f();
  SetDelays(0);
  return DelayCount() - before;
}

constexpr uint64_t Times(uint64_t steps) { return kVerifyBuild ? kRepeats * steps : 0; }

CHILD_TEST(DelaysTest, StepsThatOrderOthersAreDelayed) {
  Atomic<uint32_t> word{0};
  uint32_t expected = 7;
  EXPECT_EQ(DelaysOf([&] { word.Load(memory_order_acquire); }), Times(1));
  EXPECT_EQ(DelaysOf([&] { word.Store(1, memory_order_release); }), Times(2));
  EXPECT_EQ(DelaysOf([&] { word.Exchange(1, memory_order_acq_rel); }), Times(2));
  EXPECT_EQ(DelaysOf([&] { word.FetchAdd(1, memory_order_seq_cst); }), Times(2));
  EXPECT_EQ(DelaysOf([&] { word.FetchSub(1, memory_order_seq_cst); }), Times(2));
  EXPECT_EQ(DelaysOf([&] { word.CompareExchange(expected, 1, memory_order_acquire); }), Times(2));
  EXPECT_EQ(DelaysOf([] { MaybeDelay(); }), Times(1));
  Lock lock(LockRank::kThreads);
  EXPECT_EQ(DelaysOf([&] { LockGuard guard(lock); }), Times(4));
}

CHILD_TEST(DelaysTest, RelaxedOnesAreNot) {
  Atomic<uint32_t> word{0};
  EXPECT_EQ(DelaysOf([&] {
              word.Load(memory_order_relaxed);
              word.Store(1, memory_order_relaxed);
              word.FetchAdd(1, memory_order_relaxed);
            }),
            0u);
}

CHILD_TEST(DelaysTest, OneInSoManySteps) {
  constexpr uint32_t kSteps = 100;
  constexpr uint64_t kDelays = 300;
  SetDelays(kSteps);
  for (uint64_t i = 0; i < kDelays * kSteps; ++i) MaybeDelay();
  SetDelays(0);
  // The gaps are uniform from 1 to 199 steps: the sum of 300 strays by 3.3 % of itself.
  EXPECT_GE(DelayCount(), kVerifyBuild ? kDelays * 3 / 4 : 0);
  EXPECT_LE(DelayCount(), kVerifyBuild ? kDelays * 4 / 3 : 0);
}

CHILD_TEST(DelaysTest, NoneUnlessAskedFor) {
  for (int i = 0; i < 1000; ++i) MaybeDelay();
  EXPECT_EQ(DelayCount(), 0u);
}

CHILD_TEST(DelaysTest, ErrnoIsKept) {
  errno = 42;
  DelaysOf([] { MaybeDelay(); });
  EXPECT_EQ(errno, 42);
}

}  // namespace
}  // namespace gleaner::platform
