#include "gc/policy/pacer.h"

#include <gtest/gtest.h>

#include "alloc/hooks.h"

namespace gleaner::gc {
namespace {

size_t PollBytes() {
  return static_cast<size_t>(alloc::g_poll_bytes.Get());  // one thread
}

PacerConfig Config(size_t divisor = 3) {
  PacerConfig config;
  config.min_allowance_bytes = 512 * kKiB;
  config.free_space_divisor = divisor;
  return config;
}

struct ConfiguredPacer : Pacer {
  explicit ConfiguredPacer(const PacerConfig& config = Config()) { Configure(config); }
};

// A period whose cost ratio is an eighth: the law gives half of the footprint.
AllowanceLaw::Period OfRatioEighth(uint64_t footprint_bytes) {
  AllowanceLaw::Period period;
  period.run_ns = period.run_processor_ns = 2'000'000;
  period.stop_processor_ns = 500'000;
  period.allocated_bytes = footprint_bytes / 2;
  return period;
}

PacerInput Found(uint64_t scanned, uint64_t pointer_free = 0, uint64_t free = 0,
                 size_t threads = 1) {
  PacerInput input;
  input.period = OfRatioEighth(scanned + pointer_free);
  input.live_scanned_bytes = scanned;
  input.live_pointer_free_bytes = pointer_free;
  input.free_resident_bytes = free;
  input.threads = threads;
  return input;
}

TEST(PacerTest, NothingIsDueBeforeItIsConfigured) {
  Pacer pacer;
  EXPECT_FALSE(pacer.OnAllocated(1 << 30, 0));
}

TEST(PacerTest, TheAllowanceIsNeverBelowTheMinimum) {
  ConfiguredPacer pacer;
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(512 * kKiB));
  EXPECT_FALSE(pacer.OnAllocated(512 * kKiB - 1, 0));
  EXPECT_TRUE(pacer.OnAllocated(1, 0));
  pacer.StartCycle(Found(1000));
  EXPECT_EQ(pacer.allocated(), 0);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(512 * kKiB));
}

TEST(PacerTest, AMinimumBeyondAllMemoryIsNeverDue) {
  for (const size_t min : {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2}) {
    Pacer pacer;
    PacerConfig config = Config();
    config.min_allowance_bytes = min;
    pacer.Configure(config);
    EXPECT_FALSE(pacer.OnAllocated(1 * kGiB, 0)) << min;
    PacerInput found = Found(100 * kMiB);
    found.in_cycle_bytes = 1 * kMiB;
    pacer.StartCycle(found);
    EXPECT_FALSE(pacer.OnAllocated(1 * kGiB, 0)) << min;
    EXPECT_FALSE(pacer.ShouldCollectToGrow(1 * kGiB)) << min;
  }
}

// It would be touched afresh in each period.
TEST(PacerTest, WhatTheLawGivesIsNoSurplus) {
  Pacer pacer;
  PacerConfig config = Config();
  config.process_bytes = 800 * kMiB;
  pacer.Configure(config);
  PacerInput found = Found(1 * kMiB, 0, 400 * kMiB);
  found.resident_bytes = 402 * kMiB;
  found.period = OfRatioEighth(801 * kMiB);
  for (int i = 0; i < 20; ++i) pacer.StartCycle(found);
  EXPECT_FALSE(pacer.ShouldReturnFreeMemory());
}

TEST(PacerTest, TheAllowanceIsThatOfTheLaw) {
  Pacer pacer;
  PacerConfig config = Config(3);
  pacer.Configure(config);
  pacer.StartCycle(Found(300 * kMiB, 100 * kMiB));
  EXPECT_NEAR(static_cast<double>(pacer.allowance()), 200.0 * kMiB, 10);
  // Twice the divisor, half the allowance.
  pacer.Configure(Config(6));
  pacer.StartCycle(Found(300 * kMiB, 100 * kMiB));
  EXPECT_NEAR(static_cast<double>(pacer.allowance()), 100.0 * kMiB, 10);
  // What the process has outside the heap counts as live bytes do.
  config.process_bytes = 50 * kMiB;
  ConfiguredPacer large(config);
  PacerInput found = Found(250 * kMiB, 100 * kMiB);
  found.period = OfRatioEighth(400 * kMiB);
  large.StartCycle(found);
  EXPECT_NEAR(static_cast<double>(large.allowance()), 200.0 * kMiB, 10);
}

TEST(PacerTest, ACollectionPaysForMemoryWhoseFirstAccessTakesEightTimesAsLong) {
  PacerConfig config = Config();
  config.touch_ns_per_byte = 0.25;
  config.longest_stop_ns = 10'000'000;
  ConfiguredPacer pacer(config);
  EXPECT_FALSE(pacer.PaysToCollectFor(SIZE_MAX / 4));  // nothing is known yet
  PacerInput found = Found(30 * kMiB);
  found.full_stop_ns = 1'000'000;
  pacer.StartCycle(found);
  constexpr size_t kMin = 32'000'000;  // 8 ms
  EXPECT_FALSE(pacer.PaysToCollectFor(kMin));
  pacer.CountAllocated(kMin);
  EXPECT_FALSE(pacer.PaysToCollectFor(kMin)) << "there is no other object since";
  pacer.CountAllocated(1);
  EXPECT_TRUE(pacer.PaysToCollectFor(kMin));
  EXPECT_FALSE(pacer.PaysToCollectFor(kMin - 1));
  // A stop that is too long, and memory that costs nothing.
  found.full_stop_ns = config.longest_stop_ns;
  pacer.StartCycle(found);
  pacer.CountAllocated(1 << 30);
  EXPECT_FALSE(pacer.PaysToCollectFor((1 << 30) - 1));
  config.touch_ns_per_byte = 0;
  found.full_stop_ns = 0;
  pacer.Configure(config);
  pacer.StartCycle(found);
  pacer.CountAllocated(1 << 30);
  EXPECT_FALSE(pacer.PaysToCollectFor((1 << 30) - 1));
}

// Registers up to `finalizable` objects in all, of 10,000 bytes each, a second after the last
// collection. How many there are when a collection is due; `finalizable` if none is.
size_t RegisterUntilDue(Pacer* pacer, size_t from, size_t finalizable, uint64_t ran_ns = 1 << 30) {
  for (size_t n = from; n < finalizable; ++n) {
    if (pacer->WeighFinalizable(n, 10'000, [ran_ns] { return ran_ns; })) return n;
  }
  return finalizable;
}

TEST(PacerTest, FinalizableObjectsMakeACollectionDue) {
  ConfiguredPacer pacer;
  // Not before a twelfth of the least allowance, which is 512 KiB, has been allocated.
  pacer.OnAllocated(512 * kKiB / 12, 0);
  EXPECT_EQ(RegisterUntilDue(&pacer, 0, 1000), 1000u);
  pacer.OnAllocated(1, 0);
  EXPECT_EQ(RegisterUntilDue(&pacer, 0, 1000), 53u);  // 512 KiB
  EXPECT_TRUE(pacer.OnAllocated(0, 0));
  // A cycle that is due for 53 objects is to be over when 53 more are there.
  EXPECT_EQ(pacer.PartOverdue(53), 0);
  EXPECT_EQ(pacer.PartOverdue(2 * 53), 1);
  PacerInput found = Found(30 * kMiB);
  found.full_stop_ns = 1'000'000;
  found.finalized = 53;
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.WantsFull());
  EXPECT_EQ(pacer.PartOverdue(2 * 53), 0);
  EXPECT_FALSE(pacer.OnAllocated(0, 0));
  pacer.OnAllocated(1 * kMiB, 0);
  // A collection is not due before the program has run for four times as long as it takes.
  EXPECT_EQ(RegisterUntilDue(&pacer, 0, 10'000, 3'999'999), 10'000u);
  EXPECT_EQ(RegisterUntilDue(&pacer, 0, 10'000, 4'000'000), 14 * kMiB / 10'000 + 1);
  // Nothing is due for objects that weigh nothing.
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.WeighFinalizable(1'000'000, 0, [] { return uint64_t{1} << 40; }));
}

// A few files may wait for as long as libgc lets them.
TEST(PacerTest, MinorCollectionsDoNotReleaseWhatIsOld) {
  ConfiguredPacer pacer;
  PacerInput found = Found(30 * kMiB);
  found.full_stop_ns = 1 << 30;
  pacer.StartCycle(found);
  found.is_minor = true;
  for (size_t files = 60; files < 90; files += 15) {
    EXPECT_EQ(RegisterUntilDue(&pacer, files, files + 15), files + 15);
    EXPECT_FALSE(pacer.OnAllocated(7 * kMiB, 0));
    found.finalizable = files + 15;
    pacer.StartCycle(found);
  }
  pacer.OnAllocated(1 * kMiB, 0);
  EXPECT_EQ(RegisterUntilDue(&pacer, 91, 1000), 91u);
  EXPECT_TRUE(pacer.WantsFull());
  pacer.StartCycle(found);  // a minor one, for another reason
  EXPECT_TRUE(pacer.WantsFull());
  found.is_minor = false;
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.WantsFull());
}

// A program that gives finalizers to what it keeps pays with few collections.
TEST(PacerTest, CollectionsThatReleaseNothingBecomeRare) {
  ConfiguredPacer pacer;
  PacerInput found = Found(1 * kMiB);
  size_t collections = 0;
  for (size_t n = 0; n < 1'000'000; ++collections) {
    pacer.OnAllocated(64 * kKiB, 0);
    n = RegisterUntilDue(&pacer, n + 1, 1'000'000);
    found.finalizable = n;
    pacer.StartCycle(found);
  }
  EXPECT_GT(collections, 10u);
  EXPECT_LT(collections, 200u);
  // What is released makes them frequent again.
  for (int i = 0; i < 40; ++i) {
    pacer.OnAllocated(64 * kKiB, 0);
    const size_t due = RegisterUntilDue(&pacer, found.finalizable + 1, 3'000'000);
    found.finalized = due - found.finalizable;
    pacer.StartCycle(found);
  }
  pacer.OnAllocated(64 * kKiB, 0);
  EXPECT_LT(RegisterUntilDue(&pacer, found.finalizable + 1, 3'000'000), found.finalizable + 100);
}

// Objects whose finalizers release memory outside the heap, of which `kept` bytes are the program's
// own, or kept by its malloc.
struct Outside {
  uint64_t each = 0;
  uint64_t kept = 0;
  uint64_t stop_ns = 1'000'000;
  uint64_t ns_each = 1'000'000;  // that the program runs for each object
};

// Registers objects beyond `from` until a collection is due, `max` at most; returns how many.
size_t AddUntilDue(Pacer* pacer, const Outside& outside, size_t from, size_t max) {
  for (size_t n = 1; n <= max; ++n) {
    const uint64_t bytes = n * outside.each;
    if (pacer->IsLookDue(from + n) &&
        pacer->WeighProcessBytes(from + n, bytes > outside.kept ? bytes : outside.kept,
                                 n * outside.ns_each)) {
      return n;
    }
  }
  return max + 1;
}

PacerInput FoundFull(const Outside& outside, size_t finalized) {
  PacerInput found = Found(50 * kMiB);
  found.full_stop_ns = outside.stop_ns;
  found.finalizable = 1;
  found.finalized = finalized;
  return found;
}

TEST(PacerTest, GrowthOutsideTheHeapMakesACollectionDue) {
  const Outside blocks{.each = 10 * kMiB};
  ConfiguredPacer pacer;
  pacer.StartCycle(FoundFull(blocks, 0));
  for (int i = 0; i < 30; ++i) {
    const size_t due = AddUntilDue(&pacer, blocks, 1, 1000);
    // 10 n MiB, n ms: n^2 >= 8 * 1 * 60 / 10.
    EXPECT_GE(due, 7u);
    EXPECT_LE(due, 9u);
    EXPECT_TRUE(pacer.WantsFull());
    pacer.StartCycle(FoundFull(blocks, due));
    EXPECT_FALSE(pacer.WantsFull());
  }
  // Little growth is none.
  EXPECT_EQ(AddUntilDue(&pacer, {.each = 1, .kept = 1 * kGiB}, 1, 5), 6u);
}

TEST(PacerTest, NothingIsDueForGrowthWhileNothingCanBeReleased) {
  ConfiguredPacer pacer;
  PacerInput found = FoundFull({}, 0);
  found.finalizable = 1000;
  pacer.StartCycle(found);
  for (size_t n = 0; n < 1000; ++n) {
    EXPECT_FALSE(pacer.IsLookDue(1000) && pacer.WeighProcessBytes(1000, n * kGiB, n << 30));
  }
}

// What finalizers give back, a malloc may keep.
TEST(PacerTest, MemoryThatAMallocKeepsDoesNotGrowForEver) {
  Outside blocks{.each = 10 * kMiB};
  ConfiguredPacer pacer;
  pacer.StartCycle(FoundFull(blocks, 0));
  for (int i = 0; i < 5000; ++i) {
    const size_t due = AddUntilDue(&pacer, blocks, 1, 10'000);
    if (due * blocks.each > blocks.kept) blocks.kept = due * blocks.each;
    pacer.StartCycle(FoundFull(blocks, due));
  }
  EXPECT_LT(blocks.kept, 2 * kGiB);
}

// The program's own memory grows once, while a few objects are registered that hold nothing.
TEST(PacerTest, GrowthThatIsNotOfTheObjectsIsForgotten) {
  ConfiguredPacer pacer;
  pacer.StartCycle(FoundFull({}, 0));
  size_t collections = 0;
  for (size_t n = 1; n <= 1000; ++n) {
    if (pacer.IsLookDue(1 + n % 10) && pacer.WeighProcessBytes(1 + n % 10, n * 2 * kMiB, n << 20)) {
      ++collections;
      pacer.StartCycle(FoundFull({}, n % 10));
    }
  }
  EXPECT_LT(collections, 100u);
  collections = 0;
  for (size_t objects = 0; objects < 1'000'000; ++collections) {
    const size_t due = AddUntilDue(&pacer, {.kept = 2 * kGiB}, 1, 1'000'000);
    pacer.StartCycle(FoundFull({}, due));
    objects += due;
  }
  EXPECT_LT(collections, 30u);
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
  ConfiguredPacer pacer;
  pacer.StartCycle(Found(100 * kMiB, 0, 240 * kMiB));
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(210 * kMiB));
  pacer.StartCycle(Found(1 * kMiB, 0, 800 * kMiB));
  EXPECT_LT(pacer.allowance(), static_cast<ptrdiff_t>(100 * kMiB));
}

TEST(PacerTest, WhatIsBornInACycleCountsAsAllocatedAndNotAsLive) {
  ConfiguredPacer stopped;
  stopped.StartCycle(Found(300 * kMiB, 60 * kMiB));
  ConfiguredPacer pacer;
  // A sixth of all that was found.
  PacerInput found = Found(360 * kMiB, 72 * kMiB);
  found.period = OfRatioEighth(360 * kMiB);
  found.in_cycle_bytes = 72 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allocated(), static_cast<ptrdiff_t>(72 * kMiB));
  EXPECT_EQ(pacer.AllocatedSinceStop(), 0);
  EXPECT_NEAR(static_cast<double>(pacer.allowance()),
              static_cast<double>(stopped.allowance()) + 72.0 * kMiB, 10);
  // Found by the sweep.
  pacer.OnAllocated(5 * kMiB, 0);
  pacer.Amend(720 * kMiB, 144 * kMiB, 0);
  EXPECT_EQ(pacer.allocated(), static_cast<ptrdiff_t>(77 * kMiB));
  EXPECT_EQ(pacer.found().live_scanned_bytes, 660 * kMiB);
  EXPECT_EQ(pacer.found().live_pointer_free_bytes, 132 * kMiB);
  // If hardly anything else lives, a quarter of it counts as live.
  pacer.Amend(40 * kMiB, 0, 0);
  EXPECT_EQ(pacer.found().live_scanned_bytes, 10 * kMiB);
  EXPECT_GE(pacer.allowance(), static_cast<ptrdiff_t>(72 * kMiB));
  // Memory that is free is used first, whatever counts as allocated already.
  pacer.Amend(40 * kMiB, 0, 64 * kMiB);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>((56 + 72) * kMiB));
  // Every so many bytes means just that.
  PacerConfig stress = Config();
  stress.stress_bytes = 1 * kMiB;
  pacer.Configure(stress);
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allocated(), 0);
  EXPECT_EQ(pacer.found().live_scanned_bytes, 360 * kMiB);
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
  PacerInput found = Found(10 * kMiB, 0, 5 * kMiB);
  found.resident_bytes = 25 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(90 * kMiB));
  // The share of the live bytes is used, and the heap has grown, but not to that size.
  EXPECT_FALSE(pacer.OnAllocated(80 * kMiB, 99 * kMiB));
  EXPECT_TRUE(pacer.ShouldCollectToGrow(0));
  EXPECT_TRUE(pacer.OnAllocated(1, 101 * kMiB));
  // There is no surplus in it.
  for (int i = 0; i < 20; ++i) {
    found = Found(1 * kMiB, 0, 99 * kMiB);
    found.resident_bytes = 100 * kMiB;
    pacer.StartCycle(found);
  }
  EXPECT_FALSE(pacer.ShouldReturnFreeMemory());
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
  PacerInput found = Found(10 * kMiB, 0, 5 * kMiB);
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

// A footprint of 50 MiB, 10 of them outside the heap, and a cost ratio of an eighth.
PacerInput UnderALimit() {
  PacerInput found = Found(40 * kMiB);
  found.period = OfRatioEighth(50 * kMiB);
  found.full_stop_ns = 500'000;
  found.resident_bytes = 40 * kMiB;
  return found;
}

// The configuration for it, with this soft limit.
PacerConfig LimitedTo(uint64_t soft_limit_bytes) {
  PacerConfig config = Config();
  config.process_bytes = 10 * kMiB;
  config.soft_limit_bytes = soft_limit_bytes;
  return config;
}

TEST(PacerTest, NearTheSoftLimitCollectionsComeSooner) {
  const auto allowance_with = [](uint64_t limit) {
    ConfiguredPacer pacer(LimitedTo(limit));
    pacer.StartCycle(UnderALimit());
    EXPECT_FALSE(pacer.MissesLimit()) << limit;
    EXPECT_FALSE(pacer.ShouldReturnFreeMemory()) << limit;
    EXPECT_EQ(pacer.IsNearLimit(), limit != 0 && limit < 78 * kMiB) << limit;
    return pacer.allowance();
  };
  EXPECT_NEAR(static_cast<double>(allowance_with(0)), 25.0 * kMiB, 10);
  EXPECT_NEAR(static_cast<double>(allowance_with(80 * kMiB)), 25.0 * kMiB, 10);
  // An eighth of what fits stays free.
  EXPECT_EQ(allowance_with(74 * kMiB), static_cast<ptrdiff_t>(21 * kMiB));
  EXPECT_EQ(allowance_with(66 * kMiB), static_cast<ptrdiff_t>(14 * kMiB));
}

TEST(PacerTest, ASoftLimitIsLetGoWhenCollectionsTakeHalfOfTheTime) {
  for (const uint64_t limit : {uint64_t{1}, 10 * kMiB, 30 * kMiB, 56 * kMiB}) {
    ConfiguredPacer pacer(LimitedTo(limit));
    pacer.StartCycle(UnderALimit());
    EXPECT_NEAR(static_cast<double>(pacer.allowance()), 6.25 * kMiB, 10) << limit;
    // Nobody is told of a limit that is kept all the same.
    EXPECT_EQ(pacer.MissesLimit(), limit < 50 * kMiB) << limit;
    EXPECT_TRUE(pacer.IsNearLimit()) << limit;
  }
}

TEST(PacerTest, WhatAMinorCollectionKeepsDoesNotFitBelowTheSoftLimitAgain) {
  ConfiguredPacer pacer(LimitedTo(74 * kMiB));
  PacerInput found = UnderALimit();
  found.kept_bytes = 8 * kMiB;
  pacer.StartCycle(found);
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(13 * kMiB));
}

TEST(PacerTest, TheHeapIsCollectedBeforeItGrowsBeyondTheSoftLimit) {
  PacerConfig config = LimitedTo(66 * kMiB);
  config.initial_heap_bytes = 100 * kMiB;
  ConfiguredPacer pacer(config);
  pacer.StartCycle(UnderALimit());
  EXPECT_EQ(pacer.allowance(), static_cast<ptrdiff_t>(14 * kMiB));
  // The least allowance is 6.25 MiB.
  EXPECT_FALSE(pacer.OnAllocated(6 * kMiB, 46 * kMiB));
  EXPECT_FALSE(pacer.ShouldCollectToGrow(57 * kMiB));
  EXPECT_FALSE(pacer.OnAllocated(1 * kMiB, 47 * kMiB));
  EXPECT_TRUE(pacer.ShouldCollectToGrow(56 * kMiB + 1));
  EXPECT_FALSE(pacer.ShouldCollectToGrow(56 * kMiB));
  // The heap that the program asked for is not worth the limit.
  EXPECT_EQ(pacer.MayGrowTo(48 * kMiB), 56 * kMiB);
  EXPECT_EQ(pacer.MayGrowTo(55 * kMiB), 56 * kMiB);
  EXPECT_EQ(pacer.MayGrowTo(60 * kMiB), 60 * kMiB + 60 * kMiB / 16);
}

TEST(PacerTest, AHeapOfHolesIsNearTheSoftLimit) {
  ConfiguredPacer pacer(LimitedTo(100 * kMiB));
  PacerInput found = UnderALimit();
  found.resident_bytes = 60 * kMiB;
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.IsNearLimit());
  found.resident_bytes = 70 * kMiB;
  pacer.StartCycle(found);
  EXPECT_TRUE(pacer.IsNearLimit());
}

TEST(PacerTest, AboveTheSoftLimitFreeMemoryReturns) {
  ConfiguredPacer pacer(LimitedTo(70 * kMiB));
  PacerInput found = UnderALimit();
  found.resident_bytes = 60 * kMiB;
  found.free_resident_bytes = 20 * kMiB;
  pacer.StartCycle(found);
  EXPECT_FALSE(pacer.ShouldReturnFreeMemory());
  found.resident_bytes = 60 * kMiB + 1;
  pacer.StartCycle(found);
  EXPECT_TRUE(pacer.ShouldReturnFreeMemory());
}

TEST(PacerTest, StressOverrulesTheRest) {
  Pacer pacer;
  PacerConfig config = Config();
  config.stress_bytes = 4096;
  config.initial_heap_bytes = 64 * kMiB;
  pacer.Configure(config);
  pacer.StartCycle(Found(1000 * kMiB, 0, 500 * kMiB));
  EXPECT_EQ(pacer.allowance(), 4096);
  EXPECT_LE(PollBytes(), 4096u);
  EXPECT_FALSE(pacer.OnAllocated(4095, 0));
  EXPECT_TRUE(pacer.OnAllocated(1, 0));
}

TEST(PacerTest, FreeingTakesBackAllocation) {
  ConfiguredPacer pacer;
  EXPECT_FALSE(pacer.OnAllocated(500 * kKiB, 0));
  EXPECT_FALSE(pacer.OnAllocated(-400 * static_cast<ptrdiff_t>(kKiB), 0));
  EXPECT_EQ(pacer.allocated(), static_cast<ptrdiff_t>(100 * kKiB));
  EXPECT_FALSE(pacer.OnAllocated(400 * kKiB, 0));
  EXPECT_TRUE(pacer.OnAllocated(12 * kKiB, 0));
}

// All threads together may pass the allowance by a sixteenth before one of them notices, unless
// that is less than the least amount that is worth a report each.
TEST(PacerTest, ThreadsReportOftenEnough) {
  ConfiguredPacer pacer;
  for (const size_t threads : {1, 2, 7, 64, 1000}) {
    for (const uint64_t live : {0ull, 1ull << 20, 100ull << 20, 10ull << 30}) {
      pacer.StartCycle(Found(live, 0, 0, threads));
      const auto allowance = static_cast<size_t>(pacer.allowance());
      EXPECT_LE(PollBytes(), 1 * kMiB);
      EXPECT_TRUE(PollBytes() * threads <= allowance / 16 || PollBytes() == 4 * kKiB)
          << PollBytes() << " bytes, " << threads << " threads, allowance " << allowance;
    }
  }
}

// Free pages into which the objects do not fit are no reason to let the heap grow.
TEST(PacerTest, FreeMemoryCountsOnlyWhileTheHeapDoesNotGrow) {
  ConfiguredPacer pacer;
  PacerInput found = Found(1 * kMiB, 0, 16 * kMiB);
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

}  // namespace
}  // namespace gleaner::gc
