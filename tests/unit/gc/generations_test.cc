// When collections are minor ones, by what they cost and yield.
#include "gc/policy/generations.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "platform/os/base.h"

namespace gleaner::gc {
namespace {

constexpr uint64_t kAllowance = 100 * kMiB;
constexpr uint64_t kLive = 400 * kMiB;
constexpr Generations::Outcome kFull = {100'000'000, 100'000'000, kAllowance, kAllowance, kLive};
constexpr Generations::Outcome kCheap = {10'000'000, 10'000'000, kAllowance, kAllowance, kLive};

Generations Adaptive(uint64_t max_minors = 19) {
  Generations generations;
  generations.Configure(GenerationalMode::kAdaptive, max_minors);
  generations.LearnFromFull(kFull, kAllowance);
  return generations;
}

// Minor collections until one of the whole heap is due.
int MinorsInARow(Generations* generations, const Generations::Outcome& outcome) {
  int minors = 0;
  for (; generations->WantsMinor() && minors < 1000; ++minors) generations->LearnFromMinor(outcome);
  return minors;
}

TEST(GenerationsTest, OffAndZeroMeanNone) {
  Generations generations;
  EXPECT_FALSE(generations.WantsMinor());
  generations.LearnFromFull(kFull, kAllowance);
  EXPECT_FALSE(generations.WantsMinor());
  EXPECT_FALSE(Adaptive(0).WantsMinor());
}

TEST(GenerationsTest, AsManyAsAreAllowedBetweenFullOnes) {
  for (const uint64_t max : {1, 5, 19}) {
    Generations generations = Adaptive(max);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(MinorsInARow(&generations, kCheap), static_cast<int>(max));
      generations.LearnFromFull(kFull, kAllowance);
    }
  }
}

TEST(GenerationsTest, AFullOneWhenWhatIsKeptHasGrown) {
  Generations generations = Adaptive();
  Generations::Outcome outcome = kCheap;
  outcome.freed_bytes = kAllowance * 9 / 10;
  int minors = 0;
  for (; generations.WantsMinor(); ++minors) {
    outcome.live_bytes += kAllowance / 10;
    generations.LearnFromMinor(outcome);
  }
  EXPECT_EQ(minors, 3);
}

TEST(GenerationsTest, NoneIsTriedWhileAllThatIsYoungLives) {
  Generations generations = Adaptive();
  Generations::Outcome growing = kFull;
  growing.freed_bytes = kAllowance / 4;
  for (int i = 0; i < 10; ++i) {
    generations.LearnFromFull(growing, kAllowance);
    EXPECT_FALSE(generations.WantsMinor());
  }
  generations.LearnFromFull(kFull, kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
}

TEST(GenerationsTest, NoneThatIsExpectedToStopForTooLong) {
  Generations generations;
  constexpr uint64_t kMaxStopNs = 20'000'000;
  generations.Configure(GenerationalMode::kAdaptive, 19, kMaxStopNs);
  generations.LearnFromFull(kFull, kAllowance);
  EXPECT_FALSE(generations.WantsMinor()) << "it may take as long as a full one";

  Generations::Outcome small_full = kFull;
  small_full.stop_ns = kMaxStopNs;
  generations.LearnFromFull(small_full, kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
  generations.LearnFromMinor(kCheap);
  EXPECT_TRUE(generations.WantsMinor());
  EXPECT_EQ(generations.ExpectedMinorNs(), kCheap.stop_ns);
  // A minor one takes half of a full one: that bounds it where full ones take longer.
  small_full.stop_ns = 2 * kMaxStopNs;
  generations.LearnFromFull(small_full, kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
  small_full.stop_ns = 2 * kMaxStopNs + 1000;
  generations.LearnFromFull(small_full, kAllowance);
  EXPECT_FALSE(generations.WantsMinor());

  small_full.stop_ns = 2 * kMaxStopNs;
  generations.LearnFromFull(small_full, kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
  Generations::Outcome longer = kCheap;
  longer.stop_ns = kMaxStopNs + 1000;
  generations.LearnFromMinor(longer);
  EXPECT_FALSE(generations.WantsMinor()) << "that one was too long";
  // One that takes longer than a full one was held up.
  small_full.stop_ns = kMaxStopNs;
  generations.LearnFromFull(small_full, kAllowance);
  longer.stop_ns = 10 * kMaxStopNs;
  generations.LearnFromMinor(longer);
  EXPECT_EQ(generations.ExpectedMinorNs(), kMaxStopNs);
  EXPECT_TRUE(generations.WantsMinor());

  generations.Configure(GenerationalMode::kAlways, 19, kMaxStopNs);
  generations.LearnFromFull(kFull, kAllowance);
  EXPECT_TRUE(generations.WantsMinor()) << "always";
}

TEST(GenerationsTest, WhatDoesNotPayIsTriedMoreAndMoreRarely) {
  // As dear as a full one; and half as dear, but it frees a third.
  const Generations::Outcome bad[] = {{110'000'000, 110'000'000, kAllowance, kAllowance, kLive},
                                      {50'000'000, 50'000'000, kAllowance, kAllowance / 3, kLive}};
  for (const Generations::Outcome& outcome : bad) {
    Generations generations = Adaptive();
    EXPECT_EQ(MinorsInARow(&generations, outcome), 2);
    int last = 0;
    for (int trial = 0; trial < 8; ++trial) {
      int fulls = 0;
      for (; !generations.WantsMinor(); ++fulls) generations.LearnFromFull(kFull, kAllowance);
      EXPECT_EQ(fulls, trial == 0 ? 8 : last == 256 ? 256 : 2 * last);
      last = fulls;
      EXPECT_EQ(MinorsInARow(&generations, outcome), 1) << "one trial";
    }
    EXPECT_EQ(last, 256);
    // One that pays makes up for it.
    while (!generations.WantsMinor()) generations.LearnFromFull(kFull, kAllowance);
    EXPECT_EQ(MinorsInARow(&generations, kCheap), 19);
    generations.LearnFromFull(kFull, kAllowance);
    EXPECT_EQ(MinorsInARow(&generations, outcome), 2);
    int fulls = 0;
    for (; !generations.WantsMinor(); ++fulls) generations.LearnFromFull(kFull, kAllowance);
    EXPECT_EQ(fulls, 8);
  }
}

// What the first writes to tracked pages take, of 400 MB: 0.7 us each on one machine, 40 on
// another.
double AllFaultsNs(double first_write_ns) {
  return static_cast<double>(kLive / 4096) * first_write_ns;
}

TEST(GenerationsTest, NoneIsTriedWhereTheFaultsMayCostMoreThanTheBudgetAllows) {
  for (const double first_write_ns : {0.0, 700.0, 3'000.0, 40'000.0, 200'000.0}) {
    LossBudget budget;
    Generations generations;
    generations.Configure(GenerationalMode::kAdaptive, 19, UINT64_MAX, &budget);
    Generations::Outcome full = kFull;
    full.max_fault_ns = AllFaultsNs(first_write_ns);
    generations.LearnFromFull(full, kAllowance);
    // 400 MB are 102,400 pages: 72 ms, 0.3 s, 4 s, 20 s. Full ones take 0.1 s.
    EXPECT_EQ(generations.WantsMinor(), full.max_fault_ns <= 4 * 100e6) << first_write_ns;
    // After fifty times as long a first one is tried wherever it is.
    const auto run_ns = static_cast<uint64_t>(50 * full.max_fault_ns);
    budget.Run(run_ns == 0 ? 0 : run_ns - 1'000);
    generations.LearnFromFull(full, kAllowance);
    EXPECT_EQ(generations.WantsMinor(), full.max_fault_ns <= 4 * 100e6) << first_write_ns;
    budget.Run(2'000);
    generations.LearnFromFull(full, kAllowance);
    EXPECT_TRUE(generations.WantsMinor()) << first_write_ns;
    // Not weighed, as where the program has asked for minor collections.
    generations.Configure(GenerationalMode::kAdaptive, 19);
    generations.LearnFromFull(full, kAllowance);
    EXPECT_TRUE(generations.WantsMinor());
  }
}

TEST(GenerationsTest, OneThatHasLostIsTriedAgainWhenTheProgramHasRunFiftyTimesAsLong) {
  LossBudget budget;
  Generations generations;
  generations.Configure(GenerationalMode::kAdaptive, 19, UINT64_MAX, &budget);
  generations.LearnFromFull(kFull, kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
  Generations::Outcome bad = kCheap;
  bad.cost_ns = 400'000'000;  // 0.3 s more than a full one
  generations.LearnFromMinor(bad);
  EXPECT_FALSE(generations.WantsMinor()) << "not even a second time";
  EXPECT_EQ(budget.lost_ns(), 300e6);
  uint64_t run_ms = 0;
  for (; !generations.WantsMinor() && run_ms < 100'000; run_ms += 100) {
    budget.Run(100'000'000);
    generations.LearnFromFull(kFull, kAllowance);
  }
  EXPECT_EQ(run_ms, 30'000u) << "50 times what is lost then, twice 0.3 s";
  // One that pays is followed by others.
  EXPECT_EQ(MinorsInARow(&generations, kCheap), 19);
  EXPECT_EQ(budget.lost_ns(), 300e6);
}

TEST(GenerationsTest, AlwaysMeansAlways) {
  Generations generations;
  generations.Configure(GenerationalMode::kAlways, 19);
  Generations::Outcome outcome = {1'000'000'000, 1'000'000'000, kAllowance, 0, kLive};
  generations.LearnFromFull(outcome, kAllowance);
  EXPECT_EQ(MinorsInARow(&generations, outcome), 19);
}

}  // namespace
}  // namespace gleaner::gc
