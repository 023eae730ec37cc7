// Cycles that concurrent mark, one step at a time: the program changes the heap between the
// steps. Each cycle is verified at its end: whatever is reachable is marked.
#include "alloc/address_space.h"
#include "gc/mark/kinds.h"
#include "platform/costs/machine_costs.h"
#include "tests/support/changing_graph.h"
#include "tests/support/cycle_steps.h"
#include "tests/support/sleep.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using alloc::PageState;
using namespace testing;

class GraphCycleTest : public ::testing::TestWithParam<platform::TrackingKind> {};

CHILD_TEST_P(GraphCycleTest, NothingIsLostWhateverChangesBetweenTheSteps) {
  StartCycles(1, GetParam());
  Graph graph(1);
  size_t most = 0;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 300; ++i) graph.Change();
    g_collector.WantCycle();
    const auto change = [&graph](int times) {
      for (int i = 0; i < times; ++i) graph.Change();
    };
    for (size_t steps = 0; Step([&change] { change(100); }); ++steps) {
      ASSERT_LT(steps, 100000u);
      change(5);
    }
    const size_t reached = graph.Check();
    if (reached > most) most = reached;
    for (int i = 0; i < 20; ++i) graph.Change();  // while the pages are swept
    FinishCycle();
  }
  printf("up to %zu nodes\n", most);
  EXPECT_GT(most, 50u);
  EXPECT_EQ(g_collector.totals().concurrent, 60u);
}

INSTANTIATE_TEST_SUITE_P(CycleTest, GraphCycleTest,
                         ::testing::Values(platform::WriteTracking::BestKind(),
                                           platform::TrackingKind::kCards),
                         [](const auto& test) {
                           return test.param == platform::TrackingKind::kCards ? "cards" : "pages";
                         });

CHILD_TEST(CycleTest, WhatDiedBeforeTheCycleIsGoneAfterIt) {
  StartCycles(0);
  g_roots.assign(1, nullptr);
  void* dead = Dead();
  Node* kept = NewNode(2);
  g_roots[0] = kept;
  AdvanceTo(CycleState::kMarking);
  void* born = Dead();  // black: stays until the next cycle
  FinishCycle();
  EXPECT_FALSE(IsAllocated(dead));
  EXPECT_TRUE(IsAllocated(kept));
  EXPECT_TRUE(IsAllocated(born));
  g_collector.WantCycle();
  FinishCycle();
  EXPECT_FALSE(IsAllocated(born));
  EXPECT_TRUE(IsAllocated(kept));
}

CHILD_TEST(CycleTest, AnExplicitCollectionGivesTheCycleUpInEveryState) {
  StartCycles(64);
  Graph graph(2);
  for (int i = 0; i < 500; ++i) graph.Change();
  for (size_t steps = 0;; ++steps) {
    g_collector.WantCycle();
    bool over = false;
    for (size_t i = 0; i < steps && !over; ++i) {
      graph.Change();
      over = !Step();
    }
    void* dead = Dead();  // black, if the cycle has come so far
    testing::Collect();
    EXPECT_EQ(cycle().state(), CycleState::kIdle);
    EXPECT_EQ(alloc::AllocationColour(), alloc::g_epoch);
    EXPECT_FALSE(IsAllocated(dead));
    graph.Check();
    if (over) break;
  }
}

CHILD_TEST(CycleTest, LargeObjectsFreedMeanwhileKeepTheirPagesUntilTheStop) {
  StartCycles(0);
  g_roots.assign(2, nullptr);
  constexpr size_t kBytes = 100000;
  for (const Kind kind : {Kind::kNormal, Kind::kAtomic}) {
    void* before = Allocate(kind, kBytes);
    g_roots[0] = before;
    AdvanceTo(CycleState::kMarking);
    void* born = Allocate(kind, kBytes);
    for (void* p : {before, born}) {
      const alloc::PageNumber page = alloc::g_space.PageOf(AddressOf(p));
      alloc::ObjectRef object;
      ASSERT_TRUE(alloc::FindObject(AddressOf(p), &object));
      // It does not get shorter either, and may get longer.
      EXPECT_TRUE(alloc::ResizeInPlace(object, kBytes / 2));
      EXPECT_EQ(alloc::g_space.info[page].object_bytes, AlignUp(kBytes, alloc::kGranuleBytes));
      EXPECT_EQ(alloc::FreeObject(p), alloc::FreeResult::kFreed);
      EXPECT_EQ(alloc::FreeObject(p), alloc::FreeResult::kNotAllocated);
      EXPECT_FALSE(IsAllocated(p));
      EXPECT_EQ(alloc::g_space.info[page].state, PageState::kLarge);
    }
    void* other = Allocate(kind, kBytes);
    EXPECT_NE(other, before);
    EXPECT_NE(other, born);
    g_roots[1] = other;
    FinishCycle();
    for (void* p : {before, born}) {
      EXPECT_NE(alloc::g_space.info[alloc::g_space.PageOf(AddressOf(p))].state, PageState::kLarge);
    }
    EXPECT_TRUE(IsAllocated(other));
    // The pages are to be had again, and freed as ever.
    void* again = Allocate(kind, kBytes);
    EXPECT_EQ(alloc::FreeObject(again), alloc::FreeResult::kFreed);
    g_roots.assign(2, nullptr);
    testing::Collect();
  }
}

CHILD_TEST(CycleTest, LargeObjectsFreedInACycleThatIsGivenUpGoBack) {
  StartCycles(0);
  void* p = Allocate(Kind::kNormal, 100000);
  AdvanceTo(CycleState::kMarking);
  EXPECT_EQ(alloc::FreeObject(p), alloc::FreeResult::kFreed);
  testing::Collect();
  EXPECT_NE(alloc::g_space.info[alloc::g_space.PageOf(AddressOf(p))].state, PageState::kLarge);
  testing::Collect();
}

// A large object that grows after it was scanned: what the program stores in the new pages counts,
// even if nothing else refers to it.
void ExpectGrownTailIsMarked(platform::TrackingKind kind) {
  StartCycles(0, kind);
  g_roots.assign(1, nullptr);
  // Before the cycle: what is born in it stays anyway. So does what the object begins right behind.
  NewNode(0);
  Node* node = NewNode(1);
  for (size_t i = 0; i < 3; ++i) node->references[i] = NewNode(2 + i);
  constexpr size_t kBytes = 5 * alloc::kPageBytes;
  auto** object = static_cast<Node**>(Allocate(Kind::kNormal, kBytes));
  g_roots[0] = object;
  AdvanceTo(CycleState::kMarking);
  while (!g_collector.Advance(0, 0)) {
  }
  alloc::ObjectRef found;
  ASSERT_TRUE(alloc::FindObject(AddressOf(object), &found));
  ASSERT_TRUE(alloc::ResizeInPlace(found, 2 * kBytes));
  object[2 * kBytes / sizeof(Node*) - 1] = node;
  FinishCycle();
  ASSERT_TRUE(IsAllocated(node));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(IsAllocated(node->references[i]));
}

TEST(CycleTest, ALargeObjectMayGrowAfterItWasScanned) {
  for (const auto kind :
       {platform::TrackingKind::kUserfaultfd, platform::TrackingKind::kProtection}) {
    if (!platform::WriteTracking::Works(kind)) continue;
    SCOPED_TRACE(platform::TraitsOf(kind).name);
    EXPECT_CHILD_OK([kind] { ExpectGrownTailIsMarked(kind); });
  }
}

// What is expected to take a short stop gets no cycle. What was found last does not say so of what
// is new and huge.
CHILD_TEST(CycleTest, HugeObjectsMakeNoShortStop) {
  StartCycles(0);
  // 16 MiB are marked in just the time that counts as short.
  testing::g_tunables.short_pause_ns = 16 * kMiB;
  g_collector.forecast().SetMarkTimeForTesting(1);
  g_roots.assign(2, nullptr);
  constexpr size_t kBytes = 64 * kMiB;
  const auto starts_cycle = [](Kind kind, size_t bytes) {
    testing::Collect();
    g_roots[1] = Allocate(kind, bytes);
    g_collector.pacer().OnAllocated(g_collector.pacer().allowance(), 0);
    g_collector.Advance(0, 0);
    return cycle().IsUnderWay();
  };
  EXPECT_FALSE(starts_cycle(Kind::kNormal, alloc::kHugeBytes / 2));
  EXPECT_FALSE(starts_cycle(Kind::kAtomic, kBytes));
  EXPECT_TRUE(starts_cycle(Kind::kNormal, kBytes));
  FinishCycle();
  // As large as it is, it is known by now.
  g_roots[1] = nullptr;
  EXPECT_FALSE(starts_cycle(Kind::kNormal, alloc::kHugeBytes / 2));
}

// In the automatic mode a cycle begins where a stop is expected to exceed the goal and the program
// leaves time for it, and the report says so.
CHILD_TEST(CycleTest, ACycleIsChosenForAStopThatIsLong) {
  StartCycles(0);
  testing::g_tunables.automatic = testing::g_tunables.weighs_cost = true;
  testing::g_tunables.short_pause_ns = 16 * kMiB;
  g_roots.assign(2, nullptr);
  const auto reason = [](double ns_per_byte, size_t bytes, uint64_t pause_ns) {
    g_collector.forecast().SetMarkTimeForTesting(ns_per_byte);
    g_roots[0] = g_roots[1] = nullptr;
    testing::Collect();
    g_roots[0] = Allocate(Kind::kNormal, bytes);
    testing::Collect();
    // The pace counts from here.
    testing::SleepNs(pause_ns);
    g_collector.pacer().OnAllocated(g_collector.pacer().allowance(), 0);
    g_collector.Advance(0, 0);
    EXPECT_EQ(cycle().IsUnderWay(), g_collector.decision().next == NextCollection::kConcurrent);
    if (!cycle().IsUnderWay()) {
      g_collector.Collect(Cause::kAllocation, 0);
    } else {
      FinishCycle();
    }
    EXPECT_EQ(g_collector.last().expected_ns > 16 * kMiB,
              g_collector.last().reason != Reason::kShortStop);
    return g_collector.last().reason;
  };
  EXPECT_EQ(reason(1, 8 * kMiB, 100'000'000), Reason::kShortStop);
  EXPECT_EQ(reason(1, 64 * kMiB, 1'000'000'000), Reason::kLongStop);
  EXPECT_TRUE(g_collector.last().concurrent);
  // The marking would take 64 s.
  EXPECT_EQ(reason(1000, 64 * kMiB, 1'000'000), Reason::kFastAllocation);
  EXPECT_FALSE(g_collector.last().concurrent);
  // A program that has set the goal is not asked, nor one that has chosen the mode concurrent.
  testing::g_tunables.weighs_cost = false;
  EXPECT_EQ(reason(1000, 64 * kMiB, 1'000'000), Reason::kLongStop);
  testing::g_tunables.automatic = false;
  EXPECT_EQ(reason(1000, 64 * kMiB, 1'000'000), Reason::kLongStop);
  // Nor one that asks for a cycle.
  testing::g_tunables.automatic = testing::g_tunables.weighs_cost = true;
  g_collector.WantCycle();
  g_collector.Advance(0, 0);
  FinishCycle();
  EXPECT_EQ(g_collector.last().reason, Reason::kAsked);
}

// Whether a cycle is chosen in place of a stop of 640 ms, by a program that keeps one processor
// busy, if first writes to its 16 MiB take `first_write_ns` each.
void ExpectChoice(int markers, uint32_t first_write_ns, bool weighs_cost, Reason expected) {
  EXPECT_CHILD_OK([=] {
    testing::StartHeap();
    testing::StartCollector(markers);
    testing::g_tunables.concurrent_mark = true;
    testing::g_tunables.automatic = true;
    testing::g_tunables.weighs_cost = weighs_cost;
    testing::g_tunables.short_pause_ns = 1'000'000;
    ASSERT_TRUE(cycle().Enable(platform::WriteTracking::BestKind()));
    g_roots.assign(1, Allocate(Kind::kNormal, 16 * kMiB));
    testing::Collect();
    testing::Collect();
    platform::g_machine_costs.SetTracking(first_write_ns, 0);
    g_collector.forecast().SetMarkTimeForTesting(40);
    const bool is_chosen = g_collector.HurryCycle();
    EXPECT_EQ(is_chosen, IsForConcurrent(expected)) << markers << " markers, " << first_write_ns;
    if (is_chosen) {
      g_collector.Advance(0, 0);
      ASSERT_TRUE(cycle().IsUnderWay());
      FinishCycle();
    } else {
      EXPECT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
    }
    EXPECT_STREQ(NameOf(g_collector.last().reason), NameOf(expected));
  });
}

TEST(CycleTest, ACycleThatCostsTheProgramTooMuchIsNotChosen) {
  // With one processor the program loses 960 ms of marking, and the faults, where a stop takes 640.
  ExpectChoice(1, 0, true, Reason::kDearCycle);
  ExpectChoice(1, 1'000'000, true, Reason::kDearCycle);
  ExpectChoice(1, 1'000'000, false, Reason::kLongStop);
  // With two, the marking costs it nothing. At 0.7 us the faults take 3 ms, at 1 ms 4 s; but the
  // program cannot have more of them than fit into the 960 ms of the marking.
  ExpectChoice(2, 700, true, Reason::kLongStop);
  ExpectChoice(2, 1'000'000, true, Reason::kDearCycle);
  ExpectChoice(2, 1'000'000, false, Reason::kLongStop);
}

// A program that allocated fast when half of the allowance was used up, and slowly since, gets a
// cycle after all.
CHILD_TEST(CycleTest, FastAllocationIsWeighedAgainWhenTheCollectionIsDue) {
  StartCycles(0);
  testing::g_tunables.automatic = testing::g_tunables.weighs_cost = true;
  testing::g_tunables.short_pause_ns = 1'000'000;
  g_roots.assign(1, nullptr);
  g_roots[0] = Allocate(Kind::kNormal, 64 * kMiB);
  testing::Collect();
  testing::Collect();
  // The marking takes 64 ms.
  g_collector.forecast().SetMarkTimeForTesting(1);
  const ptrdiff_t allowance = g_collector.pacer().allowance();
  g_collector.pacer().OnAllocated(allowance * 3 / 4, 0);
  g_collector.Advance(0, 0);
  ASSERT_FALSE(cycle().IsUnderWay()) << "it was at once";
  EXPECT_EQ(g_collector.decision().next, NextCollection::kStop);
  EXPECT_FALSE(g_collector.MayLeaveToCycle());
  EXPECT_FALSE(g_collector.DecideAgain());
  testing::SleepNs(1'000'000'000);
  g_collector.pacer().OnAllocated(allowance / 4, 0);
  g_collector.Advance(0, 0);
  EXPECT_FALSE(cycle().IsUnderWay());
  EXPECT_TRUE(g_collector.DecideAgain());
  g_collector.Advance(0, 0);
  ASSERT_TRUE(cycle().IsUnderWay());
  FinishCycle();
  EXPECT_EQ(g_collector.last().reason, Reason::kLongStop);
  EXPECT_FALSE(g_collector.DecideAgain()) << "nothing has been chosen";
}

// What the last round has not scanned, and is moved into what it has, is found by the last fetch.
CHILD_TEST(CycleTest, WhatIsMovedAfterTheLastRoundCounts) {
  StartCycles(0);
  g_roots.assign(2, nullptr);
  Node* old = NewNode(1);
  g_roots[0] = old;
  NewNode(0);                               // a root keeps what lies below, too
  Node* moved = NewNode(2);                 // no root refers to it, as if it were in a register
  for (int i = 0; i < 40; ++i) NewNode(3);  // the page of both is full
  AdvanceTo(CycleState::kMarking);
  Node* fresh = NewNode(4);  // on the page in which the thread allocates
  g_roots[1] = fresh;
  fresh->references[0] = moved;
  while (cycle().state() != CycleState::kReady) g_collector.Advance(0, 0);
  EXPECT_EQ(*MarkOf(moved), alloc::g_epoch) << "it was found before";
  old->references[0] = moved;
  fresh->references[0] = nullptr;
  g_roots[1] = nullptr;
  FinishCycle();
  EXPECT_TRUE(IsAllocated(moved));
}

// Pages that are written in every round are scanned by their twins from the third one on: what a
// twin does not know is found, in arrays and in small objects, and also where it was before.
CHILD_TEST(CycleTest, WhatIsStoredWhereAShadowCopyIsCounts) {
  constexpr size_t kPages = 12;
  constexpr size_t kPerPage = alloc::kPageBytes / sizeof(Node);
  StartCycles(1 * kGiB);                    // a slice does all there is
  testing::g_tunables.pause_target_ns = 1;  // as many rounds as there are changes for
  g_roots.assign(2 + kPages, nullptr);
  auto** array = static_cast<void**>(Allocate(Kind::kNormal, kPages * alloc::kPageBytes));
  g_roots[0] = array;
  std::vector<Node*> nodes;
  for (size_t i = 0; i < (kPages + 2) * kPerPage; ++i) {
    nodes.push_back(NewNode(i));
    nodes[i]->references[0] = i == 0 ? nullptr : nodes[i - 1];
  }
  g_roots[1] = nodes.back();
  // No root refers to these, as if they were in registers.
  std::vector<Node*> moved;
  for (size_t i = 0; i < 4 * kPages; ++i) moved.push_back(NewNode(i));
  for (int i = 0; i < 40; ++i) NewNode(3);  // not on the page in which the thread allocates
  AdvanceTo(CycleState::kMarking);
  size_t stored = 0;
  size_t rounds = 0;
  const auto place = [&](size_t which, size_t turn) {
    return which % 2 == 0
               ? &array[which * alloc::kPageBytes / sizeof(void*) + turn % 500]
               : reinterpret_cast<void**>(&nodes[which * kPerPage]->references[1 + turn % 3]);
  };
  for (; cycle().state() == CycleState::kMarking; ++rounds) {
    // On fewer pages each time, so that another round is made.
    for (size_t i = rounds / 2; i < kPages; ++i) {
      void** at = place(i, rounds);
      *at = nullptr;
      // In the last of the rounds that write to the page something new.
      if (rounds / 2 == i && rounds % 2 == 1) {
        *at = moved[stored];
        *place(i, rounds + 1) = moved[stored + 1];
        stored += 2;
      }
    }
    if (g_collector.Advance(0, 0)) break;
  }
  EXPECT_GE(rounds, 10u);
  EXPECT_GE(stored, 8u);
  FinishCycle();
  for (size_t i = 0; i < stored; ++i) EXPECT_TRUE(IsAllocated(moved[i])) << i;
  EXPECT_FALSE(IsAllocated(moved[stored]));
}

// Pages that are committed after the heap was armed are not tracked, those after the last round not
// even armed: what is on them counts as written.
TEST(CycleTest, WhatIsStoredInNewPagesCounts) {
  for (const CycleState state : {CycleState::kRoots, CycleState::kMarking, CycleState::kReady}) {
    EXPECT_CHILD_OK([state] {
      StartCycles(64);
      g_roots.assign(2, nullptr);
      // No root refers to the list, as if its head were in a register.
      Node* list = nullptr;
      for (uint64_t i = 0; i < 1000; ++i) {
        Node* node = NewNode(i);
        node->references[0] = list;
        list = node;
      }
      g_roots[0] = NewNode(0);
      AdvanceTo(state);
      const alloc::PageNumber frontier = EndCommitted(alloc::Space::kScanned);
      Node* on_new_page = nullptr;
      do {
        on_new_page = NewNode(0);
      } while (alloc::g_space.PageOf(AddressOf(on_new_page)) < frontier);
      on_new_page->references[3] = list;
      g_roots[1] = on_new_page;
      FinishCycle();
      for (size_t i = 0; i < 1000; ++i, list = list->references[0]) {
        ASSERT_TRUE(IsAllocated(list)) << i;
      }
    });
  }
}

size_t g_calls = 0;

CHILD_TEST(CycleTest, MarkProceduresAreCalledInTheStopOnly) {
  StartCycles(0);
  g_roots.assign(1, nullptr);
  const int procedure =
      MakeMarkProcedure([](uint64_t* object, GC_ms_entry* top, GC_ms_entry*, uint64_t) {
        EXPECT_TRUE(testing::g_world_is_stopped);
        ++g_calls;
        t_mark_sink->push(t_mark_sink, object[1]);
        return top;
      });
  ASSERT_GE(procedure, 0);
  const int kind = MakeKind(static_cast<uint64_t>(procedure) << 2 | kProcedure, false);
  ASSERT_GE(kind, 0);
  auto** object = static_cast<Node**>(Allocate(static_cast<Kind>(kind), 32));
  object[1] = NewNode(1);
  g_roots[0] = object;
  testing::g_tunables.verify = false;  // calls it, too
  g_collector.WantCycle();
  FinishCycle();
  EXPECT_EQ(g_calls, 1u);
  EXPECT_TRUE(IsAllocated(object[1]));
}

CHILD_TEST(CycleTest, AGivenUpCycleDoesNotDecide) {
  StartCycles(0);
  g_roots.assign(1, nullptr);
  AdvanceTo(CycleState::kMarking);
  void* dead = Dead();
  {
    platform::LockGuard guard(g_collector.lock());
    cycle().DiscardMarks();
  }
  EXPECT_TRUE(g_collector.Advance(0, 0));
  EXPECT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
  EXPECT_FALSE(g_collector.last().concurrent);
  EXPECT_FALSE(IsAllocated(dead));
}

// In a child of fork nothing is tracked: marking is not gone on with, but what was marked is dealt
// with.
CHILD_TEST(CycleTest, AChildOfForkCollectsAnew) {
  StartCycles(64);
  Graph graph(3);
  for (int i = 0; i < 500; ++i) graph.Change();
  for (const CycleState state : {CycleState::kRoots, CycleState::kMarking}) {
    AdvanceTo(state);
    EXPECT_CHILD_OK([&] {
      g_collector.ResetAfterFork(true);
      for (int i = 0; i < 100; ++i) graph.Change();
      void* large = Allocate(Kind::kNormal, 100000);
      EXPECT_EQ(alloc::FreeObject(large), alloc::FreeResult::kFreed);
      EXPECT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
      graph.Check();
      g_collector.WantCycle();
      while (Step()) graph.Change();
      EXPECT_TRUE(g_collector.last().concurrent);
      graph.Check();
    });
    FinishCycle();
  }
}

}  // namespace
}  // namespace gleaner::gc
