// One thread has the turn; who gives up leaves no hole in the row.
#include "runtime/observe/snapshot_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace gleaner::runtime {
namespace {

TEST(SnapshotTurnsTest, OneAfterTheOther) {
  SnapshotTurns turns;
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(turns.IsTaken());
    ASSERT_TRUE(turns.Begin(0));
    EXPECT_TRUE(turns.IsTaken());
    turns.End();
  }
}

TEST(SnapshotTurnsTest, ThoseWhoGiveUpAreSkipped) {
  SnapshotTurns turns;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(turns.Begin(0));
    // More than may wait at a time.
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(turns.Begin(0));
    turns.End();
    EXPECT_FALSE(turns.IsTaken());
  }
}

TEST(SnapshotTurnsTest, WhoComesFirstIsServedFirst) {
  SnapshotTurns turns;
  ASSERT_TRUE(turns.Begin(0));
  std::atomic<bool> was_served = false;
  std::thread other([&] {
    ASSERT_TRUE(turns.Begin(60'000));
    was_served = true;
    turns.End();
  });
  // It has come when the one that ends a turn does not get the next one at once.
  do {
    turns.End();
  } while (turns.Begin(0) && !was_served);
  other.join();
  EXPECT_TRUE(was_served);
}

TEST(SnapshotTurnsTest, MoreThreadsThanMayWait) {
  constexpr int kThreads = 100;
  SnapshotTurns turns;
  ASSERT_TRUE(turns.Begin(0));
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ASSERT_TRUE(turns.Begin(60'000));
      ++served;
      turns.End();
    });
  }
  EXPECT_EQ(served, 0);
  turns.End();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kThreads);
}

TEST(SnapshotTurnsTest, ManyThreads) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  constexpr int kThreads = 8;
  constexpr int kRounds = 300;
  SnapshotTurns turns;
  std::atomic<int> inside = 0;
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(seed + i);
      for (int round = 0; round < kRounds; ++round) {
        if (!turns.Begin(static_cast<int>(random() % 2))) continue;
        EXPECT_EQ(inside++, 0);
        if (random() % 4 == 0) std::this_thread::yield();
        EXPECT_EQ(inside--, 1);
        ++served;
        turns.End();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_FALSE(turns.IsTaken());
  EXPECT_TRUE(turns.Begin(0));
}

}  // namespace
}  // namespace gleaner::runtime
