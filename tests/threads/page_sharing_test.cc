// Thread heaps with real threads: no slot is lost or handed out twice, and pages move between
// threads as the policies say.
//
// l, the live need, is the number of pages taken that are on no free list. The bound of LPS
// [inv.lps-bound] is  pages taken <= k * max(l) + slack,  max over what was seen with the threads
// at rest; within a phase l only grows, so that is its maximum. The slack has two parts. Each
// thread that finds room below the bound takes up to kBatch pages, and all may find the same room:
// kBatch * threads. And pages that a thief has in hand are on no free list for a moment, so that
// another thread may take l for larger than it is: kStealBatch * threads, times k.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "gc/finish/sweeper.h"
#include "tests/support/fake_world.h"
#include "tests/threads/concurrent.h"

namespace gleaner::alloc {
namespace {

using namespace testing;

constexpr size_t kBatch = 4;       // ThreadHeap takes up to so many pages from the page space
constexpr size_t kStealBatch = 8;  // and up to so many from another heap
constexpr size_t kObjectBytes = 1024;
constexpr size_t kObjectsAPage = kPageBytes / kObjectBytes;

class PageSharingTest : public testing::ConcurrentTest {};

struct Setting {
  const char* name;
  Policy policy;
  double k;
};
constexpr Setting kSettings[] = {{"lps, k = 1", Policy::kLps, 1},
                                 {"lps, k = 2", Policy::kLps, 2},
                                 {"lps, k = threads", Policy::kLps, 4},
                                 {"al", Policy::kAllLocal, 1},
                                 {"ps", Policy::kPageShared, 1}};
constexpr size_t kThreads = 4;

size_t Taken() { return PageSpaceOf(Space::kScanned).taken().value(); }
size_t FreeListed() {
  size_t free = 0;
  for (size_t i = 0; i < ThreadHeaps::count(); ++i) {
    free += ThreadHeaps::at(i).free_pages(Space::kScanned);
  }
  return free;
}

void CheckSpaces() {
  PageSpaceOf(Space::kScanned).CheckForTesting();
  PageSpaceOf(Space::kPointerFree).CheckForTesting();
}

// --- Slots ---

struct Object {
  uint64_t* words;
  size_t count;
  uint64_t id;
};

void Write(const Object& object) {
  for (size_t i = 0; i < object.count; ++i) object.words[i] = Mix64(object.id + i);
}
bool IsIntact(const Object& object) {
  for (size_t i = 0; i < object.count; ++i) {
    if (object.words[i] != Mix64(object.id + i)) return false;
  }
  return true;
}

// Objects on their way to a thread that did not allocate them.
class Exchange {
 public:
  void Put(const Object& object) {
    std::lock_guard guard(mu_);
    objects_.push_back(object);
  }
  bool Take(Random& random, Object* out) {
    std::lock_guard guard(mu_);
    if (objects_.empty()) return false;
    std::swap(objects_[random.Below(objects_.size())], objects_.back());
    *out = objects_.back();
    objects_.pop_back();
    return true;
  }
  const std::vector<Object>& objects() const { return objects_; }

 private:
  std::mutex mu_;
  std::vector<Object> objects_;
};

size_t AllocatedSlots() {
  size_t slots = 0;
  ForEachPage([&slots](PageNumber page, const PageInfo&) {
    const uint8_t* marks = g_space.MarksOf(page);
    slots += static_cast<size_t>(std::count(marks, marks + kMarkBytesPerPage, g_epoch));
  });
  return slots;
}

// With a heap in t_heap, before and after.
void MixedLoad(size_t self, size_t steps, Exchange& exchange, std::vector<Object>& mine) {
  Random random(self);
  for (size_t step = 0; step < steps; ++step) {
    const size_t dice = random.Below(100);
    if (dice < 55) {
      const size_t bytes = random.OneIn(200) ? 8200 + random.Below(60000)
                           : random.OneIn(8) ? 8 + random.Below(8184)
                                             : 8 + random.Below(200);
      const auto kind = static_cast<Kind>(random.Below(kBuiltInKinds));
      Object object{static_cast<uint64_t*>(AllocateObject(kind, bytes)), bytes / 8, random.Next()};
      ASSERT_NE(object.words, nullptr);
      for (size_t i = 0; IsZeroed(kind) && i < object.count; ++i) ASSERT_EQ(object.words[i], 0u);
      Write(object);
      if (random.OneIn(2)) {
        exchange.Put(object);
      } else {
        mine.push_back(object);
      }
    } else if (dice < 75) {
      Object object;
      if (exchange.Take(random, &object)) {
        ASSERT_TRUE(IsIntact(object));
        ASSERT_EQ(FreeObject(object.words), FreeResult::kFreed);
      }
    } else if (dice < 95) {
      if (mine.empty()) continue;
      std::swap(mine[random.Below(mine.size())], mine.back());
      ASSERT_TRUE(IsIntact(mine.back()));
      ASSERT_EQ(FreeObject(mine.back().words), FreeResult::kFreed);
      mine.pop_back();
    } else if (random.OneIn(20)) {
      // The thread ends and another begins.
      ThreadHeaps::Abandon(t_heap);
      t_heap = &g_no_heap;
      if (random.OneIn(2)) Jitter(random);
      t_heap = ThreadHeaps::Acquire();
      ASSERT_NE(t_heap, nullptr);
    }
  }
}

// The objects of a run of MixedLoad by all threads, which bring heaps of their own.
struct Load {
  explicit Load(const Setting& setting) {
    testing::HeapConfig config;
    config.policy = setting.policy;
    config.k = setting.k;
    testing::StartHeap(config);
    ThreadHeaps::Abandon(t_heap);
    t_heap = &g_no_heap;
    for (const auto& objects : own) all.push_back(&objects);
  }

  // The threads go on with the heaps, and the runs, that they kept.
  void Run(size_t phase, size_t steps, bool keep_heaps = false) {
    RunThreads(kThreads, [&](size_t self) {
      t_heap = heaps[self] != nullptr ? heaps[self] : ThreadHeaps::Acquire();
      ASSERT_NE(t_heap, nullptr);
      MixedLoad(self + kThreads * phase, steps / testing::kSlowdown, exchange, own[self]);
      if (!keep_heaps) ThreadHeaps::Abandon(t_heap);
      heaps[self] = keep_heaps ? t_heap : nullptr;
      t_heap = &g_no_heap;
    });
  }
  // They are allocated, nobody else wrote to them, and, unless threads keep runs, none but them is
  // allocated. Their number.
  size_t Check() const {
    size_t live = 0;
    size_t spoilt = 0;
    for (const auto* objects : all) {
      live += objects->size();
      for (const Object& object : *objects) {
        spoilt += testing::IsAllocated(object.words) && IsIntact(object) ? 0 : 1;
      }
    }
    EXPECT_GT(live, 0u);
    EXPECT_EQ(spoilt, 0u);
    if (heaps[0] == nullptr) {
      EXPECT_EQ(AllocatedSlots(), live);
    }
    CheckSpaces();
    return live;
  }

  Exchange exchange;
  ThreadHeap* heaps[kThreads] = {};  // those kept
  std::vector<Object> own[kThreads];
  std::vector<const std::vector<Object>*> all{&exchange.objects()};
};

TEST_F(PageSharingTest, SlotsAreNeitherLostNorHandedOutTwice) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    EXPECT_CHILD_OK([&setting] {
      Load load(setting);
      load.Run(0, 60000);
      const size_t live = load.Check();
      for (const auto* objects : load.all) {
        for (const Object& object : *objects) {
          ASSERT_EQ(FreeObject(object.words), FreeResult::kFreed);
        }
      }
      EXPECT_EQ(AllocatedSlots(), 0u);
      EXPECT_EQ(ThreadHeaps::active(), 1u);  // at least 1, by definition
      EXPECT_LE(ThreadHeaps::count(), 2 + kThreads);
      printf("%s: %zu objects live, %zu heaps, %zu pages\n", setting.name, live,
             ThreadHeaps::count(), TakenPages());
    });
  }
}

// With collections while all rest, to which some of the objects are left. Across all stops but
// the last the threads keep their runs [inv.run].
TEST_F(PageSharingTest, SlotsAreNeitherLostNorHandedOutTwiceByCollections) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    EXPECT_CHILD_OK([&setting] {
      Load load(setting);
      testing::StartCollector(2);
      testing::g_tunables.mark.past_the_end = false;  // so that a root keeps one object
      for (size_t phase = 0; phase < 12; ++phase) {
        load.Run(phase, 2500, phase != 11);
        Random random(1000 + phase);
        for (auto& objects : load.own) {
          std::erase_if(objects, [&random](const Object& object) {
            ObjectRef found;
            EXPECT_TRUE(FindObject(AddressOf(object.words), &found));
            return !IsUncollectable(found.kind()) && random.OneIn(3);
          });
        }
        testing::g_roots.clear();
        for (const auto* objects : load.all) {
          for (const Object& object : *objects) testing::g_roots.push_back(object.words);
        }
        testing::Collect();
        load.Check();
      }
    });
  }
}

// The concurrent sweep, with collections that know by themselves what is live: between two
// phases of load the test forgets some of its objects, turns the others black and flips. Threads
// give objects back and allocate on pages that are being swept.
gc::Sweeper g_sweeper;

void FlipAndBeginSweep(const std::vector<const std::vector<Object>*>& live) {
  const uint8_t white = g_epoch;
  const uint8_t black = OtherEpoch(white);
  for (const auto* objects : live) {
    for (const Object& object : *objects) {
      ObjectRef ref;
      ASSERT_TRUE(FindObject(AddressOf(object.words), &ref));
      *ref.mark() = black;
    }
  }
  g_epoch = black;
  g_idle_allocation_colour = black;
  g_allocation_colour.Store(black, platform::memory_order_relaxed);  // all threads rest
  for (size_t i = 0; i < ThreadHeaps::count(); ++i) ThreadHeaps::at(i).DropListsWorldStopped();
  g_sweeper.BeginConcurrentWorldStopped(white);
}

TEST_F(PageSharingTest, SlotsAreNeitherLostNorHandedOutTwiceWhilePagesAreSwept) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    EXPECT_CHILD_OK([&setting] {
      Load load(setting);
      g_hooks.sweep = [] { return g_sweeper.Step(); };
      size_t swept_by_threads = 0;
      for (size_t phase = 0; phase < 12; ++phase) {
        load.Run(phase, 8000);
        if (phase != 0) {
          gc::SweepTotals before;
          ASSERT_TRUE(g_sweeper.TotalsOfSteps(&before));
          swept_by_threads += before.used_pages;
          while (g_sweeper.Step()) {
          }
          ASSERT_TRUE(g_sweeper.IsDone());
          g_sweeper.EndConcurrent();
        }
        load.Check();
        Random random(1000 + phase);
        for (auto& objects : load.own) {
          std::erase_if(objects, [&random](const Object&) { return random.OneIn(3); });
        }
        FlipAndBeginSweep(load.all);
      }
      EXPECT_GT(swept_by_threads, 0u);
    });
  }
}

// --- Pages ---

// Threads with a heap of their own that work in phases; in between everything rests.
class Team {
 public:
  explicit Team(const Setting& setting) : setting_(setting) {
    testing::HeapConfig config;
    config.policy = setting.policy;
    config.k = setting.k;
    testing::StartHeap(config);
    testing::StartCollector();
    testing::g_roots.assign(kRegions * kRegionObjects, nullptr);
    heaps_.push_back(t_heap);
    t_heap = &g_no_heap;
    while (heaps_.size() < kThreads) heaps_.push_back(ThreadHeaps::Acquire());
  }

  static constexpr size_t kRegions = 8;
  static constexpr size_t kRegionPages = 400;
  static constexpr size_t kRegionObjects = kRegionPages * kObjectsAPage;

  // Thread `self` allocates so many pages of objects, rooted in the region. On any thread.
  void Fill(size_t self, size_t region, size_t pages) {
    t_heap = heaps_[self];
    for (size_t i = 0; i < pages * kObjectsAPage; ++i) {
      void* p = t_heap->Allocate(Kind::kNormal, SizeClassOf(kObjectBytes));
      ASSERT_NE(p, nullptr);
      void*& root = testing::g_roots[region * kRegionObjects + i];
      ASSERT_EQ(root, nullptr);
      memset(p, static_cast<int>(self + 1), kObjectBytes);
      root = p;
    }
    t_heap = &g_no_heap;
  }
  // Checks what Fill wrote, and lets it go, or frees it with thread `self`'s heap.
  void Drop(size_t region, size_t filled_by, const size_t* freed_by = nullptr) {
    if (freed_by != nullptr) t_heap = heaps_[*freed_by];
    for (size_t i = 0; i < kRegionObjects; ++i) {
      void*& root = testing::g_roots[region * kRegionObjects + i];
      if (root == nullptr) continue;
      const auto* bytes = static_cast<const char*>(root);
      ASSERT_EQ(bytes[0], static_cast<char>(filled_by + 1));
      ASSERT_EQ(memcmp(bytes, bytes + 1, kObjectBytes - 1), 0);
      if (freed_by != nullptr) {
        ASSERT_EQ(FreeObject(root), FreeResult::kFreed);
      }
      root = nullptr;
    }
    t_heap = &g_no_heap;
  }

  // With all threads at rest.
  void Measure() {
    max_live_ = std::max(max_live_, Taken() - FreeListed());
    max_taken_ = std::max(max_taken_, Taken());
    CheckSpaces();
    if (setting_.policy == Policy::kLps) {
      EXPECT_LE(static_cast<double>(Taken()),
                setting_.k * static_cast<double>(max_live_ + kStealBatch * kThreads) +
                    static_cast<double>(kBatch * kThreads))
          << "[inv.lps-bound], live at most " << max_live_;
    }
  }
  void Collect() {
    testing::Collect();
    Measure();
  }

  size_t max_live() const { return max_live_; }
  size_t max_taken() const { return max_taken_; }
  // Of the pages in which threads began to allocate, the share that another had touched first.
  double RemoteShare() const {
    uint64_t remote = 0;
    uint64_t all = 0;
    for (const ThreadHeap* heap : heaps_) {
      remote += heap->remote_pages;
      all += heap->pages_taken;
    }
    EXPECT_GT(all, 0u);
    return static_cast<double>(remote) / static_cast<double>(all);
  }
  ThreadHeap& heap(size_t i) { return *heaps_[i]; }

 private:
  const Setting setting_;
  std::vector<ThreadHeap*> heaps_;
  size_t max_live_ = 0;
  size_t max_taken_ = 0;
};

// Pairs of threads in turn need a lot, at the same time, drop it, and rest: the worst there is for
// memory that stays local.
TEST_F(PageSharingTest, ConsumptionIsWhatThePolicyAllows) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    EXPECT_CHILD_OK([&setting] {
      Team team(setting);
      Random random(77);
      size_t most[kThreads] = {};
      for (size_t phase = 0; phase < 12; ++phase) {
        const size_t first = phase % 2 * 2;
        size_t pages[2];
        for (size_t i = 0; i < 2; ++i) {
          pages[i] = 200 + random.Below(50);
          most[first + i] = std::max(most[first + i], pages[i]);
        }
        RunThreads(2, [&](size_t i) { team.Fill(first + i, i, pages[i]); });
        team.Measure();
        for (size_t i = 0; i < 2; ++i) team.Drop(i, first + i);
        team.Collect();
      }
      const size_t sum = most[0] + most[1] + most[2] + most[3];
      const size_t pair = std::max(most[0] + most[1], most[2] + most[3]);
      constexpr size_t kSlack = (kBatch + 2) * kThreads;  // and a current page or two for each
      const double remote = team.RemoteShare();
      printf("%s: %zu pages taken, %zu live at max, %zu if all is local, %.2f remote\n",
             setting.name, team.max_taken(), team.max_live(), sum, remote);
      EXPECT_LE(team.max_live(), pair + kSlack);
      switch (setting.policy) {
        case Policy::kLps:  // the bound is checked in Measure; and what k allows is used
          if (setting.k >= 2) {
            EXPECT_GE(team.max_taken() + kSlack, sum);
            EXPECT_LT(remote, 0.05);
          } else {
            EXPECT_GT(remote, 0.25);
          }
          break;
        case Policy::kAllLocal:
          EXPECT_GE(team.max_taken(), sum);
          EXPECT_LE(team.max_taken(), sum + kSlack);
          EXPECT_EQ(remote, 0);
          break;
        case Policy::kPageShared:
          EXPECT_LE(team.max_taken(), pair + kSlack);
          EXPECT_GT(remote, 0.25);  // the other pair's
          break;
      }
    });
  }
}

// Any threads, any amounts, some of it kept.
TEST_F(PageSharingTest, RandomLoadsKeepTheBound) {
  for (const double k : {1.0, 1.5, 4.0}) {
    EXPECT_CHILD_OK([k] {
      Team team({"lps", Policy::kLps, k});
      Random random(static_cast<uint64_t>(k * 10));
      size_t owner[Team::kRegions] = {};
      for (size_t phase = 0; phase < 25; ++phase) {
        size_t region[kThreads];
        size_t pages[kThreads];
        for (size_t i = 0; i < kThreads; ++i) {
          region[i] = i * 2 + random.Below(2);
          pages[i] = random.OneIn(3) ? 0 : random.Below(150);
          if (pages[i] == 0) continue;
          team.Drop(region[i], owner[region[i]]);
          owner[region[i]] = (i + phase) % kThreads;
        }
        if (random.OneIn(2)) team.Collect();
        RunThreads(kThreads, [&](size_t i) {
          if (pages[i] != 0) team.Fill(owner[region[i]], region[i], pages[i]);
        });
        team.Measure();
      }
      printf("k = %.1f: %zu pages taken, %zu live at most\n", k, team.max_taken(), team.max_live());
    });
  }
}

// Thread 3 never allocates. What it frees of the others is used again at once, by anybody: by
// thread 1 while it goes on, too.
CHILD_TEST_F(PageSharingTest, WhatAFreeOnlyThreadFreesIsUsed) {
  constexpr size_t kFreeOnly = 3;
  Team team({"lps", Policy::kLps, 1});
  RunThreads(2, [&](size_t i) { team.Fill(i, i, 200); });
  team.Measure();
  const size_t taken = Taken();
  size_t max = 0;
  for (size_t round = 0; round < 4; ++round) {
    const size_t owner = round == 0 ? 0 : 1;
    RunThreads(2, [&](size_t i) {
      if (i == 0) {
        team.Drop(owner, owner, &kFreeOnly);
      } else {
        team.Fill(1, 2 + round, 20);
      }
    });
    max = taken + 20 * (round + 1) + kBatch;
    EXPECT_LE(Taken(), max);
    RunThreads(1, [&](size_t) { team.Fill(owner, owner, 195); });
    EXPECT_LE(Taken(), max) << "the owner does not use what others free";
    team.Measure();
  }

  team.Drop(0, 0, &kFreeOnly);
  RunThreads(2, [&](size_t i) { team.Fill(1 + i, 6 + i, 95); });
  EXPECT_LE(Taken(), max) << "others do not use what was freed";
  team.Measure();
  EXPECT_EQ(team.heap(kFreeOnly).free_pages(Space::kScanned), 0u);
  EXPECT_EQ(team.heap(kFreeOnly).allocated_bytes, 0u);
  for (size_t region = 1; region < 7; ++region) team.Drop(region, 1);
  team.Drop(7, 2);
}

// Threads that end leave pages with room; those that go on, and those that come, fill them up.
CHILD_TEST_F(PageSharingTest, AbandonedHeapsAreFilledUp) {
  Team team({"lps", Policy::kLps, 1});
  RunThreads(2, [&](size_t i) { team.Fill(i, i, 200); });
  team.Measure();
  // Every second object goes.
  for (size_t i = 0; i < 2 * Team::kRegionObjects; i += 2) {
    void*& root = testing::g_roots[i];
    if (root == nullptr) continue;
    ASSERT_EQ(FreeObject(root), FreeResult::kFreed);
    root = nullptr;
  }
  const size_t taken = Taken();
  for (const size_t i : {0u, 1u}) ThreadHeaps::Abandon(&team.heap(i));
  RunThreads(2, [&](size_t i) { team.Fill(2 + i, 2 + i, 95); });
  EXPECT_LE(Taken(), taken + 2 * kBatch);
  for (const size_t i : {0u, 1u}) EXPECT_EQ(ThreadHeaps::Acquire(), &team.heap(i));
  for (size_t i = 0; i < 4; ++i) team.Drop(i, i);
  team.Collect();
}

}  // namespace
}  // namespace gleaner::alloc
