// What holds for every way to track writes.
#include "platform/tracking/write_tracking.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

class WriteTrackingTest : public ::testing::TestWithParam<TrackingKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, WriteTrackingTest, ::testing::ValuesIn(KindsToTest()),
                         [](const auto& info) {
                           std::string name = TraitsOf(info.param).name;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(WriteTrackingTest, ItIsFoundToWork) {
  EXPECT_CHILD_OK([] { EXPECT_TRUE(WriteTracking::Works(GetParam())); });
}

// Where a first write is a fault, its cost is measured; a fault takes longer than a clock's tick.
CHILD_TEST_P(WriteTrackingTest, TheCostOfAFirstWriteIsMeasured) {
  const bool faults = TraitsOf(GetParam()).sees_plain_stores;
  TrackingCosts costs = {12345, 12345};
  ASSERT_TRUE(WriteTracking::Works(GetParam(), nullptr, &costs));
  EXPECT_EQ(costs.first_write_ns != 0, faults) << costs.first_write_ns;
  EXPECT_EQ(costs.arm_ns != 0, faults) << costs.arm_ns;
  EXPECT_NE(costs.first_write_ns, 12345u);
  EXPECT_NE(costs.arm_ns, 12345u);
}

CHILD_TEST_P(WriteTrackingTest, AWriteIsReportedOnce) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.StartTouched());
  for (int round = 0; round < 3; ++round) {
    for (const size_t i : {0, 17, 18, 100, 255}) heap.Write(i);
    heap.Write(17);
    heap.ExpectReported({0, 17, 18, 100, 255}, heap.FetchAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
  }
}

CHILD_TEST_P(WriteTrackingTest, NeighboursAreReportedAsOneRange) {
  TrackedHeap heap(GetParam(), 1024);
  ASSERT_TRUE(heap.Start());
  heap.FetchAll();
  for (size_t i = 16; i < 48; ++i) {
    for (size_t offset = 0; offset < kPage; offset += kCardBytes) heap.Write(i, offset);
  }
  int ranges = 0;
  const size_t bytes = heap.tracking.FetchAndRearm(
      heap.address(0), heap.address(1024),
      [](void* context, Addr, Addr) { ++*static_cast<int*>(context); }, &ranges);
  EXPECT_EQ(ranges, 1);
  EXPECT_EQ(bytes, 32 * kPage);
}

CHILD_TEST_P(WriteTrackingTest, WhatWasWrittenBeforeArmingIsForgotten) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.ok());
  heap.TouchAll();
  heap.Write(3);
  ASSERT_TRUE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
  heap.Write(4);
  ASSERT_TRUE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
}

CHILD_TEST_P(WriteTrackingTest, ReadsDoNotDirty) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.ok());
  for (size_t i = 0; i < 128; ++i) heap.Write(i);  // the others stay untouched
  ASSERT_TRUE(heap.ArmAll());
  heap.FetchAll();
  uint64_t sum = 0;
  for (size_t i = 0; i < 256; ++i) sum += *reinterpret_cast<volatile uint64_t*>(heap.page(i));
  EXPECT_EQ(sum, 0u);
  EXPECT_EQ(heap.FetchAll(), Pages{});
}

CHILD_TEST_P(WriteTrackingTest, FirstWritesToUntouchedPagesAreReported) {
  TrackedHeap heap(GetParam(), 2048);
  ASSERT_TRUE(heap.Start());
  heap.FetchAll();
  const Pages written = {5, 511, 512, 1500};
  for (const size_t i : written) heap.Write(i);
  heap.ExpectReported(written, heap.FetchAll());
}

CHILD_TEST_P(WriteTrackingTest, PartsAreArmedFetchedAndDisarmedByThemselves) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.ok());
  heap.TouchAll();
  // Heap pages of 16 KiB that share a region, and such that do not.
  ASSERT_TRUE(heap.Arm(20, 24));
  ASSERT_TRUE(heap.Arm(28, 32));
  ASSERT_TRUE(heap.Arm(64, 128));
  for (size_t i = 0; i < 256; ++i) heap.Write(i);
  // Whoever needs a stopped world fetches all that is armed, or loses it.
  if (heap.tracking.traits().fetch_needs_stopped_world) return;
  EXPECT_EQ(heap.Fetch(20, 24), (Pages{20, 21, 22, 23}));
  EXPECT_EQ(heap.Fetch(20, 24), Pages{});
  EXPECT_EQ(heap.Fetch(28, 32), (Pages{28, 29, 30, 31}));
  EXPECT_EQ(heap.Fetch(28, 32), Pages{});
  heap.Write(29);
  heap.ExpectReported({29}, heap.Fetch(28, 32));
  EXPECT_EQ(heap.Fetch(28, 32), Pages{});
  EXPECT_EQ(heap.Fetch(64, 128).size(), 64u);
  heap.tracking.Disarm(heap.address(20), heap.address(24));
  heap.tracking.Disarm(heap.address(64), heap.address(96));
  for (size_t i = 0; i < 256; ++i) heap.Write(i);
  EXPECT_EQ(heap.Fetch(28, 32), (Pages{28, 29, 30, 31}));
  EXPECT_EQ(heap.Fetch(96, 128).size(), 32u);
}

CHILD_TEST_P(WriteTrackingTest, DiscardedPagesAreTrackedWhenTheyAreUsedAgain) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.StartTouched());
  Discard(heap.page(32), 64 * kPage);
  heap.Write(40);
  EXPECT_TRUE(heap.FetchAll().count(40));
  Discard(heap.page(32), 64 * kPage);
  heap.FetchAll();
  heap.Write(50);
  EXPECT_TRUE(heap.FetchAll().count(50));
  heap.Write(40);
  EXPECT_TRUE(heap.FetchAll().count(40));
  EXPECT_EQ(heap.FetchAll(), Pages{});
}

CHILD_TEST_P(WriteTrackingTest, HugePagesAreTrackedBySmallOnes) {
  TrackedHeap heap(GetParam(), 4096);
  ASSERT_TRUE(heap.ok());
  AdviseHugePages(heap.page(0), 4096 * kPage);
  heap.TouchAll();
  ASSERT_TRUE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
  const Pages written = {0, 700, 701, 2047, 4095};
  for (const size_t i : written) heap.Write(i);
  heap.ExpectReported(written, heap.FetchAll());
  for (const size_t i : written) heap.Write(i);
  heap.ExpectReported(written, heap.FetchAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
}

CHILD_TEST_P(WriteTrackingTest, LockedMemoryIsTracked) {
  TrackedHeap heap(GetParam(), 8);
  ASSERT_TRUE(heap.ok());
  ASSERT_EQ(mlock(heap.page(0), 8 * kPage), 0);
  ASSERT_TRUE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
  heap.Write(5);
  heap.ExpectReported({5}, heap.FetchAll());
}

CHILD_TEST_P(WriteTrackingTest, MemoryCommittedWhileOtherMemoryIsArmedIsTracked) {
  TrackedHeap heap(GetParam(), 1024);  // 4 MiB
  ASSERT_TRUE(heap.Start());
  heap.FetchAll();
  ASSERT_TRUE(Commit(heap.page(1024), 1024 * kPage));
  ASSERT_TRUE(heap.tracking.CoverUpTo(heap.address(2048)));
  heap.Write(1030);
  heap.Write(9);
  heap.ExpectReported({9}, heap.FetchAll());
  ASSERT_TRUE(heap.Arm(1024, 2048));
  heap.Fetch(0, 2048);
  heap.Write(2047);
  heap.ExpectReported({2047}, heap.Fetch(0, 2048));
}

CHILD_TEST_P(WriteTrackingTest, PinsOutsideOfTheHeapAndTooLongOnesAreHarmless) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.Start());
  char local[64];
  heap.tracking.Unpin(heap.tracking.Pin(AddressOf(local), AddressOf(local) + sizeof local));
  heap.tracking.Unpin(heap.tracking.Pin(0, 100));
  const auto pinned = heap.tracking.Pin(heap.address(200), heap.address(200) + (1u << 31));
  ASSERT_TRUE(Commit(heap.page(1024), 1024 * kPage));
  ASSERT_TRUE(heap.tracking.CoverUpTo(heap.address(2048)));
  heap.tracking.Unpin(pinned);
  heap.FetchAll();
  heap.Write(201);
  heap.ExpectReported({201}, heap.FetchAll());
  heap.tracking.MarkDirty(AddressOf(local));
  heap.tracking.MarkDirty(heap.address(4000));
  heap.tracking.MarkDirty(~Addr{0});
  EXPECT_EQ(heap.FetchAll(), Pages{});
}

CHILD_TEST_P(WriteTrackingTest, AForkedChildStartsAnewAndLeavesTheParentAlone) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.StartTouched());
  heap.Write(7);
  EXPECT_CHILD_OK([&] {
    heap.tracking.ResetInChild();
    for (size_t i = 0; i < 256; ++i) heap.Write(i);
    ASSERT_TRUE(heap.ArmAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
    heap.Write(99);
    heap.ExpectReported({99}, heap.FetchAll());
  });
  heap.Write(150);
  heap.ExpectReported({7, 150}, heap.FetchAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
}

CHILD_TEST_P(WriteTrackingTest, AForkThatNobodyToldOfLosesNothing) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.StartTouched());
  EXPECT_CHILD_OK([&] {
    heap.Write(99);
    EXPECT_TRUE(heap.FetchAll().count(99));
    heap.Write(99);
    EXPECT_TRUE(heap.FetchAll().count(99));
  });
  EXPECT_EQ(heap.FetchAll(), Pages{});
  heap.Write(1);
  heap.ExpectReported({1}, heap.FetchAll());
}

CHILD_TEST_P(WriteTrackingTest, ManyScatteredPages) {
  constexpr size_t kPages = 40'000;
  TrackedHeap heap(GetParam(), kPages);
  ASSERT_TRUE(heap.ok());
  AdviseHugePages(heap.page(0), kPages * kPage);
  heap.TouchAll();
  ASSERT_TRUE(heap.ArmAll());
  heap.FetchAll();
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kPages; i += 2) heap.Write(i * 77'773 % kPages / 2 * 2);
    const Pages found = heap.FetchAll();
    for (size_t i = 0; i < kPages; i += 2) ASSERT_TRUE(found.count(i)) << i;
    EXPECT_EQ(heap.FetchAll(), Pages{});
  }
}

CHILD_TEST_P(WriteTrackingTest, EveryWriteAfterAFetchIsSeenByALaterOne) {
  const uint64_t seed = std::random_device()();
  fprintf(stderr, "seed %lu\n", seed);
  std::mt19937_64 random(seed);
  TrackedHeap heap(GetParam(), 512);
  ASSERT_TRUE(heap.ok());
  Model model(heap);
  const bool stop = heap.tracking.traits().fetch_needs_stopped_world;
  ASSERT_TRUE(heap.ArmAll());
  model.Visit(heap.address(0), heap.address(512));
  Mutators mutators(heap, 3, seed);
  for (Rounds rounds(60); rounds.Next();) {
    for (int fetch = 0; fetch < 12; ++fetch) {
      const size_t cut = 4 * (1 + random() % 126);
      const bool arm = random() % 16 == 0;
      if (stop) mutators.Rest();
      FetchInParallel(heap, model, arm, cut);
      if (stop) mutators.Go();
    }
    mutators.Rest();
    FetchInParallel(heap, model, false, 256);
    ASSERT_EQ(model.StaleCopies(), 0u) << "round " << rounds.current() << ", seed " << seed;
    mutators.Go();
  }
}

TEST(NoTrackingTest, EverythingCountsAsWritten) {
  TrackedHeap heap(TrackingKind::kNone, 16);
  ASSERT_TRUE(heap.ok());
  EXPECT_FALSE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll().size(), 16u);
  TrackingCosts costs = {1, 1};
  EXPECT_TRUE(WriteTracking::Works(TrackingKind::kNone, nullptr, &costs));
  EXPECT_EQ(costs.first_write_ns, 0u);
}

#ifndef __SANITIZE_ADDRESS__  // which takes terabytes of addresses
CHILD_TEST(LimitsTest, ABestKindIsFoundWithLittleAddressSpace) {
  const rlimit limit = {20 * kGiB, 20 * kGiB};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const TrackingKind kind = WriteTracking::BestKind();
  ASSERT_NE(kind, TrackingKind::kNone);
  TrackedHeap heap(kind, 256);
  ASSERT_TRUE(heap.Start());
  heap.Write(3);
  heap.ExpectReported({3}, heap.FetchAll());
}

#endif  // __SANITIZE_ADDRESS__

TEST_P(WriteTrackingTest, WorksInsideAMemoryLimit) {
  const std::string group = "/sys/fs/cgroup/memory/gleaner_test_" + std::to_string(getpid());
  // Where there is no such group, or none of ours, what is used stays below the limit all the same.
  const bool limited = mkdir(group.c_str(), 0700) == 0;
  if (limited) std::ofstream(group + "/memory.limit_in_bytes") << (64 << 20) << std::flush;
  EXPECT_CHILD_OK([&] {
    if (limited) std::ofstream(group + "/cgroup.procs") << getpid() << std::flush;
    TrackedHeap heap(GetParam(), 64 * 1024);  // 256 MiB of addresses
    ASSERT_TRUE(heap.Start());
    heap.FetchAll();
    for (int round = 0; round < 4; ++round) {
      const size_t first = static_cast<size_t>(round) * 8 * 1024;
      Pages written;
      for (size_t i = first; i < first + 8 * 1024; i += 2) {  // 16 MiB
        heap.Write(i);
        written.insert(i);
      }
      const Pages found = heap.FetchAll();
      for (const size_t i : written) ASSERT_TRUE(found.count(i)) << i;
      Discard(heap.page(first), 8 * 1024 * kPage);
    }
  });
  if (limited) rmdir(group.c_str());
}

}  // namespace
}  // namespace gleaner::platform
