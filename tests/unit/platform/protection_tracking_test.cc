// Mappings that run out, and protection that is not ours.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <thread>

#include "platform/faults/delays.h"
#include "platform/threads/stop_world.h"
#include "platform/threads/thread.h"
#include "tests/support/refusals.h"
#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

using namespace gleaner::testing;

// Writes to every other region, twice over, and expects all of it to be reported.
void ExpectScatteredRegionsWork(TrackedHeap& heap) {
  for (int round = 0; round < 2; ++round) {
    Pages written;
    for (size_t i = 0; i < heap.pages(); i += 2 * kPagesPerRegion) {
      heap.Write(i);
      written.insert(i);
    }
    const Pages found = heap.FetchAll();
    for (const size_t i : written) ASSERT_TRUE(found.count(i)) << i;
  }
}

CHILD_TEST(ProtectionTest, StaysWithinItsBudgetOfMappings) {
  for (const size_t budget : {1000, 100, 10, 1}) {
    TrackedHeap heap(TrackingKind::kProtection, 64 * 1024, budget);  // 256 MiB, 4096 regions
    ASSERT_TRUE(heap.ok());
    heap.Write(0);  // one mapping that has been written to, as heaps are
    ASSERT_TRUE(heap.ArmAll());
    const size_t before = MappingsOfProcess();
    size_t most = before;
    for (size_t i = 0; i < heap.pages(); i += 2 * kPagesPerRegion) {
      heap.Write(i * 2357 % heap.pages());
      if (i % (64 * kPagesPerRegion) == 0) most = std::max(most, MappingsOfProcess());
    }
    EXPECT_LE(most, before + budget + 4) << "budget " << budget;
    if (budget >= 1000) {
      EXPECT_GE(most, before + budget / 4);
    }
    ExpectScatteredRegionsWork(heap);
    EXPECT_EQ(heap.tracking.counts().refusals, 0u);
  }
}

#ifndef __SANITIZE_ADDRESS__  // whose allocator needs mappings
TEST(ProtectionTest, LosesNothingWhenThereAreNoMappingsLeft) {
  for (const size_t left : {0, 2, 20}) {
    EXPECT_CHILD_OK([left] {
      TrackedHeap heap(TrackingKind::kProtection, 8 * 1024);
      ASSERT_TRUE(heap.ok());
      UseUpMappings(left);
      // Half of it is armed before, so that it is not one mapping. May be refused.
      heap.Arm(0, heap.pages() / 2);
      heap.ArmAll();
      ExpectScatteredRegionsWork(heap);
      if (left < 20) {
        EXPECT_GT(heap.tracking.counts().refusals, 0u);
      }
    });
  }
}

CHILD_TEST(ProtectionTest, LosesNothingWhenMutatorsCompeteForTheLastMappings) {
  const uint64_t seed = std::random_device()();
  fprintf(stderr, "seed %lu\n", seed);
  TrackedHeap heap(TrackingKind::kProtection, 4 * 1024);
  ASSERT_TRUE(heap.ok());
  Model model(heap);
  heap.ArmAll();
  model.Visit(heap.address(0), heap.address(heap.pages()));
  Mutators mutators(heap, 3, seed);
  mutators.Rest();
  UseUpMappings(6);
  mutators.Go();
  for (Rounds rounds(100); rounds.Next();) {
    for (int fetch = 0; fetch < 4; ++fetch) {
      heap.tracking.FetchAndRearm(heap.address(0), heap.address(heap.pages()),
                                  Model::VisitDirtyRange, &model);
    }
    mutators.Rest();
    heap.tracking.FetchAndRearm(heap.address(0), heap.address(heap.pages()), Model::VisitDirtyRange,
                                &model);
    ASSERT_EQ(model.StaleCopies(), 0u) << "round " << rounds.current() << ", seed " << seed;
    mutators.Go();
  }
}

#endif  // __SANITIZE_ADDRESS__

CHILD_TEST(ProtectionTest, WorksWithAMapCountOfAThousand) {
  // Who has no right to show it takes no more than the budget that follows from it.
  const size_t budget = ShowMapCount("1000\n") ? 0 : (1000 - MappingsOfProcess()) / 2;
  TrackedHeap heap(TrackingKind::kProtection, 128 * 1024, budget);  // 512 MiB
  ASSERT_TRUE(heap.Start());
  ExpectScatteredRegionsWork(heap);
  EXPECT_LT(MappingsOfProcess(), 700u);
  EXPECT_EQ(heap.tracking.counts().refusals, 0u);
}

TEST(ProtectionTest, PagesThatTheProgramProtectsAreItsOwnBusiness) {
  const auto result = gleaner::testing::RunInChild([] {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer may have a handler
    TrackedHeap heap(TrackingKind::kProtection, 256);
    ASSERT_TRUE(heap.Start());
    heap.Write(30);
    ASSERT_EQ(mprotect(heap.page(30), kPage, PROT_NONE), 0);
    heap.Write(30);
  });
  EXPECT_TRUE(result.ended_by(SIGSEGV)) << result.err;
}

// A thread that fetches all the time, and for each page it is given does what it is told.
class Fetching {
 public:
  Fetching(TrackedHeap& heap, VisitDirty visit, void* context)
      : thread_([this, &heap, visit, context] {
          while (!end_) {
            heap.tracking.FetchAndRearm(heap.address(0), heap.address(heap.pages()), visit,
                                        context);
          }
        }) {}
  ~Fetching() {
    end_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

std::atomic<uint64_t> g_version{0};

// A child of vfork writes to all pages. What it ended with.
__attribute__((noinline)) int WriteInAChildOfVfork(TrackedHeap& heap, size_t first) {
  const pid_t child = vfork();
  if (child == 0) {
    for (size_t i = 0; i < heap.pages(); ++i) {
      const size_t page = (first + i * 37) % heap.pages();
      const bool pins = i % 8 == 0;
      WriteTracking::Pinned pinned;
      if (pins) pinned = heap.tracking.Pin(heap.address(page), heap.address(page) + 1);
      *reinterpret_cast<volatile uint64_t*>(heap.page(page) + 8) = ++g_version;
      if (pins) heap.tracking.Unpin(pinned);
    }
    _exit(0);
  }
  return StatusOf(child);
}

CHILD_TEST(ProtectionTest, LosesNothingOfWhatAChildOfVforkWrites) {
  const uint64_t seed = std::random_device()();
  fprintf(stderr, "seed %lu\n", seed);
  TrackedHeap heap(TrackingKind::kProtection, 8 * kPagesPerRegion);
  ASSERT_TRUE(heap.StartTouched());
  Model model(heap);
  std::mt19937_64 random(seed);
  SetDelays(20);
  for (Rounds rounds(30); rounds.Next();) {
    {
      const Fetching fetching(heap, Model::VisitDirtyRange, &model);
      for (int children = 0; children < 10; ++children) {
        ASSERT_EQ(WriteInAChildOfVfork(heap, random() % heap.pages()), 0);
      }
    }
    heap.tracking.FetchAndRearm(heap.address(0), heap.address(heap.pages()), Model::VisitDirtyRange,
                                &model);
    ASSERT_EQ(model.StaleCopies(), 0u) << "round " << rounds.current() << ", seed " << seed;
  }
}

// Made without the handlers of fork: what the other threads were about to do is never done.
CHILD_TEST(ProtectionTest, AForkedChildThatNobodyResetMayWriteAndPin) {
  TrackedHeap heap(TrackingKind::kProtection, 8 * kPagesPerRegion);
  ASSERT_TRUE(heap.StartTouched());
  const auto write_again = [](void*, Addr begin, Addr) { *PointerAt<char>(begin) = 1; };
  const Fetching fetching(heap, write_again, nullptr);
  heap.Write(5);
  for (Rounds rounds(50); rounds.Next();) {
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0) {
      alarm(30);
      for (size_t i = 0; i < heap.pages(); i += 3) {
        const auto pinned = heap.tracking.Pin(heap.address(i), heap.address(i) + 1);
        heap.Write(i);
        heap.tracking.Unpin(pinned);
      }
      _exit(0);
    }
    ASSERT_EQ(StatusOf(child), 0) << "round " << rounds.current();
  }
}

CHILD_TEST(ProtectionTest, WhatIsKeptOpenIsDirtyAndNeverProtected) {
  TrackedHeap heap(TrackingKind::kProtection, 8 * kPagesPerRegion);
  ASSERT_TRUE(heap.StartTouched());
  // From before the heap up to its second region, and a part of the fifth.
  ProtectionTracking::KeepOpen(heap.address(0) - kRegionBytes, heap.address(kPagesPerRegion) + 1);
  ProtectionTracking::KeepOpen(heap.address(70), heap.address(70) + 1);
  Pages kept;
  for (size_t i = 0; i < heap.pages(); ++i) {
    const size_t region = i / kPagesPerRegion;
    if (region < 2 || region == 4) kept.insert(i);
  }
  EXPECT_EQ(heap.FetchAll(), kept);
  EXPECT_EQ(heap.FetchAll(), kept);
  const uint64_t faults = heap.tracking.counts().faults;
  for (const size_t i : kept) heap.Write(i);
  EXPECT_EQ(heap.tracking.counts().faults, faults);
  heap.Write(40);
  EXPECT_EQ(heap.tracking.counts().faults, faults + 1);
  const pid_t child = fork();
  if (child == 0) {
    heap.tracking.ResetInChild();
    const bool right = heap.ArmAll() && heap.FetchAll() == kept;
    _exit(right ? 0 : 1);
  }
  EXPECT_EQ(StatusOf(child), 0);
}

CHILD_TEST(ProtectionTest, ProtectedMemoryIsMadeResident) {
  TrackedHeap heap(TrackingKind::kProtection, 8 * kPagesPerRegion);
  ASSERT_TRUE(heap.Start());
  ASSERT_EQ(MakeResident(heap.page(3), 2 * kPage), 0);
  unsigned char resident[3] = {};
  ASSERT_EQ(mincore(heap.page(2), 3 * kPage, resident), 0);
  EXPECT_EQ(resident[1] & resident[2] & 1, 1);
  // It may have been written, and is protected again by the report.
  heap.ExpectReported({3, 4}, heap.FetchAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
  // Beyond the heap nothing is pinned.
  heap.tracking.Close();
  EXPECT_EQ(MakeResident(heap.page(6), kPage), 0);
}

bool BlocksFaultSignal() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, SIGSEGV) == 1;
}

CHILD_TEST(ProtectionTest, ThreadsThatBlockedTheSignalOpenIt) {
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGSEGV);
  char array[64 * 1024];
  stack_t stack = {};
  stack.ss_sp = array;
  stack.ss_size = sizeof array;
  ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
  StopRecord record;
  record.tid = CurrentThreadId();
  record.stack = CurrentStackBounds();
  AdoptRecord(&record);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &fault, nullptr), 0);
  UnblockFaultSignal();
  EXPECT_TRUE(BlocksFaultSignal()) << "no tracker needs the signal";
  EnterBlocking(&record, AddressOf(__builtin_frame_address(0)));
  std::unique_ptr<TrackedHeap> heap;
  std::thread([&] {
    heap = std::make_unique<TrackedHeap>(TrackingKind::kProtection, 8 * kPagesPerRegion);
  }).join();
  ASSERT_TRUE(heap->StartTouched());
  EXPECT_TRUE(BlocksFaultSignal());
  LeaveBlocking(&record);
  EXPECT_FALSE(BlocksFaultSignal());
  ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
  EXPECT_FALSE(record.stack.Contains(AddressOf(stack.ss_sp))) << "faults would use this stack";
  heap->Write(5);
  heap->ExpectReported({5}, heap->FetchAll());
  // A mask that the library restores has the signal open, too.
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &fault, nullptr), 0);
  { const HandlersWait wait; }
  EXPECT_FALSE(BlocksFaultSignal());
  AdoptRecord(nullptr);
}

CHILD_TEST(ProtectionTest, OneTrackerAtATime) {
  TrackedHeap one(TrackingKind::kProtection, 256);
  ASSERT_TRUE(one.ok());
  TrackedHeap two(TrackingKind::kProtection, 256);
  EXPECT_FALSE(two.ok());
  EXPECT_EQ(two.tracking.kind(), TrackingKind::kNone);
  ASSERT_TRUE(one.ArmAll());
  one.Write(1);
  one.ExpectReported({1}, one.FetchAll());
}

}  // namespace
}  // namespace gleaner::platform
