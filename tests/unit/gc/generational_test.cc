// Minor collections: what is young and reachable becomes old, the rest of the young goes, old
// objects stay until a collection of the whole heap. Each collection is verified: whatever is
// reachable is marked.
#include <sys/resource.h>

#include <cstring>

#include "gc/mark/kinds.h"
#include "platform/costs/machine_costs.h"
#include "tests/support/changing_graph.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using namespace testing;

void CollectAll() {
  testing::Collect();
  EXPECT_FALSE(g_collector.last().minor);
}
// True if it is a minor one.
bool CollectForAllocation() {
  EXPECT_TRUE(g_collector.Collect(Cause::kAllocation, 0));
  return g_collector.last().minor;
}
void CollectYoung() { EXPECT_TRUE(CollectForAllocation()); }

// The next collection for allocation is a minor one.
void Start(int markers = 1) {
  testing::StartHeap();
  testing::StartCollector(markers);
  g_tunables.generational = GenerationalMode::kAlways;
  g_tunables.max_minors = 1000;
  g_tunables.mark.past_the_end = false;  // so that a root keeps one object
  ASSERT_TRUE(g_collector.writes().OpenForMinors(platform::WriteTracking::BestKind()));
  g_collector.pacer().ExpandHeapTo(64 * kMiB);  // nothing is due by itself
  CollectAll();
}

bool IsOld(const void* p) { return *MarkOf(p) == alloc::g_epoch; }
bool IsYoung(const void* p) { return *MarkOf(p) == alloc::g_young; }

// Nodes that fill several pages, so that those are not where the thread goes on allocating.
std::vector<Node*> NewNodes(size_t count = 64) {
  std::vector<Node*> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(NewNode(i));
  return nodes;
}
void MakeRoots(const std::vector<Node*>& nodes) { g_roots.assign(nodes.begin(), nodes.end()); }
std::vector<Node*> StartWithOld(size_t count = 64) {
  Start();
  std::vector<Node*> old = NewNodes(count);
  MakeRoots(old);
  CollectAll();
  return old;
}

CHILD_TEST(GenerationalTest, YoungObjectsLiveIfRootsOrWrittenOldOnesReferToThem) {
  std::vector<Node*> old = StartWithOld();
  for (Node* node : old) ASSERT_TRUE(IsOld(node));
  for (int round = 0; round < 5; ++round) {
    // On few of the pages, at some distance.
    Node* chain = NewNode(1);
    chain->references[0] = NewNode(2);
    void* atomic = Allocate(Kind::kAtomic, 40);
    chain->references[0]->references[3] = static_cast<Node*>(atomic);
    old[static_cast<size_t>(round) * 3]->references[round % 4] = chain;
    Node* of_root = NewNode(3);
    g_roots.push_back(of_root);
    void* dead = Dead();
    Node* dead_node = NewNode(4);
    for (void* p : {static_cast<void*>(chain), atomic, dead, static_cast<void*>(dead_node)}) {
      ASSERT_TRUE(IsYoung(p));
    }
    CollectYoung();
    EXPECT_TRUE(IsOld(chain));
    EXPECT_TRUE(IsOld(chain->references[0]));
    EXPECT_TRUE(IsOld(atomic));
    EXPECT_TRUE(IsOld(of_root));
    EXPECT_FALSE(IsAllocated(dead));
    EXPECT_FALSE(IsAllocated(dead_node));
  }
  EXPECT_EQ(g_collector.totals().minors, 5u);
}

// What is written after the last collection has to be noticed then, not only after the first.
CHILD_TEST(GenerationalTest, APageIsTrackedAnewAfterEachCollection) {
  std::vector<Node*> old = StartWithOld();
  for (int round = 0; round < 20; ++round) {
    Node* node = NewNode(100);
    old[1]->references[0] = node;  // the one of the last round dies, and stays
    CollectYoung();
    ASSERT_TRUE(IsOld(node)) << round;
  }
}

CHILD_TEST(GenerationalTest, OldGarbageStaysUntilTheWholeHeapIsCollected) {
  std::vector<Node*> old = StartWithOld();
  g_roots[5] = nullptr;
  CollectYoung();
  EXPECT_TRUE(IsAllocated(old[5]));
  CollectYoung();
  EXPECT_TRUE(IsAllocated(old[5]));
  CollectAll();
  EXPECT_FALSE(IsAllocated(old[5]));
  EXPECT_TRUE(IsAllocated(old[6]));
}

CHILD_TEST(GenerationalTest, ASlotThatWasGivenBackHoldsAYoungObjectNext) {
  std::vector<Node*> old = StartWithOld(160);
  std::set<void*> freed;
  for (size_t i = 0; i < 128; ++i) {
    g_roots[i] = nullptr;
    freed.insert(old[i]);
    ASSERT_EQ(alloc::FreeObject(old[i]), alloc::FreeResult::kFreed);
  }
  size_t reused = 0;
  std::vector<Node*> fresh = NewNodes(400);
  for (Node* node : fresh) {
    reused += freed.count(node);
    ASSERT_TRUE(IsYoung(node));
  }
  EXPECT_GT(reused, 50u);
  old[150]->references[0] = fresh[7];
  CollectYoung();
  for (size_t i = 0; i < fresh.size(); ++i) ASSERT_EQ(IsAllocated(fresh[i]), i == 7) << i;
}

CHILD_TEST(GenerationalTest, LargeObjects) {
  Start();
  constexpr size_t kBytes = 6 * alloc::kPageBytes;
  constexpr size_t kWords = kBytes / sizeof(void*);
  auto** old = static_cast<void**>(Allocate(Kind::kNormal, kBytes));
  g_roots.assign(1, old);
  CollectAll();
  for (const size_t at : {size_t{0}, kWords / 2, kWords - 1}) {
    auto** young = static_cast<void**>(Allocate(Kind::kNormal, kBytes));
    Node* node = NewNode(1);
    young[kWords - 1] = node;
    old[at] = young;
    void* dead = Allocate(Kind::kNormal, kBytes);
    void* dead_atomic = Allocate(Kind::kAtomic, kBytes);
    CollectYoung();
    EXPECT_TRUE(IsOld(young));
    EXPECT_TRUE(IsOld(node));
    EXPECT_FALSE(IsAllocated(dead));
    EXPECT_FALSE(IsAllocated(dead_atomic));
  }
}

// An old object that has grown: nobody tracked its new pages.
CHILD_TEST(GenerationalTest, AnOldObjectMayGrowInPlace) {
  Start();
  constexpr size_t kBytes = 5 * alloc::kPageBytes;
  auto** old = static_cast<void**>(Allocate(Kind::kNormal, kBytes));
  g_roots.assign(1, old);
  CollectAll();
  alloc::ObjectRef object;
  ASSERT_TRUE(alloc::FindObject(AddressOf(old), &object));
  ASSERT_TRUE(alloc::ResizeInPlace(object, 3 * kBytes));
  Node* node = NewNode(1);
  old[3 * kBytes / sizeof(void*) - 1] = node;
  CollectYoung();
  EXPECT_TRUE(IsOld(node));
  Node* second = NewNode(2);
  old[3 * kBytes / sizeof(void*) - 2] = second;
  CollectYoung();
  EXPECT_TRUE(IsOld(second));
}

CHILD_TEST(GenerationalTest, UncollectableAndDescribedObjects) {
  Start();
  g_roots.clear();
  // Of two words, the second one is a pointer.
  const int kind = MakeKind(uint64_t{1} << 62 | kBitmap, false);
  ASSERT_GE(kind, 0);
  std::vector<void**> described;
  std::vector<void**> uncollectable;
  for (int i = 0; i < 200; ++i) {
    described.push_back(static_cast<void**>(Allocate(static_cast<Kind>(kind), 1000)));
    g_roots.push_back(described.back());
    uncollectable.push_back(static_cast<void**>(Allocate(Kind::kUncollectable, 1000)));
  }
  auto** young = static_cast<void**>(Allocate(Kind::kUncollectable, 1000));
  young[3] = NewNode(1);
  CollectYoung();
  EXPECT_TRUE(IsOld(young));
  EXPECT_TRUE(IsOld(young[3]));
  Node* nodes[] = {NewNode(2), NewNode(3), NewNode(4)};
  Node* hidden = NewNode(5);
  described[50][1] = nodes[0];
  described[60][0] = hidden;  // where no pointer is
  uncollectable[70][100] = nodes[1];
  young[5] = nodes[2];
  CollectYoung();
  for (Node* node : nodes) EXPECT_TRUE(IsOld(node));
  EXPECT_FALSE(IsAllocated(hidden));
}

CHILD_TEST(GenerationalTest, LinksAndFinalizersOfYoungObjectsAreDecided) {
  std::vector<Node*> old = StartWithOld();
  g_roots[2] = nullptr;  // old garbage
  Node* kept = NewNode(1);
  Node* lost = NewNode(2);
  old[1]->references[0] = kept;
  static uintptr_t links[3];
  const Addr targets[] = {AddressOf(kept), AddressOf(lost), AddressOf(old[2])};
  for (int i = 0; i < 3; ++i) {
    links[i] = ~targets[i];
    ASSERT_EQ(g_collector.registered().short_links.Register(AddressOf(&links[i]), targets[i]),
              LinkResult::kNew);
  }
  Node* finalized = NewNode(3);
  finalized->references[0] = NewNode(4);
  for (Node* node : {finalized, kept, old[2]}) {
    Finalizer before;
    ASSERT_TRUE(g_collector.registered().finalizers.Register(
        AddressOf(node), {[](void*, void*) {}, nullptr}, &before));
  }
  lost = nullptr;
  CollectYoung();
  EXPECT_EQ(links[0], ~targets[0]);
  EXPECT_EQ(links[1], 0u);
  EXPECT_EQ(links[2], ~targets[2]) << "of an old object";
  Finalizers::Ready ready;
  ASSERT_TRUE(g_collector.registered().finalizers.Take(&ready));
  EXPECT_EQ(ready.object, finalized);
  EXPECT_TRUE(IsOld(finalized->references[0]));
  EXPECT_FALSE(g_collector.registered().finalizers.Take(&ready));
  ready = {};
  CollectAll();
  EXPECT_EQ(links[0], ~targets[0]);
  EXPECT_EQ(links[2], 0u);
  ASSERT_TRUE(g_collector.registered().finalizers.Take(&ready));
  EXPECT_EQ(ready.object, old[2]);
}

// A model that knows what there must be, for many collections of both kinds.
TEST(GenerationalTest, NothingIsLostWhateverChanges) {
  for (const int markers : {1, 3}) {
    EXPECT_CHILD_OK([markers] {
      Start(markers);
      Graph graph(static_cast<unsigned>(markers));
      size_t most = 0;
      for (int round = 0; round < 300; ++round) {
        for (int i = 0; i < 40; ++i) graph.Change();
        if (round % 17 == 16) {
          CollectAll();
        } else {
          CollectYoung();
        }
        const size_t reached = graph.Check();
        if (reached > most) most = reached;
      }
      EXPECT_GT(most, 50u);
      printf("up to %zu nodes\n", most);
    });
  }
}

// Full collections that mark or sweep concurrently, with minor ones between them.
TEST(GenerationalTest, FullCollectionsMayBeBesideTheProgram) {
  for (const bool concurrent_mark : {false, true}) {
    EXPECT_CHILD_OK([concurrent_mark] {
      Start();
      g_tunables.concurrent_sweep = true;
      g_tunables.concurrent_mark = concurrent_mark;
      g_tunables.slice_bytes = 2000;
      if (concurrent_mark) {
        ASSERT_TRUE(g_collector.cycle().Enable(platform::WriteTracking::BestKind()));
      }
      Graph graph(7);
      uint64_t fulls = 0;
      for (int round = 0; round < 200; ++round) {
        for (int i = 0; i < 40; ++i) graph.Change();
        if (round % 5 != 4) {
          CollectYoung();
        } else if (concurrent_mark) {
          g_collector.WantCycle();
          do {
            graph.Change();
          } while (!g_collector.Advance(0, 0));
          graph.Change();
          EXPECT_FALSE(CollectForAllocation());
          ++fulls;
        } else {
          g_collector.writes().Forget();
          EXPECT_FALSE(CollectForAllocation());
        }
        graph.Check();
      }
      EXPECT_EQ(g_collector.totals().concurrent, fulls);
    });
  }
}

CHILD_TEST(GenerationalTest, WhenTheWholeHeapIsCollected) {
  Start();
  g_roots.assign(1, NewNode(1));
  CollectYoung();
  EXPECT_TRUE(g_collector.Collect(Cause::kExhausted, 0));
  EXPECT_FALSE(g_collector.last().minor);
  CollectYoung();
  g_collector.ValidateDisplacement(24);
  EXPECT_FALSE(CollectForAllocation());
  CollectYoung();
  g_tunables.mark.all_interior_pointers = false;
  EXPECT_FALSE(CollectForAllocation());
  CollectYoung();
  g_tunables.max_minors = 3;
  CollectAll();
  for (int i = 0; i < 3; ++i) CollectYoung();
  EXPECT_FALSE(CollectForAllocation());
  g_tunables.max_minors = 0;
  CollectYoung();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(CollectForAllocation());
  EXPECT_EQ(alloc::AllocationColour(), alloc::g_epoch);
  g_tunables.max_minors = 10;
  EXPECT_FALSE(CollectForAllocation());
  EXPECT_EQ(alloc::AllocationColour(), alloc::g_young);
  SetDisclaim(
      Kind::kNormal, [](void*) { return 0; }, false);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(CollectForAllocation());
  EXPECT_EQ(alloc::AllocationColour(), alloc::g_epoch);
}

// Turned off, nothing is born young, and what was goes on as if it had not been.
CHILD_TEST(GenerationalTest, ItMayBeTurnedOffAndOn) {
  Start();
  Graph graph(3);
  for (int round = 0; round < 60; ++round) {
    const bool on = round / 10 % 2 == 0;
    g_tunables.generational = on ? GenerationalMode::kAlways : GenerationalMode::kOff;
    for (int i = 0; i < 40; ++i) graph.Change();
    void* dead = Dead();
    EXPECT_EQ(CollectForAllocation(), on && (round == 0 || round % 10 != 0)) << round;
    EXPECT_FALSE(IsAllocated(dead));
    graph.Check();
  }
}

// In a child nothing is tracked.
CHILD_TEST(GenerationalTest, AForkedChildCollectsTheWholeHeapFirst) {
  Start();
  std::vector<Node*> old = NewNodes();
  MakeRoots(old);
  CollectYoung();
  Node* node = NewNode(1);
  old[3]->references[0] = node;
  g_collector.ResetAfterFork(true);
  EXPECT_FALSE(CollectForAllocation());
  EXPECT_TRUE(IsOld(node));
  node->references[0] = NewNode(2);
  CollectYoung();
  EXPECT_TRUE(IsOld(node->references[0]));
}

// The program's own marks, in a minor collection.
CHILD_TEST(GenerationalTest, MarksByHand) {
  std::vector<Node*> old = StartWithOld();
  static Node* set;
  static Node* cleared;
  set = NewNode(1);
  cleared = old[9];
  void* dead = Dead();
  testing::g_inspect = [](const Marker&, const RootTasks&, const MarkConfig&) {
    alloc::ObjectRef object;
    ASSERT_TRUE(alloc::FindSlot(AddressOf(set), &object));
    g_collector.marker().SetMark(object, true);
    ASSERT_TRUE(alloc::FindSlot(AddressOf(cleared), &object));
    g_collector.marker().SetMark(object, false);
  };
  CollectYoung();
  testing::g_inspect = nullptr;
  EXPECT_TRUE(IsOld(set));
  EXPECT_TRUE(IsOld(cleared)) << "old ones may refer to it, and were not looked at";
  EXPECT_FALSE(IsAllocated(dead));
  EXPECT_FALSE(CollectForAllocation()) << "so that it is decided";
  EXPECT_FALSE(IsAllocated(set));
}

CHILD_TEST(GenerationalTest, WithAFullMarkStack) {
  Start();
  // Long lists and wide trees, to be found from one old object.
  std::vector<Node*> old = NewNodes();
  MakeRoots(old);
  CollectAll();
  std::vector<Node*> young;
  auto** wide = static_cast<Node**>(Allocate(Kind::kNormal, 40000 * sizeof(Node*)));
  old[0]->references[0] = reinterpret_cast<Node*>(wide);
  for (size_t i = 0; i < 40000; ++i) young.push_back(wide[i] = NewNode(i));
  CollectYoung();
  for (Node* node : young) ASSERT_TRUE(IsOld(node));
}

// Makes faults dear: a first write takes as long as scanning a page `times` times. False where a
// page is written to without a fault that is its own.
bool MakeFirstWritesCost(double times) {
  g_collector.forecast().SetMarkTimeForTesting(1);
  const auto ns = static_cast<uint64_t>(times * static_cast<double>(alloc::kPageBytes));
  platform::g_machine_costs.SetTracking(ns, 0);
  const platform::TrackingTraits& traits = g_collector.writes().tracker().traits();
  return traits.opened_bytes <= alloc::kPageBytes && !traits.fetch_needs_stopped_world;
}

// A page that is written all the time is not armed, and what is stored there is found; then it is
// looked at again.
CHILD_TEST(GenerationalTest, APageWhoseFaultsAreDearerThanScanningItRests) {
  std::vector<Node*> old = StartWithOld();
  const bool rests = MakeFirstWritesCost(3.5);
  std::vector<uint64_t> written;
  for (int round = 0; round < 12; ++round) {
    Node* node = NewNode(100);
    old[1]->references[0] = node;
    CollectYoung();
    ASSERT_TRUE(IsOld(node)) << round;
    written.push_back(g_collector.writes().written_bytes());
  }
  for (size_t round = 0; round < written.size(); ++round) {
    EXPECT_EQ(written[round] == 0, rests && round % 4 != 0) << round;
  }
  // Cheap faults end it when the page is armed next.
  MakeFirstWritesCost(0.1);
  for (int round = 0; round < 12; ++round) {
    old[1]->references[0] = NewNode(100);
    CollectYoung();
    EXPECT_TRUE(IsOld(old[1]->references[0]));
  }
  EXPECT_NE(g_collector.writes().written_bytes(), 0u);
}

long MinorFaults() {
  rusage usage;
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

// Pages of objects that have died are allocated in again, without a fault for each.
CHILD_TEST(GenerationalTest, PagesWithoutOldObjectsAreDisarmed) {
  Start();
  constexpr size_t kPages = 64;
  constexpr size_t kBytes = kPages * alloc::kPageBytes;
  MakeFirstWritesCost(0.1);
  g_roots.assign(1, Allocate(Kind::kNormal, kBytes));
  void* before = g_roots[0];
  memset(before, 0, kBytes);
  CollectAll();
  g_roots[0] = nullptr;
  CollectAll();
  const long faults = MinorFaults();
  void* after = Allocate(Kind::kNormal, kBytes);
  ASSERT_EQ(after, before);
  memset(after, 1, kBytes);
  EXPECT_LT(MinorFaults() - faults, static_cast<long>(kPages));
}

// A sample tells what part of the pages the program writes, and nothing is remembered.
TEST(GenerationalTest, ASampleTellsHowMuchIsWritten) {
  for (const size_t every : {0, 1, 2, 4}) {
    EXPECT_CHILD_OK([every] {
      Start();
      MakeFirstWritesCost(1);
      g_tunables.generational = GenerationalMode::kOff;
      constexpr size_t kBytes = 1024 * alloc::kPageBytes;
      g_roots.assign(1, Allocate(Kind::kNormal, kBytes));
      memset(g_roots[0], 0, kBytes);
      CollectAll();
      HeapWrites& writes = g_collector.writes();
      EXPECT_FALSE(writes.KnowsWritten());
      EXPECT_EQ(writes.ExpectedBytes(1000), 1000) << "all, before it is known";
      // At most a fourth of the pages, if all of them were written.
      writes.SampleWorldStopped(writes.FaultNs(kBytes) / 4);
      ASSERT_FALSE(writes.Remembers());
      // Of each two or four regions of 64 KiB, one.
      constexpr size_t kRegion = 64 * kKiB;
      auto* bytes = static_cast<volatile char*>(g_roots[0]);
      const long faults = MinorFaults();
      for (size_t region = 0; every != 0 && region < kBytes / kRegion; region += every) {
        for (size_t i = 0; i < kRegion; i += 4 * kKiB) bytes[region * kRegion + i] = 0;
      }
      EXPECT_LE(MinorFaults() - faults, static_cast<long>(kBytes / (4 * kKiB)) / 4 + 64);
      CollectAll();
      ASSERT_TRUE(writes.KnowsWritten());
      const double part = every == 0 ? 0 : 1.0 / static_cast<double>(every);
      EXPECT_NEAR(writes.ExpectedBytes(1000), 1000 * part, 150);
      EXPECT_EQ(writes.TakeSampleNs(), 0) << "the collection has taken it";
    });
  }
}

// Pages that need not be armed are disarmed after the stop, a piece at a time; not those of a
// sample, nor those whose writes are remembered.
CHILD_TEST(GenerationalTest, WhatIsSampledOrRememberedStaysArmed) {
  Start();
  MakeFirstWritesCost(1);
  constexpr size_t kBytes = 256 * alloc::kPageBytes;
  g_roots.assign(1, Allocate(Kind::kNormal, kBytes));
  auto** words = static_cast<void**>(g_roots[0]);
  memset(static_cast<void*>(words), 0, kBytes);
  HeapWrites& writes = g_collector.writes();
  CollectAll();
  ASSERT_TRUE(writes.Remembers());
  writes.DisarmBelow(EndCommitted(alloc::Space::kScanned));
  while (writes.DisarmSome()) {
  }
  Node* young = NewNode(1);
  words[kBytes / sizeof(void*) - 1] = young;
  CollectYoung();
  EXPECT_TRUE(IsOld(young));

  g_tunables.generational = GenerationalMode::kOff;
  CollectAll();
  EXPECT_FALSE(writes.Remembers());
  writes.SampleWorldStopped(writes.FaultNs(kBytes));
  writes.DisarmBelow(EndCommitted(alloc::Space::kScanned));
  while (writes.DisarmSome()) {
  }
  CollectAll();
  ASSERT_TRUE(writes.TakeCounted() || writes.KnowsWritten());
  EXPECT_EQ(writes.ExpectedBytes(1000), 0) << "nothing was written";
}

// Of a tracker that is closed no page is armed.
CHILD_TEST(GenerationalTest, AnotherTrackerHasNothingToDisarm) {
  std::vector<Node*> old = StartWithOld();
  HeapWrites& writes = g_collector.writes();
  CollectYoung();
  const platform::TrackingKind kind = writes.tracker().kind();
  writes.CloseTracker();
  EXPECT_FALSE(writes.DisarmSome());
  CollectAll();
  EXPECT_FALSE(writes.DisarmSome());
  ASSERT_TRUE(writes.OpenForMinors(kind));
  EXPECT_FALSE(writes.DisarmSome());
  CollectAll();
  ASSERT_TRUE(writes.Remembers());
  Node* node = NewNode(1);
  old[1]->references[0] = node;
  CollectYoung();
  EXPECT_TRUE(IsOld(node));
}

}  // namespace
}  // namespace gleaner::gc
