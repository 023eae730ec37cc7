// Parallel marking against the serial traversal of marking_graph.h: 1 to 4 workers, with and
// without balancing, splitting and batches, both termination methods; paused, abandoned and gone on
// with.
#include "tests/threads/marking_graph.h"

namespace gleaner::gc {
namespace {

class MarkingTest : public testing::ConcurrentTest {};

std::string NameOf(int workers, const MarkConfig& config) {
  return std::to_string(workers) + " workers, balance " + std::to_string(config.balance) +
         ", split " + std::to_string(config.split) + ", interior " +
         std::to_string(config.all_interior_pointers) + ", pad " +
         std::to_string(config.pad_objects) + ", batches of " + std::to_string(config.min_batch) +
         ", termination " +
         (config.termination == TerminationMethod::kStates ? "states" : "counter");
}

// Marks with every combination.
void MarkAllWays(Graph& graph) {
  graph.Sort();
  graph.TraceReference({});  // the variants must not make a difference
  for (int workers = 1; workers <= 4; ++workers) {
    Machine& machine = NewMachine(workers);
    uint64_t steals = 0;
    uint64_t batches = 0;
    int max_workers = 0;
    for (int variant = 0; variant < 8; ++variant) {
      MarkConfig config;
      config.balance = (variant & 1) == 0;
      config.split = (variant & 2) == 0;
      config.termination =
          (variant & 4) == 0 ? TerminationMethod::kStates : TerminationMethod::kCounter;
      for (const size_t batch : {0, 8}) {
        config.min_batch = batch;
        SCOPED_TRACE(NameOf(workers, config));
        const MarkStatistics statistics = machine.Mark(graph, config);
        graph.Compare(machine.marker.white(), machine.marker.black());
        EXPECT_GE(statistics.objects, graph.reachable());  // twice by a lost race
        EXPECT_EQ(statistics.overflows, 0u);
        if (!config.balance) {
          EXPECT_EQ(statistics.steals, 0u);
        }
        steals += statistics.steals;
        batches += statistics.batches;
        max_workers = std::max(max_workers, machine.pool.last_workers());
        if (::testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(batches, 0u);
    EXPECT_LE(max_workers, workers);
    if (workers > 1) {
      EXPECT_GT(max_workers, 1) << "nobody helped";
    }
    printf(
        "%d workers: %zu of %zu objects reachable, up to %d took part, %llu steals, %llu batches\n",
        workers, graph.reachable(), graph.objects.size(), max_workers,
        static_cast<unsigned long long>(steals), static_cast<unsigned long long>(batches));
  }
}

CHILD_TEST_F(MarkingTest, RandomGraphs) {
  testing::StartHeap();
  Graph graph;
  BuildRandom(&graph, 4, 25000 / testing::kSlowdown);
  MarkAllWays(graph);
}

CHILD_TEST_F(MarkingTest, ArraysAndLists) {
  testing::StartHeap();
  Graph graph;
  Random random(1);
  AddRoots(&graph, {BuildList(&graph, 40000 / testing::kSlowdown, 16),
                    BuildList(&graph, 5000 / testing::kSlowdown, 100),
                    BuildTree(&graph, random, 2, 8000 / testing::kSlowdown),
                    BuildTree(&graph, random, 1, 300000 / testing::kSlowdown)});  // 2.4 MB
  BuildList(&graph, 1000, 32);                                                    // dead
  MarkAllWays(graph);
}

std::vector<MarkConfig> PausingConfigs() {
  std::vector<MarkConfig> configs(4);
  for (size_t i = 0; i < configs.size(); ++i) {
    configs[i].balance = (i & 1) == 0;
    configs[i].termination =
        (i & 2) == 0 ? TerminationMethod::kStates : TerminationMethod::kCounter;
    configs[i].min_batch = i == 0 || i == 3 ? 8 : 0;
  }
  return configs;
}

void BuildMixture(Graph* graph) {
  Random random(4);
  BuildRandom(graph, 2, 20000 / testing::kSlowdown);
  AddRoots(graph, {BuildList(graph, 40000 / testing::kSlowdown, 16),
                   BuildTree(graph, random, 2, 4000 / testing::kSlowdown),
                   BuildTree(graph, random, 1, 300000 / testing::kSlowdown)});
  graph->Sort();
  graph->TraceReference({});
}

// However often marking is paused, it marks what it would mark without.
CHILD_TEST_F(MarkingTest, SlicesOfAnySizeMarkTheSame) {
  testing::StartHeap();
  Graph graph;
  BuildMixture(&graph);
  Random random(5);
  for (int workers = 1; workers <= 4; ++workers) {
    Machine& machine = NewMachine(workers);
    for (const MarkConfig& config : PausingConfigs()) {
      SCOPED_TRACE(NameOf(workers, config));
      for (const size_t max : {size_t{1}, 100 * kKiB, 2 * kMiB}) {
        machine.Prepare(graph, config);
        size_t slices = 1;
        bool done = machine.marker.MarkFromRoots(&machine.tasks, 1 + random.Below(max));
        for (; !done; ++slices) {
          ASSERT_LT(slices, 100000u) << "no progress";
          done = machine.marker.Continue(1 + random.Below(max));
        }
        graph.Compare(machine.marker.white(), machine.marker.black());
        if (config.min_batch != 0) {
          EXPECT_GT(machine.marker.statistics().batches, 0u);
        }
        if (max == 1) {
          EXPECT_GT(slices, 10u);
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

CHILD_TEST_F(MarkingTest, AnotherThreadPausesItAtAnyTime) {
  testing::StartHeap();
  Graph graph;
  BuildMixture(&graph);
  for (const int workers : {1, 2, 4}) {
    Machine& machine = NewMachine(workers);
    for (const MarkConfig& config : PausingConfigs()) {
      SCOPED_TRACE(NameOf(workers, config));
      machine.Prepare(graph, config);
      machine.marker.Pause();
      EXPECT_FALSE(machine.marker.MarkFromRoots(&machine.tasks));  // paused from the start
      std::atomic<bool> done{false};
      std::thread pauser([&] {
        Random random(6);
        while (!done.load()) {
          machine.marker.Pause();
          for (size_t i = random.Below(20); i != 0; --i) Jitter(random);
        }
      });
      size_t turns = 0;
      do {
        machine.marker.Resume();
        ++turns;
      } while (!machine.marker.Continue() && turns < 50);
      done.store(true);
      pauser.join();
      machine.marker.Resume();
      EXPECT_TRUE(machine.marker.Continue());
      graph.Compare(machine.marker.white(), machine.marker.black());
      if (config.min_batch != 0) {
        EXPECT_GT(machine.marker.statistics().batches, 0u);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// A cycle that is given up at any depth leaves no trace, and the next one is right.
CHILD_TEST_F(MarkingTest, AbandonedAtAnyDepth) {
  testing::StartHeap();
  Graph graph;
  BuildMixture(&graph);
  Random random(7);
  for (const int workers : {1, 3}) {
    Machine& machine = NewMachine(workers);
    for (int round = 0; round < 20; ++round) {
      const MarkConfig config = PausingConfigs()[random.Below(4)];
      SCOPED_TRACE(NameOf(workers, config));
      machine.Prepare(graph, config);
      const uint8_t white = machine.marker.white();
      bool done = machine.marker.MarkFromRoots(&machine.tasks, 1 + random.Below(500 * kKiB));
      for (size_t more = random.Below(4); !done && more != 0; --more) {
        done = machine.marker.Continue(1 + random.Below(500 * kKiB));
      }
      machine.marker.DiscardMarks();
      size_t others = 0;
      for (const Object& object : graph.objects) others += (*object.mark & white) != 0 ? 0 : 1;
      ASSERT_EQ(others, 0u);
      machine.Mark(graph, config);
      graph.Compare(machine.marker.white(), machine.marker.black());
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// A mutator that swaps pointers between objects that it reaches from the roots, and roots, while
// marking is paused. What it has written is noted, and made dirty as by a fetch.
class Mutator {
 public:
  Mutator(Graph* graph, uint64_t stream) : graph_(graph), random_(stream) {}

  void Swap(size_t times) {
    while (times-- != 0) {
      Addr* a = Place();
      Addr* b = Place();
      std::swap(*a, *b);
      for (const Addr* place : {a, b}) {
        if (alloc::g_space.Contains(AddressOf(place))) written_.push_back(AddressOf(place));
      }
    }
  }
  void Fetch(RescanSet* rescan_set) {
    for (const Addr word : written_) rescan_set->Set(word, kWordBytes);
    written_.clear();
  }

 private:
  // A word of a root or of an object that a random walk from a root leads to.
  Addr* Place() {
    Root& root = graph_->roots[random_.Below(graph_->roots.size())];
    Addr* place = &root.words[random_.Below(root.words.size())];
    for (size_t steps = random_.Below(30); steps != 0; --steps) {
      ObjectRef object;
      if (!alloc::FindObject(*place, &object) || IsPointerFree(object.kind())) break;
      if (*place - object.base >= object.bytes || *place != object.base) break;
      place = PointerAt<Addr>(object.base) + random_.Below(object.bytes / kWordBytes);
    }
    return place;
  }

  Graph* graph_;
  Random random_;
  std::vector<Addr> written_;
};

CHILD_TEST_F(MarkingTest, WhatChangesBetweenSlicesIsFoundByScanningAgain) {
  testing::StartHeap();
  Graph graph;
  BuildMixture(&graph);
  RescanSet rescan_set;
  ASSERT_TRUE(rescan_set.Init());
  ASSERT_TRUE(rescan_set.Cover(EndCommitted(alloc::Space::kScanned)));
  Mutator mutator(&graph, 8);
  Random random(9);
  size_t lost_without = 0;
  for (int workers = 1; workers <= 4; ++workers) {
    Machine& machine = NewMachine(workers);
    for (const MarkConfig& config : PausingConfigs()) {
      SCOPED_TRACE(NameOf(workers, config));
      machine.Prepare(graph, config);
      machine.marker.UseRescanSet(&rescan_set);
      bool done = machine.marker.MarkFromRoots(&machine.tasks, 1 + random.Below(200 * kKiB));
      for (int step = 0; step < 30; ++step) {
        mutator.Swap(50);
        if (done || random.OneIn(3)) {
          mutator.Fetch(&rescan_set);
          machine.marker.BeginRescan();
        }
        done = machine.marker.Continue(1 + random.Below(200 * kKiB));
      }
      while (!done) done = machine.marker.Continue();
      graph.TraceReference({});
      const uint8_t black = machine.marker.black();
      for (const Object& object : graph.objects) {
        lost_without += object.reachable && *object.mark != black ? 1 : 0;
      }
      // The last fetch, and the roots as they are now.
      mutator.Fetch(&rescan_set);
      machine.marker.BeginRescan();
      machine.tasks.Clear();
      machine.AddRoots(graph);
      ASSERT_TRUE(machine.marker.MarkFromRoots(&machine.tasks));
      ASSERT_EQ(CountDirty(rescan_set), 0u);
      size_t lost = 0;
      for (const Object& object : graph.objects) {
        lost += object.reachable && *object.mark != black ? 1 : 0;
      }
      ASSERT_EQ(lost, 0u);
    }
  }
  EXPECT_GT(lost_without, 0u) << "the changes were harmless";
  printf("%zu objects would have been lost without the last round\n", lost_without);
}

// What counts as a pointer is the same for any number of workers.
CHILD_TEST_F(MarkingTest, InteriorPointersAndPadding) {
  testing::StartHeap();
  Graph graph;
  BuildRandom(&graph, 2, 20000 / testing::kSlowdown);
  for (const int workers : {1, 3}) {
    Machine& machine = NewMachine(workers);
    for (const bool interior : {true, false}) {
      for (const bool pad : {false, true}) {
        MarkConfig config;
        config.all_interior_pointers = interior;
        config.pad_objects = pad;
        graph.TraceReference(config);
        SCOPED_TRACE(NameOf(workers, config));
        machine.Mark(graph, config);
        graph.Compare(machine.marker.white(), machine.marker.black());
        printf("%s: %zu reachable\n", NameOf(workers, config).c_str(), graph.reachable());
      }
    }
  }
}

// A word one past the base of an object may be a pointer one past the end of another, if it is a
// word of a heap object and objects are padded. In a static root it is no pointer.
CHILD_TEST_F(MarkingTest, PaddingDoesNotConcernRoots) {
  testing::StartHeap();
  Graph graph;
  auto* object = static_cast<char*>(testing::Allocate(Kind::kNormal, 64));
  ASSERT_NE(object, nullptr);
  graph.objects.push_back(Describe(object));
  void* holder = testing::Allocate(Kind::kNormal, 64);
  ASSERT_NE(holder, nullptr);
  graph.objects.push_back(Describe(holder));
  graph.Sort();
  Machine& machine = NewMachine(1);
  MarkConfig config;
  config.all_interior_pointers = false;
  config.pad_objects = true;
  const auto is_marked = [&machine](void* pointer) {
    return *Describe(pointer).mark == machine.marker.black();
  };
  graph.roots.push_back({RootKind::kData, {AddressOf(object) + 1, AddressOf(holder)}});
  machine.Mark(graph, config);
  EXPECT_TRUE(is_marked(holder));
  EXPECT_FALSE(is_marked(object));
}

}  // namespace
}  // namespace gleaner::gc
