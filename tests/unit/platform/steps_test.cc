// Calls at steps, as tests make them. Only in the verify build.
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "platform/faults/delays.h"
#include "platform/os/lock.h"
#include "tests/support/at_steps.h"
#include "tests/support/child.h"

namespace gleaner::platform {
namespace {

void CountCall(void* calls) { ++*static_cast<int*>(calls); }

CHILD_TEST(StepsTest, EachStepOfTheThreadCalls) {
  Atomic<uint32_t> word{0};
  int calls = 0;
  CallAtSteps(CountCall, &calls);
  MaybeDelay();
  EXPECT_EQ(calls, 1);
  word.Store(1, memory_order_release);
  EXPECT_EQ(calls, 3);
  word.Store(1, memory_order_relaxed);
  EXPECT_EQ(calls, 3);
  std::thread([] { MaybeDelay(); }).join();
  EXPECT_EQ(calls, 3);
  CallAtSteps(nullptr, nullptr);
  MaybeDelay();
  EXPECT_EQ(calls, 3);
}

CHILD_TEST(StepsTest, ACallIsNotDelayedAndItsOwnStepsDoNotCall) {
  int calls = 0;
  CallAtSteps(
      [](void* context) {
        MaybeDelay();
        CountCall(context);
        errno = 42;
      },
      &calls);
  SetDelays(1);
  errno = 7;
  const uint64_t before = DelayCount();
  for (int i = 0; i < 10; ++i) MaybeDelay();
  CallAtSteps(nullptr, nullptr);
  SetDelays(0);
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(DelayCount() - before, 10u) << "those of the calls";
  EXPECT_EQ(errno, 7);
}

// As it may be at any step of taking one and letting it go, not only in between.
CHILD_TEST(StepsTest, ALockIsHeldAtItsOwnSteps) {
  Lock lock(LockRank::kOwner);
  Lock other(LockRank::kCollector);  // held by threads that can be stopped
  for (const bool tries : {false, true}) {
    size_t steps = 0;
    size_t held = 0;
    const auto count = [&steps, &held] {
      ++steps;
      held += HoldsDeferringLock() ? 1 : 0;
    };
    {
      const testing::AtEachStep at_steps(count);
      other.Acquire();
      EXPECT_EQ(held, 0u);
      if (tries) {
        EXPECT_TRUE(lock.TryAcquire());
      } else {
        lock.Acquire();
      }
      EXPECT_TRUE(HoldsDeferringLock());
      lock.Release();
      EXPECT_FALSE(HoldsDeferringLock());
      other.Release();
    }
    // All four of the one lock, and not the four of the other and the end of the section.
    EXPECT_EQ(held, 4u);
    EXPECT_EQ(steps, 9u);
  }
}

}  // namespace
}  // namespace gleaner::platform
