#include "platform/lock.h"

#include <gtest/gtest.h>

#include <ctime>

#include "tests/support/child.h"

namespace gleaner::platform {
namespace {

TEST(LockTest, TryAcquireFailsWhileHeld) {
  EXPECT_CHILD_OK([] {
    Lock lock(LockRank::kThreads);
    EXPECT_FALSE(lock.IsHeld());
    ASSERT_TRUE(lock.TryAcquire());
    EXPECT_TRUE(lock.IsHeld());
    EXPECT_FALSE(lock.TryAcquire());
    lock.Release();
    EXPECT_FALSE(lock.IsHeld());
    ASSERT_TRUE(lock.TryAcquire());
    lock.ResetAfterFork();
    EXPECT_FALSE(lock.IsHeld());
  });
}

// [inv.no-lock-in-stopped-thread]
TEST(LockTest, HoldingAHighRankIsACriticalSection) {
  EXPECT_CHILD_OK([] {
    Lock low(LockRank::kThreads);
    Lock high(LockRank::kOwner);
    ASSERT_EQ(t_critical.depth, 0u);
    low.Acquire();
    EXPECT_EQ(t_critical.depth, 0u);
    high.Acquire();
    EXPECT_EQ(t_critical.depth, 1u);
    EXPECT_FALSE(high.TryAcquire());
    EXPECT_EQ(t_critical.depth, 1u);
    high.Release();
    EXPECT_EQ(t_critical.depth, 0u);
    low.Release();
  });
}

#ifdef GLEANER_VERIFY
TEST(LockTest, TheVerifyBuildChecksTheOrder) {
  const auto result = testing::RunInChild([] {
    Lock low(LockRank::kHeaps);
    Lock high(LockRank::kMeta);
    high.Acquire();
    low.Acquire();
  });
  EXPECT_TRUE(result.aborted());
  EXPECT_NE(result.err.find("[inv.lock-rank]"), std::string::npos) << result.err;
}
#endif

TEST(FutexTest, AWaitForAnotherValueReturnsAtOnceAndOthersTimeOut) {
  Atomic<uint32_t> word{5};
  FutexWait(&word, 4);
  EXPECT_TRUE(FutexWaitFor(&word, 4, 1000000000u));
  timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  EXPECT_FALSE(FutexWaitFor(&word, 5, 20000000u));
  clock_gettime(CLOCK_MONOTONIC, &after);
  const double ms = static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
                    static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-6;
  EXPECT_GE(ms, 19.0);
}

}  // namespace
}  // namespace gleaner::platform
