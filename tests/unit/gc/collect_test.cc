// Whole collections with a fake world: what stays, what goes, and what counts as a pointer.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/fake_world.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using alloc::kPageBytes;
using namespace testing;

void Start(int markers = 1, size_t reserve = 256 * kMiB) {
  testing::HeapConfig config;
  config.reserve = reserve;
  testing::StartHeap(config);
  testing::StartCollector(markers);
}

void** Words(void* p) { return static_cast<void**>(p); }
char* Bytes(void* p) { return static_cast<char*>(p); }
// A pointer to the base would also keep the slot in front, of which it may be one past the end.
void* Inside(void* p) { return Bytes(p) + 8; }

CHILD_TEST(CollectTest, WhatIsReachableStaysAndTheRestGoes) {
  Start();
  g_roots.assign(1, nullptr);
  std::vector<void*> live;
  std::vector<void*> dead;
  for (int i = 0; i < 20000; ++i) {
    void* p = Allocate(Kind::kNormal, 16 + static_cast<size_t>(i) % 300);
    if (i % 3 == 0) {
      Words(p)[1] = g_roots[0];
      g_roots[0] = p;
      live.push_back(p);
    } else {
      Words(p)[0] = g_roots[0];
      dead.push_back(p);
    }
  }
  g_roots[0] = Inside(g_roots[0]);
  for (int round = 0; round < 3; ++round) {
    Collect();
    for (void* p : live) ASSERT_TRUE(IsAllocated(p));
    for (void* p : dead) ASSERT_FALSE(IsAllocated(p));
    EXPECT_GE(g_collector.last().live_objects, live.size());
  }
}

// It frees what is dead as any collection, but its stop is the tool's.
CHILD_TEST(CollectTest, TheStopOfAnInspectionIsInNoSum) {
  Start();
  Collect();
  void* dead = Allocate(Kind::kNormal, 64);
  const gc::CollectorTotals before = g_collector.totals();
  ASSERT_TRUE(g_collector.Collect(gc::Cause::kInspection, 0));
  EXPECT_FALSE(IsAllocated(dead));
  const gc::CollectorTotals& after = g_collector.totals();
  EXPECT_EQ(after.collections, before.collections + 1);
  EXPECT_EQ(after.inspections, before.inspections + 1);
  EXPECT_EQ(after.pauses.all_ns, before.pauses.all_ns);
  EXPECT_EQ(after.longest_pause.all_ns, before.longest_pause.all_ns);
  EXPECT_GT(g_collector.last().pause.all_ns, 0u);
}

CHILD_TEST(CollectTest, InteriorPointersKeepAndTheByteBehindDoesNotInTheHeap) {
  Start();
  g_roots.assign(2, nullptr);
  void* holder = Allocate(Kind::kNormal, 4000);
  g_roots[0] = holder;
  const size_t sizes[] = {16, 48, 160, 1168, 5456, 8192, 8208, 16384, 16400, 100000};
  std::vector<void*> interior;
  std::vector<void*> behind;
  size_t word = 0;
  for (const size_t bytes : sizes) {
    void* p = Allocate(Kind::kNormal, bytes);
    Words(holder)[word++] = Bytes(p) + bytes - 1;
    interior.push_back(p);
  }
  // Each the only object of its class besides the one in front, so that what lies behind is free.
  void* lone = Allocate(Kind::kNormal, 3264);
  Words(holder)[word++] = Bytes(lone) + 3264;
  behind.push_back(lone);
  lone = Allocate(Kind::kNormal, 3 * kPageBytes);
  Words(holder)[word++] = Bytes(lone) + 3 * kPageBytes;
  behind.push_back(lone);
  Collect();
  for (void* p : interior) EXPECT_TRUE(IsAllocated(p));
  for (void* p : behind) EXPECT_FALSE(IsAllocated(p));
}

CHILD_TEST(CollectTest, OnePastTheEndCountsInRootsAndWithPaddingInTheHeap) {
  Start();
  g_roots.assign(40, nullptr);
  size_t root = 0;
  std::vector<void*> all;
  for (const size_t bytes : {size_t{16}, size_t{48}, size_t{1168}, size_t{5456}, size_t{8192},
                             3 * kPageBytes, size_t{20000}}) {
    void* p = Allocate(Kind::kNormal, bytes);
    g_roots[root++] = Bytes(p) + bytes;
    all.push_back(p);
  }
  Collect();
  for (void* p : all) EXPECT_TRUE(IsAllocated(p));
  // The same in the heap, with the option.
  void* holder = Allocate(Kind::kNormal, 512);
  for (size_t i = 0; i < root; ++i) {
    Words(holder)[i] = g_roots[i];
    g_roots[i] = nullptr;
  }
  g_roots[0] = holder;
  g_tunables.mark.pad_objects = true;
  Collect();
  for (void* p : all) EXPECT_TRUE(IsAllocated(p));
  g_tunables.mark.pad_objects = false;
  Collect();
  for (void* p : all) {
    // Unless it begins where another ends.
    bool referred_to = false;
    for (size_t i = 0; i < root; ++i) referred_to = referred_to || Words(holder)[i] == p;
    EXPECT_EQ(IsAllocated(p), referred_to);
  }
}

CHILD_TEST(CollectTest, LargeObjectsAreKeptFromAnyOfTheirPages) {
  Start();
  g_roots.assign(1, nullptr);
  void* p = Allocate(Kind::kNormal, 100000);
  void* child = Allocate(Kind::kNormal, 64);
  Words(p)[12000] = child;
  for (size_t at = 0; at < 100000; at += 8192) {
    g_roots[0] = Bytes(p) + at;
    Collect();
    ASSERT_TRUE(IsAllocated(p)) << at;
    ASSERT_TRUE(IsAllocated(child)) << at;
  }
  g_roots[0] = Bytes(p) + 100001;  // the rest of its last page
  Collect();
  EXPECT_FALSE(IsAllocated(p));
  EXPECT_FALSE(IsAllocated(child));
}

CHILD_TEST(CollectTest, PointerFreeObjectsAreNotScannedFromAnyOfTheirPages) {
  Start();
  g_roots.assign(1, nullptr);
  for (const size_t bytes : {size_t{64}, size_t{8192}, size_t{100000}}) {
    for (size_t at = 0; at < bytes; at += 8000) {
      void* p = Allocate(Kind::kAtomic, bytes);
      void* victim = Allocate(Kind::kNormal, 64);
      for (size_t w = 0; w < bytes / 8; ++w) Words(p)[w] = victim;
      g_roots[0] = Bytes(p) + at;
      Collect();
      ASSERT_TRUE(IsAllocated(p)) << bytes << " from " << at;
      ASSERT_FALSE(IsAllocated(victim)) << bytes << " from " << at;
    }
  }
}

CHILD_TEST(CollectTest, IgnoreOffPageKeepsFromTheFirstPageOnly) {
  Start();
  g_roots.assign(1, nullptr);
  void* p = alloc::AllocateObject(Kind::kNormal, 100000, alloc::kGranuleBytes, true);
  for (const size_t at : {size_t{0}, size_t{8}, size_t{511}, kPageBytes - 1}) {
    g_roots[0] = Bytes(p) + at;
    Collect();
    ASSERT_TRUE(IsAllocated(p)) << at;
  }
  g_roots[0] = Inside(Bytes(p) + kPageBytes);
  Collect();
  EXPECT_FALSE(IsAllocated(p));
}

CHILD_TEST(CollectTest, StalePointersToFreeSlotsKeepNothing) {
  Start();
  g_roots.assign(2, nullptr);
  g_roots[0] = Inside(Allocate(Kind::kNormal, 64));
  void* p = Allocate(Kind::kNormal, 64);
  Collect();
  EXPECT_FALSE(IsAllocated(p));
  g_roots[1] = p;  // dead already
  Collect();
  EXPECT_FALSE(IsAllocated(p));
}

CHILD_TEST(CollectTest, UncollectableObjectsStayAndKeep) {
  Start();
  g_roots.assign(1, nullptr);
  for (const size_t bytes : {size_t{64}, size_t{50000}}) {
    void* p = Allocate(Kind::kUncollectable, bytes);
    void* child = Allocate(Kind::kNormal, 64);
    void* atomic = Allocate(Kind::kAtomicUncollectable, bytes);
    void* victim = Allocate(Kind::kNormal, 64);
    Words(p)[3] = child;
    Words(atomic)[3] = victim;
    Collect();
    EXPECT_TRUE(IsAllocated(p));
    EXPECT_TRUE(IsAllocated(child));
    EXPECT_TRUE(IsAllocated(atomic));
    EXPECT_FALSE(IsAllocated(victim));
    EXPECT_EQ(alloc::FreeObject(p), alloc::FreeResult::kFreed);
    Collect();
    EXPECT_FALSE(IsAllocated(child));
  }
}

CHILD_TEST(CollectTest, WithoutInteriorPointersOnlyRegisteredDisplacementsCount) {
  Start();
  g_tunables.mark.all_interior_pointers = false;
  g_valid_displacement[24] = 1;
  g_roots.assign(1, nullptr);
  for (const size_t bytes : {size_t{64}, size_t{5000}, size_t{100000}}) {
    void* holder = Allocate(Kind::kNormal, 64);
    void* base = Allocate(Kind::kNormal, bytes);
    void* registered = Allocate(Kind::kNormal, bytes);
    void* other = Allocate(Kind::kNormal, bytes);
    Words(holder)[0] = base;
    Words(holder)[1] = Bytes(registered) + 24;
    Words(holder)[2] = Bytes(other) + 32;
    g_roots[0] = holder;
    Collect();
    EXPECT_TRUE(IsAllocated(base));
    EXPECT_TRUE(IsAllocated(registered));
    EXPECT_FALSE(IsAllocated(other)) << bytes;
  }
}

// Memory that died is zero when it comes again, whatever the runs it comes in.
CHILD_TEST(CollectTest, MemoryIsZeroAfterCollections) {
  Start();
  std::mt19937 random(13);
  g_roots.assign(4000, nullptr);
  for (int step = 0; step < 100000; ++step) {
    const size_t bytes = random() % 100 == 0 ? random() % 50000 : random() % 1200;
    auto* p = static_cast<unsigned char*>(
        Allocate(random() % 8 == 0 ? Kind::kUncollectable : Kind::kNormal, bytes));
    ASSERT_NE(p, nullptr);
    alloc::ObjectRef object;
    ASSERT_TRUE(alloc::FindObject(AddressOf(p), &object));
    for (size_t b = 0; b < object.bytes; ++b)
      ASSERT_EQ(p[b], 0) << b << " of " << bytes << " in step " << step;
    memset(p, 0xff, object.bytes);
    g_roots[random() % g_roots.size()] = p;
    if (IsUncollectable(object.kind()) && random() % 2 == 0) {
      for (void*& root : g_roots) root = root == p ? nullptr : root;
      alloc::FreeObject(p);
    }
    if (step % 5000 == 0) Collect();
  }
}

// Every depth and width at once: a random graph, marked by 1 to 4 workers in all variants, must be
// what the serial second opinion says (g_tunables.verify), and stay so with a mark stack of no
// size.
// The concurrent sweep: what is dead is so at once, and when all is swept, it is as if it
// had been done in the pause.
CHILD_TEST(CollectTest, SweepsConcurrently) {
  Start();
  g_tunables.concurrent_sweep = true;
  std::mt19937 random(15);
  for (int round = 0; round < 20; ++round) {
    g_roots.assign(4000, nullptr);
    std::vector<void*> dead;
    for (size_t i = 0; i < 30000; ++i) {
      const size_t bytes = random() % 500 == 0 ? 8200 + random() % 60000 : 16 + random() % 400;
      const Kind kind = random() % 2 == 0 ? Kind::kNormal : Kind::kAtomic;
      void* p = Allocate(kind, bytes);
      ASSERT_NE(p, nullptr);
      if (i < g_roots.size()) {
        g_roots[i] = p;
      } else {
        dead.push_back(p);
      }
    }
    // So that one past the end of what is live is not in use by chance.
    for (void*& root : g_roots) root = Inside(root);
    ASSERT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
    ASSERT_NE(alloc::g_dead_mark.Load(platform::memory_order_relaxed), 0);
    const size_t objects = g_collector.last().live_objects;
    for (void* p : dead) {
      ASSERT_FALSE(IsAllocated(p));
      ASSERT_NE(alloc::FreeObject(p), alloc::FreeResult::kFreed);
    }
    for (void* p : g_roots) ASSERT_TRUE(IsAllocated(Bytes(p) - 8));
    switch (round % 4) {
      case 0:  // swept by the next collection
        break;
      case 1:  // by need
        ASSERT_TRUE(g_collector.SweepRest());
        ASSERT_FALSE(g_collector.SweepRest());
        g_collector.EndSweepIfDone();
        ASSERT_EQ(alloc::g_dead_mark.Load(platform::memory_order_relaxed), 0);
        EXPECT_GE(g_collector.last().live_objects, objects);  // runs of the thread count
        break;
      case 2: {  // in part, by allocation, which finds zeroes
        for (int i = 0; i < 3000; ++i) {
          const size_t bytes = 16 + random() % 400;
          void* p = Allocate(Kind::kNormal, bytes);
          for (size_t at = 0; at < bytes; ++at) ASSERT_EQ(Bytes(p)[at], 0);
          memset(p, 255, bytes);
        }
        break;
      }
      default:  // while objects are given back
        for (size_t i = 0; i < g_roots.size(); i += 2) {
          ASSERT_EQ(alloc::FreeObject(Bytes(g_roots[i]) - 8), alloc::FreeResult::kFreed);
          ASSERT_FALSE(IsAllocated(Bytes(g_roots[i]) - 8));
          g_roots[i] = nullptr;
          if (i % 100 == 0) Allocate(Kind::kNormal, 16 + random() % 400);
        }
        g_collector.SweepRest();
        for (size_t i = 1; i < g_roots.size(); i += 2) {
          ASSERT_TRUE(IsAllocated(Bytes(g_roots[i]) - 8));
        }
    }
    const size_t live = round % 4 == 1 ? g_collector.last().live_bytes : 0;
    Collect();  // sweeps in the pause
    ASSERT_EQ(alloc::g_dead_mark.Load(platform::memory_order_relaxed), 0);
    if (live != 0) {
      EXPECT_EQ(g_collector.last().live_bytes, live);
    }
    alloc::PageSpaceOf(alloc::Space::kScanned).CheckForTesting();
    alloc::PageSpaceOf(alloc::Space::kPointerFree).CheckForTesting();
  }
}

TEST(CollectTest, RandomGraphsInAllVariants) {
  for (const int markers : {1, 4}) {
    EXPECT_CHILD_OK([markers] {
      Start(markers, markers == 1 ? 64 * kMiB : 512 * kMiB);
      std::mt19937 random(14);
      for (int variant = 0; variant < 16; ++variant) {
        g_tunables.mark.balance = (variant & 1) == 0;
        g_tunables.mark.split = (variant & 2) == 0;
        g_tunables.mark.termination =
            (variant & 4) == 0 ? TerminationMethod::kStates : TerminationMethod::kCounter;
        g_tunables.mark.pad_objects = (variant & 8) != 0;
        std::vector<void*> nodes;
        for (int i = 0; i < 20000; ++i) {
          const size_t bytes = random() % 500 == 0 ? 8192 + random() % 30000 : 16 + random() % 200;
          void* p = Allocate(Kind::kNormal, bytes);
          ASSERT_NE(p, nullptr);
          for (size_t w = 0; w < bytes / 8; ++w) {
            if (!nodes.empty() && random() % 3 == 0) Words(p)[w] = nodes[random() % nodes.size()];
          }
          nodes.push_back(p);
        }
        g_roots.assign(nodes.end() - 200, nodes.end());
        nodes.clear();
        Collect();
        EXPECT_GT(g_collector.last().live_objects, 10000u);
      }
    });
  }
}

}  // namespace
}  // namespace gleaner::gc
