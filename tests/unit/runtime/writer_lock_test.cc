// One thread of a process has the lock; who gives up leaves it as it is; a child gets its parent's.
#include "runtime/observe/writer_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/child.h"

namespace gleaner::runtime {
namespace {

TEST(WriterLockTest, OneAfterTheOther) {
  WriterLock lock;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(lock.holder(), 0);
    ASSERT_TRUE(i % 2 == 0 ? lock.TryAcquire() : lock.AcquireWithin(0));
    EXPECT_EQ(lock.holder(), getpid());
    lock.Release();
  }
}

TEST(WriterLockTest, WhoGivesUpLeavesItAsItIs) {
  WriterLock lock;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(lock.TryAcquire());
    for (int i = 0; i < 100; ++i)
      EXPECT_FALSE(i % 2 == 0 ? lock.TryAcquire() : lock.AcquireWithin(0));
    EXPECT_EQ(lock.holder(), getpid());
    lock.Release();
    EXPECT_EQ(lock.holder(), 0);
  }
}

TEST(WriterLockTest, WhoWaitsGetsIt) {
  constexpr int kThreads = 20;
  WriterLock lock;
  ASSERT_TRUE(lock.TryAcquire());
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ASSERT_TRUE(lock.AcquireWithin(60'000));
      ++served;
      lock.Release();
    });
  }
  EXPECT_EQ(served, 0);
  lock.Release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kThreads);
}

TEST(WriterLockTest, ManyThreads) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  constexpr int kThreads = 8;
  constexpr int kRounds = 300;
  WriterLock lock;
  std::atomic<int> inside = 0;
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(seed + i);
      for (int round = 0; round < kRounds; ++round) {
        if (!lock.AcquireWithin(static_cast<int>(random() % 2))) continue;
        EXPECT_EQ(inside++, 0);
        if (random() % 4 == 0) std::this_thread::yield();
        EXPECT_EQ(inside--, 1);
        ++served;
        lock.Release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_EQ(lock.holder(), 0);
  EXPECT_TRUE(lock.TryAcquire());
}

// As after a fork by another thread than the holder.
TEST(WriterLockTest, AChildGetsItsParents) {
  WriterLock lock;
  ASSERT_TRUE(lock.TryAcquire());
  const int parent = getpid();
  const int child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool is_right = lock.holder() == parent && lock.TryAcquire() && !lock.TryAcquire();
    is_right = is_right && lock.holder() == getpid();
    lock.ResetAfterFork();
    _exit(is_right && lock.holder() == 0 && lock.TryAcquire() ? 0 : 1);
  }
  EXPECT_EQ(testing::StatusOf(child), 0);
  EXPECT_EQ(lock.holder(), parent);
}

}  // namespace
}  // namespace gleaner::runtime
