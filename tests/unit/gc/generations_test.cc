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
  Generations::Outcome small_full = kFull;
  small_full.minor_stop_ns = kMaxStopNs + 1;
  generations.LearnFromFull(small_full, kAllowance);
  EXPECT_FALSE(generations.WantsMinor()) << "what was young and stayed would take longer";

  small_full.minor_stop_ns = kMaxStopNs;
  generations.LearnFromFull(small_full, kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
  EXPECT_EQ(generations.ExpectedMinorNs(), kMaxStopNs);
  small_full.stop_ns = kMaxStopNs;
  generations.LearnFromFull(small_full, kAllowance);
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

// A full collection after which it is known what a minor one would take, and whether its faults
// are.
Generations::Outcome Foretold(uint64_t minor_stop_ns, double minor_cost_ns, bool are_faults_known) {
  Generations::Outcome full = kFull;
  full.minor_stop_ns = minor_stop_ns;
  full.minor_cost_ns = minor_cost_ns;
  full.are_faults_known = full.is_sampled = are_faults_known;
  return full;
}

// What the first writes to tracked pages take, of 400 MB, if as large a part of them is written.
double FaultsNs(double part, double first_write_ns) {
  return part * static_cast<double>(kLive / 4096) * first_write_ns;
}

TEST(GenerationsTest, OneIsTriedWhereItPaysByWhatIsKnown) {
  // Faults of 0.5, 5, 50 and 200 us; of each, what may be written so that a minor one pays, which
  // saves 80 ms of a full one's 100.
  for (const double first_write_ns : {500.0, 5'000.0, 50'000.0, 200'000.0}) {
    for (const double part : {0.0, 0.001, 0.01, 0.1, 1.0}) {
      LossBudget budget;
      Generations generations;
      generations.Configure(GenerationalMode::kAdaptive, 19, UINT64_MAX, &budget);
      const double cost_ns = 20e6 + FaultsNs(part, first_write_ns);
      generations.LearnFromFull(Foretold(20'000'000, cost_ns, true), kAllowance);
      EXPECT_EQ(generations.WantsMinor(), cost_ns < 100e6) << first_write_ns << " " << part;
      // Not weighed, as where the program has asked for minor collections.
      generations.Configure(GenerationalMode::kAdaptive, 19);
      generations.LearnFromFull(Foretold(20'000'000, cost_ns, true), kAllowance);
      EXPECT_TRUE(generations.WantsMinor());
    }
  }
}

TEST(GenerationsTest, WhatTheProgramWritesIsSampledIfAllOfItWouldCostTooMuch) {
  LossBudget budget;
  Generations generations;
  generations.Configure(GenerationalMode::kAdaptive, 19, UINT64_MAX, &budget);
  generations.LearnFromFull(Foretold(20'000'000, 90e6, false), kAllowance);
  EXPECT_TRUE(generations.WantsMinor()) << "whatever it writes";
  EXPECT_FALSE(generations.WantsSample());
  generations.LearnFromFull(Foretold(20'000'000, 5'000e6, false), kAllowance);
  EXPECT_FALSE(generations.WantsMinor());
  EXPECT_TRUE(generations.WantsSample());
  EXPECT_EQ(generations.MaxSampleNs(), 100e6) << "a full collection";
  budget.Run(50'000'000);
  EXPECT_EQ(generations.MaxSampleNs(), 101e6) << "and a fiftieth of the time";
  budget.AddLoss(200e6);
  EXPECT_EQ(generations.MaxSampleNs(), -99e6);
  // The sample says that it writes little.
  generations.LearnFromFull(Foretold(20'000'000, 30e6, true), kAllowance);
  EXPECT_TRUE(generations.WantsMinor());
  EXPECT_FALSE(generations.WantsSample());
}

TEST(GenerationsTest, ASampleThatSaysNoIsFollowedByOthersMoreAndMoreRarely) {
  LossBudget budget;
  Generations generations;
  generations.Configure(GenerationalMode::kAdaptive, 19, UINT64_MAX, &budget);
  for (const int rest : {1, 8, 16, 32, 64, 128, 256, 256}) {
    int fulls = 0;
    for (; !generations.WantsSample() && fulls < 1000; ++fulls) {
      generations.LearnFromFull(Foretold(20'000'000, 5'000e6, true), kAllowance);
    }
    EXPECT_EQ(fulls, rest);
    generations.LearnFromFull(Foretold(20'000'000, 4'000e6, true), kAllowance);
    EXPECT_FALSE(generations.WantsSample());
    EXPECT_FALSE(generations.WantsMinor());
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
  EXPECT_EQ(run_ms, 25'000u) << "50 times what is lost then, twice 0.3 s, less a full one";
  // One that pays is followed by others.
  EXPECT_EQ(MinorsInARow(&generations, kCheap), 19);
  EXPECT_EQ(budget.lost_ns(), 300e6);
}

// By a program whose minor collections never pay: what it loses for good is a fiftieth of its time
// and a full collection.
TEST(GenerationsTest, AllTrialsTogetherLoseAFiftiethOfTheTimeAndAFullCollection) {
  for (const uint64_t loss_ns : {1'000'000, 30'000'000, 99'000'000, 1'000'000'000}) {
    LossBudget budget;
    Generations generations;
    generations.Configure(GenerationalMode::kAdaptive, 19, UINT64_MAX, &budget);
    Generations::Outcome bad = kCheap;
    bad.cost_ns = kFull.cost_ns + loss_ns;
    int minors = 0;
    for (int i = 0; i < 10'000; ++i) {
      budget.Run(200'000'000);
      if (generations.WantsMinor()) {
        ++minors;
        generations.LearnFromMinor(bad);
      } else {
        generations.LearnFromFull(kFull, kAllowance);
      }
      const double run_ns = 200e6 * (i + 1);
      // The first trial nobody could foresee.
      ASSERT_LE(budget.lost_ns(), run_ns / 50 + 100e6 + static_cast<double>(loss_ns));
    }
    EXPECT_GE(minors, 10) << loss_ns;
  }
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
