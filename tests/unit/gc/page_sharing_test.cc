// AL, PS and LPS: how many pages are taken for how much live memory, and whose pages are used.
//
// l, the live need, is the number of pages with at least one object, current pages included: what
// consumption would be if every empty page were given to whoever wants one. [inv.lps-bound]: pages
// taken <= k * max(l) + kSlack, where the slack is the batch a thread takes at a time (up to 16)
// and, for each thread, its current pages, which count as in use though they may be empty.
//
// The threads' heaps are driven by one thread, so that the tests are deterministic.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "tests/support/fake_world.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using alloc::Policy;
using alloc::Space;
using alloc::ThreadHeap;
using alloc::ThreadHeaps;
using namespace testing;

constexpr size_t kBatch = 16;
constexpr size_t kObjectBytes = 1024;
constexpr size_t kObjectsAPage = alloc::kPageBytes / kObjectBytes;

class Heaps {
 public:
  Heaps(Policy policy, double k, size_t threads) {
    testing::HeapConfig config;
    config.policy = policy;
    config.k = k;
    testing::StartHeap(config);
    testing::StartCollector();
    g_roots.assign(1 << 16, nullptr);
    heaps_.push_back(alloc::t_heap);
    while (heaps_.size() < threads) heaps_.push_back(ThreadHeaps::Acquire());
  }

  // Thread i allocates `pages` pages' worth of objects, rooted from `first` on.
  void Fill(size_t thread, size_t first, size_t pages) {
    for (size_t i = 0; i < pages * kObjectsAPage; ++i) {
      void* p = heaps_[thread]->Allocate(Kind::kNormal, alloc::SizeClassOf(kObjectBytes));
      ASSERT_NE(p, nullptr);
      ASSERT_LT(first + i, g_roots.size());
      g_roots[first + i] = p;
      if (i % kObjectsAPage == 0) Sample();
    }
    Sample();
  }
  void Drop(size_t first, size_t pages) {
    for (size_t i = 0; i < pages * kObjectsAPage; ++i) g_roots[first + i] = nullptr;
  }
  void Sample() {
    size_t free = 0;
    for (size_t i = 0; i < ThreadHeaps::count(); ++i)
      free += ThreadHeaps::at(i).free_pages(Space::kScanned);
    const size_t taken = alloc::PageSpaceOf(Space::kScanned).taken().value();
    const size_t live = taken - free;
    max_live_ = std::max(max_live_, live);
    max_taken_ = std::max(max_taken_, taken);
    const double bound =
        ThreadHeaps::k() * static_cast<double>(max_live_) + static_cast<double>(kBatch);
    if (ThreadHeaps::policy() == Policy::kLps) {
      EXPECT_LE(static_cast<double>(taken), bound) << "[inv.lps-bound] live at most " << max_live_;
    }
  }
  size_t max_live() const { return max_live_; }
  size_t max_taken() const { return max_taken_; }
  ThreadHeap& heap(size_t i) { return *heaps_[i]; }

 private:
  std::vector<ThreadHeap*> heaps_;
  size_t max_live_ = 0;
  size_t max_taken_ = 0;
};

// Each thread in turn needs a lot, drops it, and falls idle: the worst there is for local memory.
void TakeTurns(Heaps& heaps, size_t threads, size_t pages) {
  for (int round = 0; round < 3; ++round) {
    for (size_t t = 0; t < threads; ++t) {
      heaps.Fill(t, 0, pages);
      heaps.Drop(0, pages);
      Collect();
      heaps.Sample();
    }
  }
}

CHILD_TEST(PageSharingTest, AllLocalKeepsWhatEachThreadNeededOnce) {
  Heaps heaps(Policy::kAllLocal, 1, 4);
  TakeTurns(heaps, 4, 200);
  EXPECT_GE(heaps.max_taken(), 4 * 200u);
  EXPECT_LE(heaps.max_taken(), 4 * (200u + kBatch + 1));
}

CHILD_TEST(PageSharingTest, PageSharedConsumesWhatIsLive) {
  Heaps heaps(Policy::kPageShared, 1, 4);
  TakeTurns(heaps, 4, 200);
  EXPECT_LE(heaps.max_taken(), heaps.max_live() + 4 * kBatch);
  EXPECT_LE(heaps.max_taken(), 200u + 4 * (kBatch + 1));
}

CHILD_TEST(PageSharingTest, PageSharedUsesEveryPageOfABatch) {
  Heaps heaps(Policy::kPageShared, 1, 2);
  heaps.Fill(0, 0, 500);
  EXPECT_LE(heaps.max_taken(), 500u + kBatch);
  heaps.Fill(1, 500 * kObjectsAPage, 500);
  EXPECT_LE(heaps.max_taken(), 1000u + 2 * kBatch);
}

TEST(PageSharingTest, LocalityAwareKeepsItsBoundForEveryK) {
  for (const double k : {1.0, 1.5, 2.0, 3.0, 4.0}) {
    for (const size_t threads : {2u, 4u, 8u}) {
      EXPECT_CHILD_OK([k, threads] {
        Heaps heaps(Policy::kLps, k, threads);
        TakeTurns(heaps, threads, 150);  // the bound is asserted at each sample
        // And k is used: with k threads' worth allowed, that much is taken before anything is
        // shared.
        const double allowed = std::min(k, static_cast<double>(threads)) * 150;
        EXPECT_GE(static_cast<double>(heaps.max_taken()), allowed * 0.9);
      });
    }
  }
}

TEST(PageSharingTest, RandomLoadsKeepTheBound) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    EXPECT_CHILD_OK([seed] {
      std::mt19937 random(seed);
      const double k = 1 + 0.5 * static_cast<double>(random() % 4);
      Heaps heaps(Policy::kLps, k, 6);
      constexpr size_t kRegions = 12;
      constexpr size_t kRegionPages = 64;
      for (int step = 0; step < 120; ++step) {
        const size_t region = random() % kRegions;
        heaps.Drop(region * kRegionPages * kObjectsAPage, kRegionPages);
        heaps.Fill(random() % 6, region * kRegionPages * kObjectsAPage,
                   1 + random() % kRegionPages);
        if (random() % 3 == 0) Collect();
      }
    });
  }
}

// An owner that does nothing any more: its empty pages serve others once the bound would be passed.
CHILD_TEST(PageSharingTest, AnIdleOwnerLetsItsPagesGo) {
  Heaps heaps(Policy::kLps, 1, 2);
  heaps.Fill(0, 0, 300);
  heaps.Drop(0, 300);
  Collect();
  EXPECT_GE(heaps.heap(0).free_pages(Space::kScanned), 290u);
  const size_t taken = alloc::PageSpaceOf(Space::kScanned).taken().value();
  heaps.Fill(1, 0, 290);
  EXPECT_LE(alloc::PageSpaceOf(Space::kScanned).taken().value(), taken + kBatch);
  EXPECT_LE(heaps.heap(0).free_pages(Space::kScanned), kBatch);
}

// Thread 0 only allocates and thread 1 only frees: what it frees is found again by thread 0.
CHILD_TEST(PageSharingTest, WhatAFreeOnlyThreadFreesIsUsedAgain) {
  Heaps heaps(Policy::kLps, 1, 2);
  for (int round = 0; round < 30; ++round) {
    alloc::t_heap = &heaps.heap(0);
    heaps.Fill(0, 0, 100);
    alloc::t_heap = &heaps.heap(1);
    for (size_t i = 0; i < 100 * kObjectsAPage; ++i) {
      ASSERT_EQ(alloc::FreeObject(g_roots[i]), alloc::FreeResult::kFreed);
      g_roots[i] = nullptr;
    }
  }
  EXPECT_LE(heaps.max_taken(), 100 + 2 * kBatch);
  EXPECT_EQ(heaps.heap(1).free_pages(Space::kScanned), 0u);
}

// Phases of one size each, by threads in turn, of which GC_free gets everything: no collection, and
// no more pages than the largest phase needs.
CHILD_TEST(PageSharingTest, WhatIsFreedServesEverySizeAndThread) {
  constexpr size_t kThreads = 4;
  constexpr size_t kPages = 200;
  Heaps heaps(Policy::kLps, 1, kThreads);
  std::mt19937 random(21);
  size_t phases = 0;
  for (size_t c = 0; c < alloc::kClassCount; c += 3, ++phases) {
    for (size_t t = 0; t < kThreads; ++t) {
      std::vector<void*> objects(kPages * (alloc::kPageBytes / alloc::kSlotBytes[c]));
      for (void*& object : objects) {
        object = heaps.heap(t).Allocate(Kind::kNormal, c);
        ASSERT_NE(object, nullptr);
      }
      std::shuffle(objects.begin(), objects.end(), random);
      for (void* object : objects) {
        ASSERT_EQ(alloc::FreeObject(object), alloc::FreeResult::kFreed);
      }
      ThreadHeaps::CheckForTesting();
      // Of each thread and class, one page may be current.
      EXPECT_LE(alloc::PageSpaceOf(Space::kScanned).taken().value(),
                kPages + kBatch + kThreads * (phases + 1));
    }
  }
}

// Heap 0 of one, and the objects of eight pages.
struct Pages {
  explicit Pages(size_t size)
      : size_class(alloc::SizeClassOf(size)),
        slots(alloc::kPageBytes / alloc::kSlotBytes[size_class]),
        objects(8 * slots) {}
  void Fill() {
    for (void*& object : objects) {
      object = heaps.heap(0).Allocate(Kind::kNormal, size_class);
      ASSERT_NE(object, nullptr);
    }
  }
  uint8_t* MarkOf(size_t i) const {
    alloc::ObjectRef object;
    EXPECT_TRUE(alloc::FindObject(AddressOf(objects[i]), &object));
    return object.mark();
  }
  void Free(size_t i) const { ASSERT_EQ(alloc::FreeObject(objects[i]), alloc::FreeResult::kFreed); }
  Heaps heaps{Policy::kLps, 1, 1};
  size_t size_class;
  size_t slots;
  std::vector<void*> objects;
};

// A marker turns the byte of a slot black that the program gives back meanwhile: the page counts a
// free slot that it has not. Its owner takes it for full all the same.
TEST(PageSharingTest, APageThatCountsSlotsItHasNotIsLeft) {
  for (const size_t size : {2048u, 4096u, 8192u}) {
    EXPECT_CHILD_OK([size] {
      Pages pages(size);
      for (int round = 0; round < 4; ++round) {
        pages.Fill();
        // In pages that are current and in others.
        for (size_t i = 0; i < pages.objects.size(); i += pages.slots - 1) {
          uint8_t* mark = pages.MarkOf(i);
          const uint8_t black = *mark;
          pages.Free(i);
          *mark = black;
        }
        ThreadHeaps::CheckForTesting();
      }
    });
  }
}

// A thread turns the byte of a slot to 0, and counts it late or, in the child of a fork, never. The
// owner takes the slot, and finds the page full afterwards.
TEST(PageSharingTest, APageThatHasSlotsItDoesNotCountIsLeft) {
  for (const size_t size : {1024u, 2048u, 8192u}) {
    EXPECT_CHILD_OK([size] {
      Pages pages(size);
      pages.Fill();
      for (size_t i = 0; i < pages.objects.size(); i += pages.slots) {
        for (size_t k = i; 2 * (k - i) < pages.slots; ++k) {
          if (k == i && i != 0) {
            *pages.MarkOf(k) = alloc::kFreeSlot;
          } else {
            pages.Free(k);
          }
        }
      }
      pages.Fill();
    });
  }
}

// A thread that ended: the next one adopts its heap, and meanwhile others use what is free in it.
CHILD_TEST(PageSharingTest, TheHeapOfAThreadThatEndedIsUsed) {
  Heaps heaps(Policy::kLps, 1, 3);
  heaps.Fill(1, 0, 100);
  // Half of each page dies, but for the slot that a pointer to the base of the next one keeps.
  for (size_t i = 0; i < 100 * kObjectsAPage; ++i) {
    if (i % kObjectsAPage < kObjectsAPage / 2) g_roots[i] = nullptr;
  }
  Collect();
  const size_t taken = alloc::PageSpaceOf(Space::kScanned).taken().value();
  ThreadHeaps::Abandon(&heaps.heap(1));
  heaps.Fill(2, 100 * kObjectsAPage, 40);  // of some 43 pages' worth of free slots
  EXPECT_LE(alloc::PageSpaceOf(Space::kScanned).taken().value(), taken + kBatch);
  EXPECT_EQ(ThreadHeaps::Acquire(), &heaps.heap(1));
  EXPECT_NE(ThreadHeaps::Acquire(), &heaps.heap(1));
}

CHILD_TEST(PageSharingTest, AllLocalSharesRatherThanFails) {
  Heaps heaps(Policy::kAllLocal, 1, 2);
  alloc::SetHeapLimit(8 * kMiB);  // 512 pages
  heaps.Fill(0, 0, 480);
  heaps.Drop(0, 480);
  Collect();
  heaps.Fill(1, 0, 440);
  EXPECT_LE(alloc::ResidentBytes(), 8 * kMiB);
}

// Many empty pages of small objects make room for a large one.
TEST(PageSharingTest, EmptyPagesServeLargeObjects) {
  for (const Policy policy : {Policy::kLps, Policy::kAllLocal, Policy::kPageShared}) {
    EXPECT_CHILD_OK([policy] {
      Heaps heaps(policy, 1, 2);
      alloc::SetHeapLimit(8 * kMiB);
      heaps.Fill(0, 0, 480);
      heaps.Drop(0, 480);
      Collect();
      alloc::t_heap = &heaps.heap(1);
      g_roots[0] = testing::Allocate(Kind::kNormal, 6 * kMiB);
      EXPECT_NE(g_roots[0], nullptr);
    });
  }
}

// [inv.page-sum]: after a collection every page taken is in use or on a free list, and the sums
// agree.
TEST(PageSharingTest, PagesAddUpAfterCollections) {
  for (const Policy policy : {Policy::kLps, Policy::kAllLocal, Policy::kPageShared}) {
    EXPECT_CHILD_OK([policy] {
      std::mt19937 random(12);
      Heaps heaps(policy, 1.5, 4);
      for (int step = 0; step < 80; ++step) {
        testing::g_tunables.concurrent_sweep = step >= 40;
        const size_t region = random() % 8 * 64;
        heaps.Drop(region * kObjectsAPage, 64);
        heaps.Fill(random() % 4, region * kObjectsAPage, random() % 64);
        if (step % 3 == 0) {
          const size_t large = (1 << 16) - 1 - random() % 20;
          g_roots[large] = testing::Allocate(Kind::kNormal, 10000 + random() % 100000);
        }
        ASSERT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
        if (step >= 40) {
          ASSERT_TRUE(g_collector.SweepRest());
        }
        size_t free = 0;
        for (size_t i = 0; i < ThreadHeaps::count(); ++i)
          free += ThreadHeaps::at(i).free_pages(Space::kScanned);
        size_t used = 0;
        size_t listed = 0;
        alloc::ForEachPage(Space::kScanned, [&](alloc::PageNumber, const alloc::PageInfo& info) {
          switch (info.state) {
            case alloc::PageState::kUnused:
              break;
            case alloc::PageState::kTaken:
              ++listed;
              break;
            default:
              ++used;
          }
        });
        ASSERT_EQ(listed, free) << "pages on free lists";
        ASSERT_EQ(used + free, alloc::PageSpaceOf(Space::kScanned).taken().value());
        alloc::PageSpaceOf(Space::kScanned).CheckForTesting();
      }
    });
  }
}

}  // namespace
}  // namespace gleaner::gc
