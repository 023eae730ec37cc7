#include "platform/os/atomic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace gleaner::platform {
namespace {

constexpr uint32_t kThreads = 4;
constexpr uint32_t kTurns = 10'000;

template <class F>
void InThreads(const F& f) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) threads.emplace_back(f, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(AtomicTest, NoAdditionToACountIsLost) {
  Count<uint32_t> count{3};
  InThreads([&](uint32_t) {
    for (uint32_t i = 0; i < kTurns; ++i) {
      count.Add(2);
      count.Subtract(1);
    }
  });
  EXPECT_EQ(count.Get(), 3 + kThreads * kTurns);
  EXPECT_EQ(count.Add(4), 7 + kThreads * kTurns);
}

TEST(AtomicTest, EachTicketIsTakenOnce) {
  Tickets<uint32_t> tickets{5};
  std::vector<uint32_t> taken[kThreads];
  InThreads([&](uint32_t thread) {
    for (uint32_t i = 0; i < kTurns; ++i) taken[thread].push_back(tickets.Take(2));
  });
  std::vector<uint32_t> all;
  for (const auto& some : taken) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  for (uint32_t i = 0; i < kThreads * kTurns; ++i) ASSERT_EQ(all[i], 5 + 2 * i);
  EXPECT_EQ(tickets.Next(), 5 + 2 * kThreads * kTurns);
}

TEST(AtomicTest, OneThreadFindsAFlagUnset) {
  Hint<bool> flag;
  Count<uint32_t> first;
  InThreads([&](uint32_t) {
    if (!flag.Exchange(true)) first.Add(1);
  });
  EXPECT_EQ(first.Get(), 1u);
}

}  // namespace
}  // namespace gleaner::platform
