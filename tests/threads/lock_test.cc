// platform::Lock keeps threads out of each other's way and loses no sleeper; the futex calls do
// what they promise.
#include "platform/os/lock.h"

#include "platform/threads/thread.h"
#include "tests/support/thread_state.h"
#include "tests/threads/concurrent.h"

namespace gleaner::platform {
namespace {

using namespace testing;

class LockConcurrentTest : public testing::ConcurrentTest {};
class FutexConcurrentTest : public testing::ConcurrentTest {};

// What the lock guards: plain data, so that the sanitizer sees any gap.
struct Guarded {
  uint64_t count = 0;
  uint64_t inside = 0;  // 1 while a thread is between Acquire and Release
};

void Work(Lock& lock, Guarded& guarded, Random& random, size_t rounds, bool with_try) {
  for (size_t i = 0; i < rounds; ++i) {
    if (with_try && random.OneIn(3)) {
      if (!lock.TryAcquire()) {
        --i;
        Jitter(random);
        continue;
      }
    } else {
      lock.Acquire();
    }
    ASSERT_EQ(guarded.inside, 0u);
    guarded.inside = 1;
    if (random.OneIn(8)) Jitter(random);
    ++guarded.count;
    ASSERT_TRUE(lock.IsHeld());
    guarded.inside = 0;
    lock.Release();
    if (random.OneIn(4)) Jitter(random);
  }
  EXPECT_EQ(t_critical.depth, 0u);
}

TEST_F(LockConcurrentTest, OneThreadAtATime) {
  const size_t rounds = 60000 / testing::kSlowdown;
  for (const LockRank rank : {LockRank::kThreads, LockRank::kOwner}) {
    for (const size_t threads : {2u, 4u, 8u}) {
      for (const bool with_try : {false, true}) {
        Lock lock(rank);
        Guarded guarded;
        RunThreads(threads, [&](size_t i) {
          Random random(i);
          Work(lock, guarded, random, rounds / threads, with_try);
        });
        EXPECT_EQ(guarded.count, rounds / threads * threads);
        EXPECT_FALSE(lock.IsHeld());
      }
    }
  }
}

// Held so long that every waiter sleeps in the kernel; each must be woken in its turn. A lost
// wake-up is a time-out of the test.
TEST_F(LockConcurrentTest, SleepersAreWoken) {
  for (int round = 0; round < 20; ++round) {
    Lock lock(LockRank::kThreads);
    uint64_t entered = 0;  // guarded by lock
    Atomic<uint32_t> waiting{0};
    Atomic<int32_t> tids[6] = {};
    std::vector<std::thread> threads;
    lock.Acquire();
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        tids[i].Store(CurrentThreadId(), memory_order_seq_cst);
        waiting.FetchAdd(1, memory_order_seq_cst);
        lock.Acquire();
        ++entered;
        lock.Release();
      });
    }
    while (waiting.Load(memory_order_seq_cst) != 6) sched_yield();
    for (const Atomic<int32_t>& tid : tids) AwaitSleep(tid.Load(memory_order_seq_cst));
    EXPECT_EQ(entered, 0u);
    lock.Release();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(entered, 6u);
    EXPECT_FALSE(lock.IsHeld());
  }
}

// Two locks taken in order of rank by all, as everywhere in the library.
TEST_F(LockConcurrentTest, NestedInOrderOfRank) {
  const size_t rounds = 20000 / testing::kSlowdown;
  Lock outer(LockRank::kHeaps);
  Lock inner(LockRank::kOwner);
  uint64_t guarded_by_outer = 0;
  uint64_t guarded_by_inner = 0;
  RunThreads(4, [&](size_t i) {
    Random random(i);
    for (size_t n = 0; n < rounds; ++n) {
      const bool both = random.OneIn(2);
      if (both) outer.Acquire();
      if (both) ++guarded_by_outer;
      {
        LockGuard guard(inner);
        ++guarded_by_inner;
        EXPECT_EQ(t_critical.depth, both ? 2u : 1u);
      }
      if (both) outer.Release();
      EXPECT_EQ(t_critical.depth, 0u);
    }
  });
  EXPECT_EQ(guarded_by_inner, 4 * rounds);
  EXPECT_LE(guarded_by_outer, 4 * rounds);
}

TEST_F(FutexConcurrentTest, WakeReachesAsManyAsAskedFor) {
  constexpr uint32_t kThreads = 5;
  Atomic<uint32_t> word{0};
  Atomic<uint32_t> ready{0};
  Atomic<uint32_t> woken{0};
  Atomic<bool> over{false};
  Atomic<int32_t> tids[kThreads] = {};
  Atomic<bool> is_woken[kThreads] = {};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      tids[i].Store(CurrentThreadId(), memory_order_seq_cst);
      ready.FetchAdd(1, memory_order_seq_cst);
      // Interrupted waits may return early; only a wait that was woken counts.
      while (!over.Load(memory_order_seq_cst)) {
        if (FutexWaitFor(&word, 0, 10000000000u)) {
          woken.FetchAdd(1, memory_order_seq_cst);
          is_woken[i].Store(true, memory_order_seq_cst);
          return;
        }
      }
    });
  }
  while (ready.Load(memory_order_seq_cst) != kThreads) sched_yield();
  for (const Atomic<int32_t>& tid : tids) AwaitSleep(tid.Load(memory_order_seq_cst));
  EXPECT_EQ(woken.Load(memory_order_seq_cst), 0u);
  for (const uint32_t expected : {1u, 3u}) {
    FutexWake(&word, static_cast<int>(expected - woken.Load(memory_order_seq_cst)));
    const Deadline deadline(10);
    while (woken.Load(memory_order_seq_cst) != expected && !deadline.passed()) sched_yield();
    // The others sleep, unless they have been woken, too.
    for (uint32_t i = 0; i < kThreads; ++i) {
      const int32_t tid = tids[i].Load(memory_order_seq_cst);
      while (!is_woken[i].Load(memory_order_seq_cst) && !Sleeps(tid)) sched_yield();
    }
    EXPECT_EQ(woken.Load(memory_order_seq_cst), expected);
  }
  over.Store(true, memory_order_seq_cst);
  word.Store(1, memory_order_seq_cst);
  FutexWakeAll(&word);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken.Load(memory_order_seq_cst), kThreads);
}

// The word carries a turn; each thread sleeps until it is its own. One lost wake-up ends the game.
TEST_F(FutexConcurrentTest, TurnsGoRound) {
  constexpr uint32_t kThreads = 3;
  const uint32_t turns = static_cast<uint32_t>(30000 / testing::kSlowdown);
  Atomic<uint32_t> turn{0};
  uint64_t plain = 0;  // belongs to the thread whose turn it is
  RunThreads(kThreads, [&](size_t self) {
    for (;;) {
      const uint32_t now = turn.Load(memory_order_seq_cst);
      if (now >= turns) return;
      if (now % kThreads != self) {
        FutexWait(&turn, now);
        continue;
      }
      ++plain;
      turn.Store(now + 1, memory_order_seq_cst);
      FutexWakeAll(&turn);
    }
  });
  EXPECT_EQ(plain, turns);
}

}  // namespace
}  // namespace gleaner::platform
