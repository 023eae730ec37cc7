#include "gc/pacer.h"

#include <gtest/gtest.h>

#include "alloc/hooks.h"

namespace gleaner::gc {
namespace {

size_t PollBytes() {
  return static_cast<size_t>(
      alloc::g_poll_bytes.Load(platform::memory_order_relaxed));  // one thread
}

PacerConfig Config(size_t divisor = 3) {
  PacerConfig config;
  config.min_allowance_bytes = 512 * kKiB;
  config.free_space_divisor = divisor;
  return config;
}

PacerInput Found(uint64_t scanned, uint64_t pointer_free = 0, uint64_t roots = 0, uint64_t free = 0,
                 size_t threads = 1) {
  PacerInput input;
  input.live_scanned_bytes = scanned;
  input.live_pointer_free_bytes = pointer_free;
  input.root_bytes = roots;
  input.free_resident_bytes = free;
  input.threads = threads;
  return input;
}

TEST(PacerTest, NothingIsDueBeforeItIsConfigured) {
  Pacer pacer;
  EXPECT_FALSE(pacer.OnAllocated(1 << 30, 0));
}

TEST(PacerTest, TheAllowanceIsNeverBelowTheMinimum) {
  Pacer pacer;
  pacer.Configure(Config());
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(512 * kKiB));
  EXPECT_FALSE(pacer.OnAllocated(512 * kKiB - 1, 0));
  EXPECT_TRUE(pacer.OnAllocated(1, 0));
  pacer.StartCycle(Found(1000));
  EXPECT_EQ(pacer.allocated(), 0);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(512 * kKiB));
}

TEST(PacerTest, TheAllowanceIsAShareOfTheLiveBytesAndRoots) {
  Pacer pacer;
  pacer.Configure(Config(3));
  pacer.StartCycle(Found(300 * kMiB));
  const ptrdiff_t scanned = pacer.allowance();
  EXPECT_GT(scanned, static_cast<ptrdiff_t>(100 * kMiB));  // a weight of at least 1
  EXPECT_LT(scanned, static_cast<ptrdiff_t>(300 * kMiB));
  pacer.StartCycle(Found(600 * kMiB));
  const double more = static_cast<double>(pacer.allowance() - scanned);
  pacer.StartCycle(Found(900 * kMiB));
  EXPECT_NEAR(static_cast<double>(pacer.allowance() - scanned), 2 * more, 10);
  // Small heaps get a little less for each byte.
  pacer.StartCycle(Found(3 * kMiB));
  EXPECT_LT(static_cast<double>(pacer.allowance()), more / 100);
  // Pointer-free memory costs nothing to mark, so it counts less.
  pacer.StartCycle(Found(0, 300 * kMiB));
  EXPECT_LT(pacer.allowance(), scanned);
  EXPECT_GT(pacer.allowance(), 0);
  pacer.StartCycle(Found(300 * kMiB, 0, 30 * kMiB));
  EXPECT_NEAR(static_cast<double>(pacer.allowance() - scanned), 10.0 * kMiB, 10);
  // Twice the divisor, half the allowance.
  pacer.StartCycle(Found(300 * kMiB));
  pacer.Configure(Config(6));
  EXPECT_NEAR(static_cast<double>(pacer.allowance()), 0.5 * static_cast<double>(scanned), 10);
}

TEST(PacerTest, PressureCollectsEarlierButNotWhileThereIsRoom) {
  Pacer pacer;
  pacer.Configure(Config());
  pacer.StartCycle(Found(300 * kMiB, 0, 0, 80 * kMiB));  // room: 7/8 of the 80
  ASSERT_GT(pacer.allowance(), static_cast<ptrdiff_t>(75 * kMiB));
  EXPECT_FALSE(pacer.OnPressure(1 << 30));
  EXPECT_FALSE(pacer.OnAllocated(69 * kMiB, 0));
  EXPECT_TRUE(pacer.OnAllocated(1 * kMiB, 0));
  pacer.StartCycle(Found(300 * kMiB, 0, 0, 80 * kMiB));
  EXPECT_FALSE(pacer.OnAllocated(70 * kMiB, 0));
  EXPECT_FALSE(pacer.OnPressure(1000));
  EXPECT_TRUE(pacer.OnPressure(1 << 30));
}

TEST(PacerTest, ADivisorOfZeroIsOne) {
  Pacer zero;
  Pacer one;
  zero.Configure(Config(0));
  one.Configure(Config(1));
  zero.StartCycle(Found(100 * kMiB));
  one.StartCycle(Found(100 * kMiB));
  EXPECT_EQ(zero.allowance(), one.allowance());
}

TEST(PacerTest, FreeResidentMemoryIsUsedBeforeCollectingUnlessItIsSurplus) {
  Pacer pacer;
  pacer.Configure(Config());
  pacer.StartCycle(Found(100 * kMiB, 0, 0, 240 * kMiB));
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(210 * kMiB));
  pacer.StartCycle(Found(1 * kMiB, 0, 0, 800 * kMiB));
  EXPECT_LT(pacer.allowance(), static_cast<ptrdiff_t>(100 * kMiB));
}

TEST(PacerTest, WhatIsBornInACycleCountsAsAllocatedAndNotAsLive) {
  Pacer stopped;
  stopped.Configure(Config());
  stopped.StartCycle(Found(300 * kMiB, 60 * kMiB));
  Pacer pacer;
  pacer.Configure(Config());
  // A sixth of all that was found.
  PacerInput found = Found(360 * kMiB, 72 * kMiB);
  found.concurrent = true;
  found.in_cycle_bytes = 72 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allocated(), static_cast<ptrdiff_t>(72 * kMiB));
  EXPECT_EQ(pacer.AllocatedSinceStop(), 0);
  EXPECT_NEAR(static_cast<double>(pacer.allowance()), static_cast<double>(stopped.allowance()), 10);
  // Found by the sweep.
  pacer.OnAllocated(5 * kMiB, 0);
  pacer.Amend(720 * kMiB, 144 * kMiB, 0, 0);
  EXPECT_EQ(pacer.allocated(), static_cast<ptrdiff_t>(77 * kMiB));
  EXPECT_EQ(pacer.found().live_scanned_bytes, 660 * kMiB);
  EXPECT_EQ(pacer.found().live_pointer_free_bytes, 132 * kMiB);
  // If hardly anything else lives, a quarter of it counts as live.
  pacer.Amend(40 * kMiB, 0, 0, 0);
  EXPECT_EQ(pacer.found().live_scanned_bytes, 10 * kMiB);
  EXPECT_GE(pacer.allowance(), static_cast<ptrdiff_t>(72 * kMiB));
  // Memory that is free is used first, whatever counts as allocated already.
  pacer.Amend(40 * kMiB, 0, 0, 64 * kMiB);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>((56 + 72) * kMiB));
  // Every so many bytes means just that.
  PacerConfig stress = Config();
  stress.stress_bytes = 1 * kMiB;
  pacer.Configure(stress);
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allocated(), 0);
  EXPECT_EQ(pacer.found().live_scanned_bytes, 360 * kMiB);
}

TEST(PacerTest, CyclesThatTakeBusyThreadsTimeGetMoreMemory) {
  Pacer pacer;
  pacer.Configure(Config());
  PacerInput found = Found(300 * kMiB, 60 * kMiB, 0, 0, 2);
  pacer.StartCycle(found);
  const ptrdiff_t stopped = pacer.allowance();
  found.concurrent = true;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allowance(), stopped);
  found.several_busy = true;
  pacer.StartCycle(found);
  const ptrdiff_t live = 360 * kMiB;
  EXPECT_EQ(pacer.allowance(), stopped + (live + stopped) / 4);
  // Minor collections leave it at that.
  PacerInput minor = Found(10 * kMiB, 0, 0, 0, 2);
  minor.several_busy = true;
  minor.TakeLiveFrom(pacer.found());
  pacer.StartCycle(minor);
  EXPECT_EQ(pacer.allowance(), stopped + (live + stopped) / 4);
}

TEST(PacerTest, AHeapAskedForIsUsedUp) {
  Pacer pacer;
  PacerConfig config = Config();
  config.initial_heap_bytes = 64 * kMiB;
  pacer.Configure(config);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(64 * kMiB));
  pacer.ExpandHeapTo(100 * kMiB);
  pacer.ExpandHeapTo(80 * kMiB);  // less is no change
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(100 * kMiB));
  EXPECT_EQ(pacer.MayGrowTo(1 * kMiB), 100 * kMiB);
  PacerInput found = Found(10 * kMiB, 0, 0, 5 * kMiB);
  found.resident_bytes = 25 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(90 * kMiB));
  // The share of the live bytes is used, and the heap has grown, but not to that size.
  EXPECT_FALSE(pacer.OnAllocated(80 * kMiB, 99 * kMiB));
  EXPECT_TRUE(pacer.IsShareUsed());
  EXPECT_TRUE(pacer.OnAllocated(1, 101 * kMiB));
  // There is no surplus in it.
  for (int i = 0; i < 20; ++i) {
    found = Found(1 * kMiB, 0, 0, 99 * kMiB);
    found.resident_bytes = 100 * kMiB;
    pacer.StartCycle(found);
  }
  EXPECT_FALSE(pacer.HasLastingSurplus());
  pacer.StartCycle(Found(1000 * kMiB));
  EXPECT_GT(pacer.allowance(), static_cast<ptrdiff_t>(100 * kMiB));
}

TEST(PacerTest, EarlyCollectionsComeBeforeTheHeapIsUsedUp) {
  Pacer pacer;
  PacerConfig config = Config();
  config.initial_heap_bytes = 100 * kMiB;
  config.early = true;
  pacer.Configure(config);
  // Of the pages in use, what is free in them counts half, and an eighth is left.
  PacerInput found = Found(10 * kMiB, 0, 0, 5 * kMiB);
  found.resident_bytes = 27 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(84 * kMiB * 7 / 8));
  // The share of a large heap may be more than there is room for.
  config.max_heap_bytes = 108 * kMiB;
  pacer.Configure(config);
  found = Found(100 * kMiB);
  found.resident_bytes = 100 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(7 * kMiB));
  EXPECT_FALSE(pacer.OnAllocated(7 * kMiB - 1, 100 * kMiB));
  EXPECT_TRUE(pacer.OnAllocated(1, 100 * kMiB));
}

TEST(PacerTest, StressOverrulesTheRest) {
  Pacer pacer;
  PacerConfig config = Config();
  config.stress_bytes = 4096;
  config.initial_heap_bytes = 64 * kMiB;
  pacer.Configure(config);
  pacer.StartCycle(Found(1000 * kMiB, 0, 0, 500 * kMiB));
  EXPECT_EQ(pacer.allowance(), 4096);
  EXPECT_LE(PollBytes(), 4096u);
  EXPECT_FALSE(pacer.OnAllocated(4095, 0));
  EXPECT_TRUE(pacer.OnAllocated(1, 0));
}

TEST(PacerTest, FreeingTakesBackAllocation) {
  Pacer pacer;
  pacer.Configure(Config());
  EXPECT_FALSE(pacer.OnAllocated(500 * kKiB, 0));
  EXPECT_FALSE(pacer.OnAllocated(-400 * static_cast<ptrdiff_t>(kKiB), 0));
  EXPECT_EQ(pacer.allocated(), static_cast<ptrdiff_t>(100 * kKiB));
  EXPECT_FALSE(pacer.OnAllocated(400 * kKiB, 0));
  EXPECT_TRUE(pacer.OnAllocated(12 * kKiB, 0));
}

// All threads together may pass the allowance by a sixteenth before one of them notices, unless
// that is less than the least amount that is worth a report each.
TEST(PacerTest, ThreadsReportOftenEnough) {
  Pacer pacer;
  pacer.Configure(Config());
  for (const size_t threads : {1, 2, 7, 64, 1000}) {
    for (const uint64_t live : {0ull, 1ull << 20, 100ull << 20, 10ull << 30}) {
      pacer.StartCycle(Found(live, 0, 0, 0, threads));
      const auto allowance = static_cast<size_t>(pacer.allowance());
      EXPECT_LE(PollBytes(), 1 * kMiB);
      EXPECT_TRUE(PollBytes() * threads <= allowance / 16 || PollBytes() == 4 * kKiB)
          << PollBytes() << " bytes, " << threads << " threads, allowance " << allowance;
    }
  }
}

// Free pages into which the objects do not fit are no reason to let the heap grow.
TEST(PacerTest, FreeMemoryCountsOnlyWhileTheHeapDoesNotGrow) {
  Pacer pacer;
  pacer.Configure(Config());
  PacerInput found = Found(1 * kMiB, 0, 0, 16 * kMiB);
  found.resident_bytes = 18 * kMiB;
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.OnAllocated(4 * kMiB, 18 * kMiB));
  EXPECT_FALSE(pacer.OnAllocated(4 * kKiB, 18 * kMiB + 256 * kKiB));  // a few pages do not count
  EXPECT_TRUE(pacer.OnAllocated(4 * kKiB, 20 * kMiB));
  // A heap that grows before its share is used up may do so.
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.OnAllocated(256 * kKiB, 20 * kMiB));
  EXPECT_TRUE(pacer.OnAllocated(512 * kKiB, 20 * kMiB));
}

// A collection of so many milliseconds after 10 of the program's.
PacerInput Costing(uint64_t pause_ms, uint64_t scanned, size_t threads) {
  PacerInput found = Found(scanned, 0, 0, 0, threads);
  found.several_busy = threads > 1;
  found.pause_ns = pause_ms * 1'000'000;
  found.since_last_ns = 10'000'000;
  return found;
}

TEST(PacerTest, SeveralThreadsThatStandStillForLongGetMore) {
  Pacer pacer;
  pacer.Configure(Config());
  pacer.StartCycle(Costing(4, 8 * kMiB, 2));  // between a fifth and a third of the time
  const ptrdiff_t usual = pacer.allowance();
  for (int i = 0; i < 20; ++i) pacer.StartCycle(Costing(6, 8 * kMiB, 2));
  EXPECT_NEAR(static_cast<double>(pacer.allowance()), 1.5 * static_cast<double>(usual), 16);
  pacer.StartCycle(Costing(4, 8 * kMiB, 2));  // no reason for a change
  EXPECT_NEAR(static_cast<double>(pacer.allowance()), 1.5 * static_cast<double>(usual), 16);
  for (int i = 0; i < 20; ++i) pacer.StartCycle(Costing(1, 8 * kMiB, 2));
  EXPECT_EQ(pacer.allowance(), usual);
  for (int i = 0; i < 20; ++i) pacer.StartCycle(Costing(60, 8 * kMiB, 1));  // one thread alone
  EXPECT_EQ(pacer.allowance(), usual);
}

TEST(PacerTest, TheCostOfPausesCountsForTheFirstBytesOnly) {
  Pacer pacer;
  pacer.Configure(Config());
  ptrdiff_t more[2];
  for (int i = 0; i < 2; ++i) {
    const uint64_t scanned = (i == 0 ? 32 : 320) * kMiB;
    for (int k = 0; k < 20; ++k) pacer.StartCycle(Costing(1, scanned, 2));
    const ptrdiff_t usual = pacer.allowance();
    for (int k = 0; k < 20; ++k) pacer.StartCycle(Costing(60, scanned, 2));
    more[i] = pacer.allowance() - usual;
  }
  EXPECT_GT(more[0], static_cast<ptrdiff_t>(4 * kMiB));
  EXPECT_NEAR(static_cast<double>(more[0]), static_cast<double>(more[1]), 16);
}

}  // namespace
}  // namespace gleaner::gc
