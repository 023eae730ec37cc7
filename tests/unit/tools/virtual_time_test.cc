// Virtual time: what is visible happens in its order, and costs what it is said to cost.
#include "tools/predict/virtual_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace gleaner::tools {
namespace {

constexpr VirtualCosts kCosts = {.atomic_ps = 10,
                                 .load_ps = 1,
                                 .transfer_ps = 100,
                                 .wake_call_ps = 30,
                                 .relax_ps = 50,
                                 .yield_ps = 60,
                                 .wake_ps = 1000};

// All workers but 0, which starts them.
void StartAll(int workers) {
  for (int i = 1; i < workers; ++i) VirtualTime::current().Start(i);
}

TEST(VirtualTimeTest, WhatOthersSeeComesInTheOrderOfTime) {
  VirtualTime time(kCosts, 3);
  std::vector<std::pair<uint64_t, int>> seen;
  ASSERT_TRUE(time.Run([&](int worker) {
    if (worker == 0) StartAll(3);
    for (int i = 0; i < 100; ++i) {
      time.Charge(static_cast<uint64_t>(7 + 13 * worker + i % 5));
      time.Sync();
      seen.push_back({time.now(), worker});
    }
  }));
  ASSERT_EQ(seen.size(), 300u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(time.figures(0).begin_ps, 0u);
  EXPECT_EQ(time.figures(1).begin_ps, kCosts.wake_ps);
}

TEST(VirtualTimeTest, AWorkerThatIsNotStartedDoesNotRun) {
  VirtualTime time(kCosts, 2);
  int runs = 0;
  ASSERT_TRUE(time.Run([&](int) { ++runs; }));
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(time.figures(0).has_run);
  EXPECT_FALSE(time.figures(1).has_run);
}

TEST(VirtualTimeTest, WritersOfOneLineWaitForEachOther) {
  constexpr int kWorkers = 4;
  VirtualTime time(kCosts, kWorkers);
  VirtualClock::Atomic<int> count{0};
  ASSERT_TRUE(time.Run([&](int worker) {
    if (worker == 0) {
      StartAll(kWorkers);
      time.Charge(kCosts.wake_ps);
    }
    count.FetchAdd(1, std::memory_order_relaxed);
  }));
  EXPECT_EQ(count.Load(std::memory_order_relaxed), kWorkers);
  // All come at the same time, and the line goes from one to the next.
  uint64_t last = 0;
  for (int i = 0; i < kWorkers; ++i) last = std::max(last, time.figures(i).end_ps);
  EXPECT_EQ(last, kCosts.wake_ps + kWorkers * kCosts.transfer_ps);
}

TEST(VirtualTimeTest, TheOwnerOfALineWritesItCheaply) {
  VirtualTime time(kCosts, 1);
  VirtualClock::Atomic<int> word{0};
  ASSERT_TRUE(time.Run([&](int) {
    for (int i = 0; i < 10; ++i) word.Store(i, std::memory_order_seq_cst);
  }));
  EXPECT_EQ(time.figures(0).end_ps, kCosts.transfer_ps + 9 * kCosts.atomic_ps);
}

TEST(VirtualTimeTest, AnExchangeThatLosesFindsTheNewValue) {
  VirtualTime time(kCosts, 2);
  VirtualClock::Atomic<int> word{0};
  int won = 0;
  ASSERT_TRUE(time.Run([&](int worker) {
    if (worker == 0) {
      StartAll(2);
      time.Charge(kCosts.wake_ps);
    }
    int expected = 0;
    if (word.CompareExchange(expected, worker + 1, std::memory_order_seq_cst)) {
      ++won;
    } else {
      EXPECT_EQ(expected, 1) << "worker 0 comes first at the same instant";
    }
  }));
  EXPECT_EQ(won, 1);
}

TEST(VirtualTimeTest, ASleeperRunsAWhileAfterItIsWoken) {
  VirtualTime time(kCosts, 2);
  VirtualClock::Atomic<uint32_t> word{0};
  uint64_t woken_at = 0;
  uint64_t call_at = 0;
  ASSERT_TRUE(time.Run([&](int worker) {
    if (worker == 0) {
      StartAll(2);
      time.Charge(100 * kCosts.wake_ps);
      word.FetchAdd(1, std::memory_order_seq_cst);
      VirtualClock::Wake(&word, 1);
      call_at = time.now();
    } else {
      while (word.Load(std::memory_order_seq_cst) == 0) VirtualClock::Wait(&word, 0);
      woken_at = time.now();
    }
  }));
  EXPECT_GE(woken_at, call_at + kCosts.wake_ps);
  EXPECT_LE(woken_at, call_at + kCosts.wake_ps + kCosts.transfer_ps + kCosts.load_ps);
}

TEST(VirtualTimeTest, NobodySleepsOnAValueThatHasChanged) {
  VirtualTime time(kCosts, 1);
  VirtualClock::Atomic<uint32_t> word{7};
  EXPECT_TRUE(time.Run([&](int) { VirtualClock::Wait(&word, 6); }));
}

TEST(VirtualTimeTest, SleepersThatNobodyWakesAreTold) {
  VirtualTime time(kCosts, 2);
  VirtualClock::Atomic<uint32_t> word{0};
  EXPECT_FALSE(time.Run([&](int worker) {
    if (worker == 0) StartAll(2);
    VirtualClock::Wait(&word, 0);
  }));
}

TEST(VirtualTimeTest, WithoutMemoryAllStop) {
  VirtualTime time(kCosts, 2);
  EXPECT_FALSE(time.Run([&](int worker) {
    if (worker == 1) throw std::bad_alloc();
    StartAll(2);
    for (;;) VirtualClock::Yield();
  }));
}

TEST(VirtualTimeTest, WhatIsUnwoundMayLookAtItsTime) {
  VirtualTime time(kCosts, 2);
  EXPECT_FALSE(time.Run([&](int worker) {
    uint64_t idle = 0;
    const VirtualClock::IdleSpan span(worker, &idle);
    if (worker == 1) throw std::bad_alloc();
    StartAll(2);
    for (;;) VirtualClock::Yield();
  }));
}

// Calls itself `depth` times, with something to unwind in each frame, and then `last`.
void InDepth(int depth, int worker, const std::function<void()>& last) {
  uint64_t idle = 0;
  const VirtualClock::IdleSpan span(worker, &idle);
  std::array<volatile char, 200> frame{};
  if (depth == 0) {
    last();
  } else {
    InDepth(depth - 1, worker, last);
  }
  frame[0] = 1;
}

// Of interest under AddressSanitizer, which has to follow from stack to stack.
TEST(VirtualTimeTest, DeepStacksAreUnwoundAgainAndAgain) {
  for (int depth = 0; depth < 20; ++depth) {
    VirtualTime time(kCosts, 4);
    EXPECT_FALSE(time.Run([&](int worker) {
      if (worker == 0) StartAll(4);
      InDepth(depth, worker, [&] {
        for (int i = 0; i < 3; ++i) VirtualClock::Yield();
        if (worker == 3) throw std::bad_alloc();
        for (;;) VirtualClock::Yield();
      });
    }));
  }
}

TEST(VirtualTimeTest, ManyWorkersGiveTheSameTwice) {
  const auto run = [] {
    VirtualTime time(kCosts, 1024);
    VirtualClock::Atomic<uint64_t> sum{0};
    std::string order;
    EXPECT_TRUE(time.Run([&](int worker) {
      if (worker == 0) StartAll(1024);
      for (int i = 0; i < 3; ++i) {
        time.Charge(static_cast<uint64_t>(worker * 7919 % 1000));
        sum.FetchAdd(static_cast<uint64_t>(worker), std::memory_order_seq_cst);
        order += std::to_string(worker) + " ";
        VirtualClock::Relax();
      }
    }));
    EXPECT_EQ(sum.Load(std::memory_order_relaxed), 3u * 1023 * 1024 / 2);
    return order + std::to_string(time.figures(1023).end_ps);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace gleaner::tools
