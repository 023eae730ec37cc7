#include "platform/os/stalls.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <initializer_list>
#include <thread>

namespace gleaner::platform {
namespace {

uint64_t StallsOf(StallCause cause) {
  StallHistogram stalls;
  ReadStalls(cause, &stalls);
  return stalls.count;
}

uint64_t CountAll() {
  uint64_t count = 0;
  for (int i = 0; i < kStallCauses; ++i) count += StallsOf(static_cast<StallCause>(i));
  return count;
}

class StallsTest : public testing::Test {
 protected:
  void SetUp() override { BeginStallsOfThread(1); }
  void TearDown() override { EndStallsOfThread(); }
};

TEST_F(StallsTest, BucketsAreContiguousAndHoldWhatTheySay) {
  EXPECT_EQ(StallBucketBegin(0), 0u);
  for (int i = 0; i + 1 < kStallBuckets; ++i) {
    const uint64_t begin = StallBucketBegin(i);
    const uint64_t end = StallBucketBegin(i + 1);
    ASSERT_LT(begin, end);
    ASSERT_EQ(StallBucketOf(begin), i);
    ASSERT_EQ(StallBucketOf(end - 1), i);
    ASSERT_LE((end - begin - 1) * 16, begin) << "off by more than a sixteenth";
  }
  EXPECT_EQ(StallBucketBegin(kStallBuckets), uint64_t{1} << kStallMaxBits);
  EXPECT_EQ(StallBucketOf(UINT64_MAX), kStallBuckets - 1);
}

TEST_F(StallsTest, QuantilesAreUpperBounds) {
  StallHistogram stalls;
  EXPECT_EQ(stalls.Quantile(500), 0u);
  for (uint64_t ns = 1; ns <= 100000; ++ns) {
    ++stalls.buckets[StallBucketOf(ns)];
    ++stalls.count;
  }
  stalls.max_ns = 100000;
  for (const double per_mille : {1.0, 500.0, 990.0, 999.0}) {
    const auto exact = static_cast<uint64_t>(per_mille * 100);
    EXPECT_GE(stalls.Quantile(per_mille), exact);
    EXPECT_LE(stalls.Quantile(per_mille), exact + exact / 16 + 1);
  }
  EXPECT_EQ(stalls.Quantile(1000), 100000u);
}

TEST_F(StallsTest, NestedScopesAreOneStallOfTheWeightiestCause) {
  const uint64_t all = CountAll();
  const uint64_t pauses = StallsOf(StallCause::kPause);
  {
    StallScope allocation(StallCause::kAllocation);
    { StallScope pause(StallCause::kPause); }
    StallScope wait(StallCause::kWait);
  }
  EXPECT_EQ(CountAll(), all + 1);
  EXPECT_EQ(StallsOf(StallCause::kPause), pauses + 1);
}

TEST_F(StallsTest, TheProgramsCodeEndsAStallAndBeginsAnother) {
  const uint64_t all = CountAll();
  const uint64_t waits = StallsOf(StallCause::kWait);
  {
    StallScope allocation(StallCause::kWait);
    StallScope inner(StallCause::kAllocation);
    {
      StallInterruption program;
      EXPECT_EQ(CountAll(), all + 1);
      { StallScope its_own(StallCause::kAllocation); }
      EXPECT_EQ(CountAll(), all + 2);
    }
    EXPECT_EQ(CountAll(), all + 2);
  }
  EXPECT_EQ(CountAll(), all + 3);
  EXPECT_EQ(StallsOf(StallCause::kWait), waits + 1);
  { StallInterruption outside; }
  EXPECT_EQ(CountAll(), all + 3);
}

TEST_F(StallsTest, ThreadsThatAreNotRegisteredDoNotCount) {
  const uint64_t all = CountAll();
  std::thread([] { StallScope stall(StallCause::kPause); }).join();
  EXPECT_EQ(CountAll(), all);
}

TEST_F(StallsTest, AThreadMayRegisterAndUnregisterInMidScope) {
  const uint64_t all = CountAll();
  std::thread([all] {
    {
      StallScope before_it_counts(StallCause::kWait);
      BeginStallsOfThread(2);
      { StallScope stall(StallCause::kWait); }
      EXPECT_EQ(CountAll(), all + 1);
    }
    EXPECT_EQ(CountAll(), all + 1);
    {
      StallScope cut_off(StallCause::kWait);
      EndStallsOfThread();
    }
    EXPECT_EQ(t_stall.scopes.Load(memory_order_relaxed) & 0xffff, 0u);
  }).join();
  EXPECT_EQ(CountAll(), all + 1);
}

uint64_t Total() {
  uint64_t total = 0;
  for (int i = 0; i < kStallCauses; ++i) {
    StallHistogram stalls;
    ReadStalls(static_cast<StallCause>(i), &stalls);
    total += stalls.total_ns;
  }
  return total;
}

// A handler that stalls, at any instruction of a scope: stalls must not overlap, so that their sum
// is at most the time that has passed, and depth and causes come out right.
uint64_t g_handled = 0;
void OnTimer(int) {
  StallScope stall(StallCause::kPause);
  ++g_handled;
  const uint64_t until = NowNs() + 20000;
  while (NowNs() < until) {
  }
}

TEST_F(StallsTest, HandlersAtAnyInstruction) {
  struct sigaction action = {};
  action.sa_handler = OnTimer;
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 100}, {0, 100}};
  const itimerval never{};
  const uint64_t total_before = Total();
  const uint64_t all_before = CountAll();
  const uint64_t pauses_before = StallsOf(StallCause::kPause);
  g_handled = 0;
  const uint64_t began = NowNs();
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  uint64_t scopes = 0;
  while (*const_cast<volatile uint64_t*>(&g_handled) < 2000) {
    StallScope stall(StallCause::kAllocation);
    StallScope nested(StallCause::kWait);
    ++scopes;
  }
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  const uint64_t elapsed = NowNs() - began;
  ASSERT_EQ(sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_LE(Total() - total_before, elapsed);
  EXPECT_GE(Total() - total_before, g_handled * 20000);
  // Those inside the loop's scopes are no stalls of their own.
  EXPECT_GE(CountAll() - all_before, scopes);
  EXPECT_LE(CountAll() - all_before, scopes + g_handled);
  EXPECT_LE(StallsOf(StallCause::kPause) - pauses_before, g_handled);
  EXPECT_EQ(t_stall.scopes.Load(memory_order_relaxed) & 0xffff, 0u);
}

}  // namespace
}  // namespace gleaner::platform
