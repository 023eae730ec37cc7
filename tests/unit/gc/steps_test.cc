// What threads do at one step of each other's (tests/support/at_steps.h). The steps are drawn from
// a seed, so that a failure can be had again; `--seed N` gives others. Only in the verify build.
#include <iterator>
#include <map>
#include <utility>

#include "alloc/address_space.h"
#include "alloc/metadata/meta.h"
#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "platform/os/lock.h"
#include "platform/threads/stop_world.h"
#include "tests/support/at_steps.h"
#include "tests/support/changing_graph.h"
#include "tests/support/flags.h"

namespace gleaner::gc {
namespace {

using alloc::FreeResult;
using alloc::Kind;
using alloc::ThreadHeap;
using alloc::ThreadHeaps;
using platform::TrackingKind;
using namespace testing;

class StepsTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::Seed(); }  // is printed
};

// Pages by faults would not do: the thread that fetches would wait for itself.
std::vector<TrackingKind> KindsWithoutFaults() {
  std::vector<TrackingKind> kinds{TrackingKind::kCards};
  if (platform::WriteTracking::Works(TrackingKind::kUserfaultfd)) {
    kinds.push_back(TrackingKind::kUserfaultfd);
  }
  return kinds;
}

class MarkingStepsTest : public ::testing::TestWithParam<TrackingKind> {
 protected:
  void SetUp() override { testing::Seed(); }
};

INSTANTIATE_TEST_SUITE_P(StepsTest, MarkingStepsTest, ::testing::ValuesIn(KindsWithoutFaults()),
                         [](const auto& test) {
                           return test.param == TrackingKind::kCards ? "cards" : "pages";
                         });

// --- Marking ---

// Marks concurrently, and calls f at one in about `every` steps of that; then stops.
// `before` is called before each call of Advance.
template <class Before, class F>
void RunCycle(std::mt19937& random, size_t every, const Before& before, const F& f) {
  g_collector.WantCycle();
  for (bool is_ready = false; !is_ready;) {
    before();
    AtSteps(
        random, every, [&is_ready] { is_ready = g_collector.Advance(0, 0); }, f);
  }
  ASSERT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
  ASSERT_TRUE(g_collector.last().concurrent);
}

// Memory that is written all the time, half of it one large object, half small ones, and objects
// that are in registers, where no root refers to them.
class HotMemory {
 public:
  static constexpr size_t kUnits = 12;  // OS pages, of each half

  HotMemory() {
    constexpr size_t kUnitBytes = platform::kTrackedPageBytes;
    constexpr size_t kSmallBytes = kUnitBytes / 4;
    g_roots.assign(1 + kUnits * 4, nullptr);
    g_roots[0] = Allocate(Kind::kNormal, kUnits * kUnitBytes);
    for (size_t unit = 0; unit < kUnits; ++unit) {
      AddCards(static_cast<char*>(g_roots[0]) + unit * kUnitBytes, kUnitBytes);
      for (size_t i = 1; i <= 4; ++i) {
        void* small = Allocate(Kind::kNormal, kSmallBytes);
        g_roots[unit * 4 + i] = small;
        AddCards(small, kSmallBytes);
      }
    }
    for (int i = 0; i < 40; ++i) Allocate(Kind::kNormal, kSmallBytes);  // not on the current page
  }

  // With the values that no cycle has seen yet.
  void Refill() {
    for (void** card : cards_) memset(card, 0, RescanSet::kCardBytes);
    registers_.clear();
    while (registers_.size() < kRegisters) {
      auto** object = static_cast<void**>(Allocate(Kind::kNormal, 32));
      object[1] = Allocate(Kind::kAtomic, 32);
      registers_.push_back(object);
    }
  }

  // Exchanges a word of each card for a register, but for those of the first units.
  void Change(std::mt19937& random, size_t first_unit) {
    constexpr size_t kWords = RescanSet::kCardBytes / sizeof(void*);
    for (size_t i = first_unit * cards_.size() / kUnits; i < cards_.size(); ++i) {
      void** place = cards_[i] + random() % kWords;
      std::swap(*place, registers_[random() % kRegisters]);
      RecordStore(place);
    }
  }

  // Whatever is referred to is there, and what it refers to. Returns how many objects are.
  size_t Check() const {
    size_t found = 0;
    for (void* const* card : cards_) {
      for (size_t i = 0; i < RescanSet::kCardBytes / sizeof(void*); ++i) {
        if (card[i] == nullptr) continue;
        ++found;
        EXPECT_TRUE(IsAllocated(card[i]));
        EXPECT_TRUE(IsAllocated(static_cast<void**>(card[i])[1]));
      }
    }
    return found;
  }

 private:
  static constexpr size_t kRegisters = 4096;

  void AddCards(void* begin, size_t bytes) {
    for (size_t at = 0; at < bytes; at += RescanSet::kCardBytes) {
      cards_.push_back(reinterpret_cast<void**>(static_cast<char*>(begin) + at));
    }
  }

  std::vector<void**> cards_;
  std::vector<void*> registers_;
};

// [inv.shadow-copy], [inv.round], [inv.group]. Memory that is written in every round is scanned by
// its twin.
TEST_P(MarkingStepsTest, WhatIsStoredAtAnyStepCounts) {
  for (const bool whole : {true, false}) {  // whether a slice does all there is
    EXPECT_CHILD_OK([whole] {
      testing::StartCycles(whole ? 1 * kGiB : 4 * kKiB, GetParam());
      g_tunables.pause_target_ns = 1;  // as many rounds as there are changes for
      std::mt19937 random(testing::Seed());
      HotMemory memory;
      size_t changes = 0;
      size_t most_calls = 0;
      size_t found = 0;
      for (size_t round = 0; round < 40; ++round) {
        memory.Refill();
        size_t calls = 0;  // in whole slices, two a round
        RunCycle(
            random, 10 + random() % 600,
            [&calls] { calls += cycle().state() == CycleState::kMarking ? 1 : 0; },
            [&] {
              // On less memory each time, so that another round is made.
              const size_t quiet = whole ? calls / 2 : 0;
              memory.Change(random, quiet < HotMemory::kUnits ? quiet : HotMemory::kUnits - 1);
              ++changes;
            });
        if (calls > most_calls) most_calls = calls;
        found += memory.Check();
        FinishSweep();
      }
      printf("%zu changes, %zu objects found, %zu calls at most\n", changes, found, most_calls);
      EXPECT_GT(changes, 400u);
      EXPECT_GT(most_calls, 10u);
    });
  }
}

// The same for a graph that grows and shrinks: objects are born, moved, dropped and given back.
CHILD_TEST_P(MarkingStepsTest, NothingIsLostWhateverChangesAtAnyStep) {
  testing::StartCycles(0, GetParam());
  g_tunables.pause_target_ns = 1;
  const unsigned seed = testing::Seed();
  std::mt19937 random(seed);
  Graph graph(seed);
  size_t changes = 0;
  size_t most = 0;
  for (size_t round = 0; round < 100; ++round) {
    for (int i = 0; i < 300; ++i) graph.Change();
    g_tunables.slice_bytes = round % 3 == 0 ? 1 : round % 3 == 1 ? 4 * kKiB : 1 * kGiB;
    RunCycle(
        random, 8 + random() % 60, [&graph] { graph.Change(); },
        [&graph, &changes] {
          if (platform::HoldsDeferringLock()) return;  // it may want the same
          graph.Change();
          ++changes;
        });
    const size_t reached = graph.Check();
    if (reached > most) most = reached;
    FinishSweep();
    ThreadHeaps::CheckForTesting();
  }
  printf("%zu changes, up to %zu nodes\n", changes, most);
  EXPECT_GT(changes, 2000u);
  EXPECT_GT(most, 50u);
}

// --- Sweeping, allocating, giving back ---

// Objects of two threads, both of which may give back any of them, allocate, and sweep. One runs at
// a time: the second one is played at steps of the first by the same thread, or takes turns with
// it.
class TwoThreads {
 public:
  explicit TwoThreads(unsigned seed) : random_(seed) {
    testing::StartHeap();
    testing::StartCollector();
    g_tunables.concurrent_sweep = true;
    other_ = ThreadHeaps::Acquire();
  }

  std::mt19937& random() { return random_; }
  ThreadHeap* other() { return other_; }
  size_t done_by_other() const { return done_by_other_; }

  // Drops some of the objects, and begins a sweep.
  void BeginSweep() {
    const size_t share = 2 + random_() % 8;
    while (objects_.size() < 200) Allocate();
    AsOther([this] {
      while (objects_.size() < 400) Allocate();
    });
    g_roots.clear();
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (random_() % share != 0) {
        it = objects_.erase(it);
      } else {
        // A pointer to the base would also keep the slot in front.
        g_roots.push_back(PointerAt<void>(it->first + 8));
        ++it;
      }
    }
    ASSERT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
    alloc::LimitGrowth(SIZE_MAX);  // nobody collects by himself
  }

  // Something that a thread does while pages are swept.
  void Do() {
    const size_t dice = random_() % 100;
    if (dice < 20) {
      SweepSome();
    } else if (dice < 25) {
      while (SweepSome()) {
      }
      EndSweep();
    } else if (dice < 60) {
      if (objects_.size() < 600) Allocate();
    } else {
      Free();
    }
  }
  static bool SweepSome() {
    platform::CriticalSection section;
    return alloc::SweepSome();
  }
  // Unless others are at a step of it. As the driver does it.
  static void EndSweep() {
    g_collector.EndSweepIfDone();
    if (alloc::g_dead_mark.Load(platform::memory_order_relaxed) == 0) {  // nobody else writes it
      alloc::ForEachPage([](alloc::PageNumber page, const alloc::PageInfo& info) {
        if (info.state == alloc::PageState::kSmall) {
          ASSERT_TRUE(IsSweptNow(page));
        }
      });
    }
    Collector::ReturnFreeMemory();
  }

  // Calls f; at one in about `every` of its steps the other thread does something, or calls g.
  template <class F>
  void WithOther(size_t every, const F& f) {
    AtSteps(random_, every, f, [this] { ActAsOther(); });
  }
  template <class F, class G>
  void WithOther(size_t every, const F& f, const G& g) {
    AtSteps(random_, every, f, [this, &g] { AsOther(g); });
  }

  void Free() {
    if (objects_.empty()) return;
    auto it = random_() % 2 == 0 ? FirstUnswept() : objects_.begin();
    // One of the next few, or any.
    const size_t steps = random_() % (it == objects_.begin() ? objects_.size() : 6);
    for (size_t i = 0; i < steps && std::next(it) != objects_.end(); ++i) ++it;
    const Addr object = it->first;
    ExpectIntact(*it);
    objects_.erase(it);  // others may have the slot as soon as it is free
    ASSERT_EQ(alloc::FreeObject(PointerAt<void>(object)), FreeResult::kFreed);
  }

  // Everything is in order, when all is swept.
  void Check() {
    for (const auto& object : objects_) {
      ExpectIntact(object);
      ASSERT_TRUE(IsAllocated(PointerAt<void>(object.first)));
    }
    ThreadHeaps::CheckForTesting();
    alloc::PageSpaceOf(alloc::Space::kScanned).CheckForTesting();
    alloc::PageSpaceOf(alloc::Space::kPointerFree).CheckForTesting();
    // What died or was given back is free.
    size_t allocated = 0;
    platform::LockGuard guard(g_collector.lock());
    g_collector.ForEachObject(
        [](const alloc::ObjectRef&, void* count) { ++*static_cast<size_t*>(count); }, &allocated);
    EXPECT_EQ(allocated, objects_.size());
    EXPECT_LE(g_collector.last().live_bytes, alloc::ResidentBytes());
  }

  // In a child of fork in which the other thread goes on alone.
  void StayAlone() {
    platform::CallAtSteps(nullptr, nullptr);
    platform::t_critical.depth = 0;
    platform::ResetStopAfterFork();
    alloc::AddressSpaceResetLockAfterFork();
    alloc::MetaResetLockAfterFork();
    g_collector.ResetAfterFork(true);
    ThreadHeaps::ResetAfterFork(other_);
    alloc::t_heap = other_;
  }

 private:
  struct Contents {
    size_t bytes;
    uint64_t word;
  };
  using Objects = std::map<Addr, Contents>;

  // Relaxed: so that it is no step.
  static bool IsSweptNow(alloc::PageNumber page) {
    return alloc::g_space.meta[page].swept.Load(platform::memory_order_relaxed) ==
           alloc::g_sweep_number;
  }
  // The sweep goes downwards: the highest object on an unswept page, or the lowest of all.
  Objects::iterator FirstUnswept() {
    auto it = std::prev(objects_.end());
    while (it != objects_.begin() && IsSweptNow(alloc::g_space.PageOf(it->first))) --it;
    return it;
  }

  void Allocate() {
    static constexpr size_t kSizes[] = {48, 1024, 2048, 2048, 4096, 4096, 8192, 12000, 40000};
    const size_t bytes = kSizes[random_() % std::size(kSizes)];
    const Kind kind = random_() % 4 == 0 ? Kind::kAtomic : Kind::kNormal;
    auto* words = static_cast<uint64_t*>(testing::Allocate(kind, bytes));
    ASSERT_NE(words, nullptr);
    const Addr begin = AddressOf(words);
    const auto next = objects_.lower_bound(begin);
    if (next != objects_.end()) {
      ASSERT_LE(begin + bytes, next->first) << "handed out twice";
    }
    if (next != objects_.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second.bytes, begin) << "handed out twice";
    }
    const Contents contents = {bytes, uint64_t{random_()} << 32 | uint64_t{1} << 63 | random_()};
    for (size_t i = 0; i < bytes / 8; ++i) {
      if (kind == Kind::kNormal) {
        ASSERT_EQ(words[i], 0u);
      }
      words[i] = contents.word;
    }
    objects_.emplace_hint(next, begin, contents);
  }

  static void ExpectIntact(const Objects::value_type& object) {
    const auto* words = PointerAt<const uint64_t>(object.first);
    for (size_t i = 0; i < object.second.bytes / 8; ++i) ASSERT_EQ(words[i], object.second.word);
  }

  template <class F>
  void AsOther(const F& f) {
    ThreadHeap* mine = alloc::t_heap;
    alloc::t_heap = other_;
    f();
    alloc::t_heap = mine;
    ++done_by_other_;
  }
  void ActAsOther() {
    AsOther([this] {
      if (platform::HoldsDeferringLock()) return;  // the first thread has a lock that may be wanted
      for (size_t left = 1 + random_() % 8; left != 0; --left) Do();
    });
  }

  std::mt19937 random_;
  ThreadHeap* other_;
  Objects objects_;  // by address
  size_t done_by_other_ = 0;
};

// [inv.swept-list], [inv.listed-once]
CHILD_TEST_F(StepsTest, WhatIsDoneAtAnyStepOfASweepIsInOrder) {
  TwoThreads threads(testing::Seed());
  for (size_t round = 0; round < 300; ++round) {
    threads.BeginSweep();
    threads.WithOther(1 + threads.random()() % 40, [] { g_collector.SweepRest(); });
    g_collector.EndSweepIfDone();
    ASSERT_NO_FATAL_FAILURE(threads.Check()) << "round " << round;
  }
  printf("%zu times\n", threads.done_by_other());
  EXPECT_GT(threads.done_by_other(), 2000u);
}

// The same where both are in the midst of something.
CHILD_TEST_F(StepsTest, WhatTwoThreadsDoWhilePagesAreSweptIsInOrder) {
  TwoThreads threads(testing::Seed());
  for (size_t round = 0; round < 250; ++round) {
    threads.BeginSweep();
    std::mt19937& random = threads.random();
    // So that one may do much while the other makes a step.
    OneIn is_time[2] = {OneIn(random, size_t{1} << random() % 10),
                        OneIn(random, size_t{1} << random() % 10)};
    TakeTurns(
        [&threads] {
          for (int i = 0; i < 60; ++i) threads.Do();
        },
        [&threads] {
          alloc::t_heap = threads.other();
          for (int i = 0; i < 60; ++i) threads.Do();
        },
        [&is_time](size_t self) { return is_time[self](); });
    FinishSweep();
    ASSERT_NO_FATAL_FAILURE(threads.Check()) << "round " << round;
  }
}

// So that each time is like the last.
void Clear() {
  g_roots.clear();
  testing::Collect();
  Collector::ReturnFreeMemory();
}

// An object whose page is found empty, and has other uses, before who gives it back has listed the
// page: at each pair of steps of both.
CHILD_TEST_F(StepsTest, APageThatIsFoundEmptyWhileItsLastObjectIsGivenBackIsNotListed) {
  testing::StartHeap();
  testing::StartCollector();
  g_tunables.concurrent_sweep = true;
  ThreadHeap* other = ThreadHeaps::Acquire();
  size_t pairs = 0;
  size_t steps[2];
  size_t ends[2] = {0, 0};
  do {
    do {
      Clear();
      void* last = Allocate(Kind::kNormal, 4096);
      const alloc::PageInfo& page = alloc::g_space.info[alloc::g_space.PageOf(AddressOf(last))];
      g_roots.assign(1, static_cast<char*>(last) + 8);
      for (int i = 0; i < 7; ++i) Allocate(Kind::kNormal, 4096);  // not on the current page
      ASSERT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
      steps[0] = steps[1] = 0;
      TakeTurns([last] { ASSERT_EQ(alloc::FreeObject(last), FreeResult::kFreed); },
                [other, &page] {
                  alloc::t_heap = other;
                  while (TwoThreads::SweepSome()) {
                  }
                  Collector::ReturnFreeMemory();
                  for (int i = 0; i < 100 && page.state != alloc::PageState::kLarge; ++i) {
                    Allocate(Kind::kNormal, 12000);
                  }
                },
                [&steps, &ends](size_t self) { return steps[self]++ == ends[self]; });
      FinishSweep();
      ThreadHeaps::CheckForTesting();
      ++pairs;
    } while (++ends[1] < steps[1]);
    ends[1] = 0;
  } while (++ends[0] < steps[0]);
  printf("%zu pairs\n", pairs);
  EXPECT_GT(pairs, 1000u);
}

// [inv.listed-once] Several workers of a stop's sweep list pages of one heap: at each step of a
// push another page is pushed.
CHILD_TEST_F(StepsTest, PagesThatAreListedAtOnceAreAllListed) {
  constexpr size_t kPages = 60;
  constexpr size_t kBytes = alloc::kPageBytes / 4;
  testing::StartHeap({});
  testing::StartCollector();
  for (size_t i = 0; i < 4 * kPages; ++i) {
    void* p = Allocate(Kind::kNormal, kBytes);
    if (i % 2 == 0) g_roots.push_back(static_cast<char*>(p) + 8);
  }
  Collect();
  ThreadHeap& heap = *alloc::t_heap;
  std::vector<alloc::PageNumber> pages;
  alloc::ForEachPage([&pages](alloc::PageNumber page, const alloc::PageInfo&) {
    const alloc::PageMeta& meta = alloc::g_space.meta[page];
    if (meta.listing() == alloc::Listing::kPartial) pages.push_back(page);
  });
  ASSERT_GE(pages.size(), kPages / 2);
  ThreadHeaps::CheckForTesting();
  heap.DropListsWorldStopped();
  const auto push = [&heap, &pages] {
    if (pages.empty()) return;
    const alloc::PageNumber page = pages.back();
    pages.pop_back();
    heap.PushPartialWorldStopped(page);
  };
  size_t steps = 0;
  while (!pages.empty()) {
    const AtEachStep at_steps([&steps, &push] {
      ++steps;
      push();
    });
    push();
  }
  EXPECT_GE(steps, kPages / 4);
  ThreadHeaps::CheckForTesting();
}

// A large object that is given back, and whose page has others, before its sweeper has counted it.
CHILD_TEST_F(StepsTest, ALargeObjectThatIsGivenBackWhileItIsSweptIsNotCounted) {
  testing::StartHeap();
  testing::StartCollector();
  g_tunables.concurrent_sweep = true;
  bool more = true;
  for (size_t step = 0; more; ++step) {
    Clear();
    void* large = Allocate(Kind::kNormal, 12000);
    const alloc::PageInfo& page = alloc::g_space.info[alloc::g_space.PageOf(AddressOf(large))];
    g_roots.assign(1, static_cast<char*>(large) + 8);
    ASSERT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
    more = AtStep(
        step, [] { g_collector.SweepRest(); },
        [large, &page] {
          if (platform::HoldsDeferringLock()) return;
          ASSERT_EQ(alloc::FreeObject(large), FreeResult::kFreed);
          for (int i = 0; i < 1000 && page.state != alloc::PageState::kSmall; ++i) {
            Allocate(Kind::kNormal, 8192);
          }
        });
    g_collector.EndSweepIfDone();
    ASSERT_LE(g_collector.last().live_bytes, alloc::ResidentBytes()) << "step " << step;
  }
}

// What a vanished thread held and had not handed out is free in the child, and nothing else is: at
// each of its steps, from its first page to its end.
CHILD_TEST_F(StepsTest, AForkAtAnyStepOfAnAllocationMakesNoObjects) {
  TwoThreads threads(testing::Seed());
  static constexpr size_t kSizes[] = {2048, 48, 4096, 2048};
  std::vector<void*> handed_out;
  std::vector<void*> kept;
  bool more = true;
  size_t step = 0;
  for (; more; ++step) {
    // Pages with free slots here and there.
    g_roots.clear();
    testing::Collect();
    kept.clear();
    for (int i = 0; i < 64; ++i) {
      void* object = Allocate(Kind::kNormal, kSizes[i % 4]);
      if (i % 8 < 3) kept.push_back(object);
    }
    for (void* object : kept) g_roots.push_back(static_cast<char*>(object) + 8);
    testing::Collect();
    handed_out = kept;
    handed_out.reserve(kept.size() + 64);
    ThreadHeap* const mine = alloc::t_heap;
    more = AtStep(
        step,
        [&handed_out, mine] {
          for (int i = 0; i < 48; ++i) {
            handed_out.push_back(Allocate(Kind::kNormal, kSizes[i % 4]));
          }
          ThreadHeaps::Abandon(mine);
        },
        [&threads, &handed_out] {
          if (platform::HoldsDeferringLock()) return;  // a fork waits for these
          EXPECT_CHILD_OK([&threads, &handed_out] {
            threads.StayAlone();
            size_t allocated = 0;
            {
              platform::LockGuard guard(g_collector.lock());
              g_collector.ForEachObject(
                  [](const alloc::ObjectRef&, void* count) { ++*static_cast<size_t*>(count); },
                  &allocated);
            }
            // One more may have been on its way out.
            EXPECT_GE(allocated, handed_out.size());
            EXPECT_LE(allocated, handed_out.size() + 1);
            for (void* object : handed_out) EXPECT_TRUE(IsAllocated(object));
            g_roots.clear();
            for (void* object : handed_out) g_roots.push_back(static_cast<char*>(object) + 8);
            testing::Collect();
            for (void* object : handed_out) EXPECT_TRUE(IsAllocated(object));
            ThreadHeaps::CheckForTesting();
          });
        });
    alloc::t_heap = ThreadHeaps::Acquire();
    ASSERT_EQ(alloc::t_heap, mine);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "step " << step;
  }
  printf("%zu steps\n", step);
  EXPECT_GT(step, 100u);
}

// The child finishes the sweep, whatever the thread that swept had done.
CHILD_TEST_F(StepsTest, AForkAtAnyStepOfASweepLosesNothing) {
  TwoThreads threads(testing::Seed());
  for (size_t round = 0; round < 60; ++round) {
    threads.BeginSweep();
    bool forked = false;
    threads.WithOther(
        1 + threads.random()() % 60, [] { g_collector.SweepRest(); },
        [&threads, &forked] {
          if (platform::HoldsDeferringLock()) return;  // Free may want it, and a fork waits
          if (threads.random()() % 4 != 0) return threads.Free();
          if (forked) return;
          forked = true;
          EXPECT_CHILD_OK([&threads] {
            threads.StayAlone();
            FinishSweep();
            ASSERT_EQ(alloc::g_dead_mark.Load(platform::memory_order_relaxed), 0);
            threads.BeginSweep();
            FinishSweep();
            threads.Check();
          });
        });
    g_collector.EndSweepIfDone();
    ASSERT_NO_FATAL_FAILURE(threads.Check()) << "round " << round;
  }
  EXPECT_GT(threads.done_by_other(), 1000u);
}

}  // namespace
}  // namespace gleaner::gc
