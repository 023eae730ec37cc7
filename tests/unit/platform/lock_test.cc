#include "platform/os/lock.h"

#include <gtest/gtest.h>

#include <thread>

#include "platform/threads/thread.h"
#include "tests/support/child.h"
#include "tests/support/thread_state.h"

namespace gleaner::platform {
namespace {

CHILD_TEST(LockTest, TryAcquireFailsWhileHeld) {
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
}

// [inv.no-lock-in-stopped-thread]
CHILD_TEST(LockTest, HoldingAHighRankIsACriticalSection) {
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
  // It sleeps meanwhile, and is seen to.
  Atomic<int32_t> tid{0};
  Atomic<bool> is_seen{false};
  std::thread waiter([&] {
    tid.Store(CurrentThreadId(), memory_order_seq_cst);
    do {
      EXPECT_FALSE(FutexWaitFor(&word, 5, 20000000u));
    } while (!is_seen.Load(memory_order_seq_cst));
  });
  while (tid.Load(memory_order_seq_cst) == 0) CpuRelax();
  testing::AwaitSleep(tid.Load(memory_order_seq_cst));
  is_seen.Store(true, memory_order_seq_cst);
  waiter.join();
}

}  // namespace
}  // namespace gleaner::platform
