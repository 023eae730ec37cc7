// Marking with deep stacks: stacks that are full, and batches, against the serial traversal of
// marking_graph.h.
#include "tests/threads/marking_graph.h"

namespace gleaner::gc {
namespace {

class DeepStackTest : public testing::ConcurrentTest {};

// Each node of the spine has 507 leaves, and the next node is in their midst, so that at each step
// some hundred ranges stay behind: more than the stack of a 16 MiB heap holds (65,536).
void BuildComb(Graph* graph, size_t length) {
  constexpr size_t kTeeth = 508;
  void* next = nullptr;
  for (size_t i = 0; i < length; ++i) {
    auto** node = static_cast<void**>(testing::Allocate(Kind::kNormal, 4096));
    ASSERT_NE(node, nullptr);
    graph->objects.push_back(Describe(node));
    const size_t place = i % 2 == 0 ? 250 : 450;
    for (size_t tooth = 0; tooth < kTeeth; ++tooth) {
      void** leaf = tooth == place ? static_cast<void**>(next)
                                   : static_cast<void**>(testing::Allocate(Kind::kNormal, 16));
      node[tooth] = leaf;
      if (tooth != place) graph->objects.push_back(Describe(leaf));
    }
    next = node;
  }
  AddRoots(graph, {next});
}

// An object of pointers to `width` nodes of 508 leaves each, and to an array of 131,072 whose
// address is between theirs. When the nodes are scanned in one batch, their leaves are on the stack
// together.
void BuildFan(Graph* graph, size_t width) {
  constexpr size_t kArrayLength = 131072;
  const auto allocate = [graph](size_t bytes) {
    auto** object = static_cast<void**>(testing::Allocate(Kind::kNormal, bytes));
    EXPECT_NE(object, nullptr);
    graph->objects.push_back(Describe(object));
    return object;
  };
  void** const hub = allocate((width + 1) * kWordBytes);
  for (size_t i = 0; i < width; ++i) {
    auto** node = allocate(4096);
    hub[i] = node;
    for (size_t leaf = 0; leaf < 508; ++leaf) node[leaf] = allocate(16);
    if (i != width / 2) continue;
    void** const array = allocate(kArrayLength * kWordBytes);
    hub[width] = array;
    for (size_t k = 0; k < kArrayLength; ++k) array[k] = allocate(16);
  }
  AddRoots(graph, {hub});
}

// Marks what `build` makes in a heap whose stacks hold 65,536 ranges. `overflows`: with one worker
// they do not suffice.
void CheckFullStack(void (*build)(Graph*), const MarkConfig& config, bool overflows) {
  EXPECT_CHILD_OK([build, config, overflows] {
    testing::HeapConfig heap;
    heap.reserve = 16 * kMiB;
    testing::StartHeap(heap);
    Graph graph;
    build(&graph);
    graph.Sort();
    graph.TraceReference({});
    EXPECT_EQ(graph.reachable(), graph.objects.size());
    RescanSet rescan_set;
    ASSERT_TRUE(rescan_set.Init());
    ASSERT_TRUE(rescan_set.Cover(EndCommitted(alloc::Space::kScanned)));
    for (int workers = 1; workers <= 4; ++workers) {
      Machine& machine = NewMachine(workers);
      uint64_t count = 0;
      for (int round = 0; round < 2; ++round) {
        SCOPED_TRACE(workers);
        count += machine.Mark(graph, config).overflows;
        graph.Compare(machine.marker.white(), machine.marker.black());
        // The same with the rescan set instead of a search of the heap.
        machine.Prepare(graph, config);
        machine.marker.UseRescanSet(&rescan_set);
        machine.marker.MarkFromRoots(&machine.tasks);
        for (int rounds = 0; CountDirty(rescan_set) != 0; ++rounds) {
          ASSERT_LT(rounds, 10000) << "no progress";
          machine.marker.BeginRescan();
          ASSERT_TRUE(machine.marker.Continue());
        }
        graph.Compare(machine.marker.white(), machine.marker.black());
      }
      if (workers == 1) {
        EXPECT_EQ(count != 0, overflows);
      }
      printf("%d workers: %llu overflows\n", workers, static_cast<unsigned long long>(count));
    }
  });
}

TEST_F(DeepStackTest, AFullStackLosesNothing) {
  CheckFullStack([](Graph* graph) { BuildComb(graph, 900); }, {}, true);
}

TEST_F(DeepStackTest, ABatchDoesNotFillTheStack) {
  MarkConfig config;
  config.min_batch = 256;
  CheckFullStack([](Graph* graph) { BuildFan(graph, 400); }, config, false);
}

// A heap that is large enough to make batches by itself. A slice as the driver's makes them, a
// mutator's does not.
CHILD_TEST_F(DeepStackTest, ALargeHeapIsMarkedInBatches) {
  testing::StartHeap();
  constexpr size_t kObjects = 40000;
  constexpr size_t kBytes = 1024;
  Graph graph;
  Random random(8);
  auto** hub = static_cast<void**>(testing::Allocate(Kind::kNormal, kObjects * kWordBytes));
  ASSERT_NE(hub, nullptr);
  graph.objects.push_back(Describe(hub));
  for (size_t i = 0; i < kObjects; ++i) {
    auto** object = static_cast<void**>(testing::Allocate(Kind::kNormal, kBytes));
    ASSERT_NE(object, nullptr);
    object[random.Below(kBytes / kWordBytes)] = hub[i == 0 ? 0 : random.Below(i)];
    hub[i] = object;
    graph.objects.push_back(Describe(object));
  }
  AddRoots(&graph, {hub});
  graph.Sort();
  graph.TraceReference({});
  for (const int workers : {1, 2, 4}) {
    Machine& machine = NewMachine(workers);
    for (const uint64_t slice : {kNeverPause, kMinSortingSlice, kMinSortingSlice / 2}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, slices of " + std::to_string(slice));
      machine.Prepare(graph, {});
      size_t slices = 1;
      for (bool done = machine.marker.MarkFromRoots(&machine.tasks, slice); !done; ++slices) {
        ASSERT_LT(slices, 1000u) << "no progress";
        done = machine.marker.Continue(slice);
      }
      graph.Compare(machine.marker.white(), machine.marker.black());
      const uint64_t batches = machine.marker.statistics().batches;
      if (slice < kMinSortingSlice) {
        EXPECT_EQ(batches, 0u);
      } else if (workers == 1) {
        EXPECT_GT(batches, 0u);
      }
      printf("%d workers: %zu slices, %llu batches\n", workers, slices,
             static_cast<unsigned long long>(batches));
    }
  }
}

}  // namespace
}  // namespace gleaner::gc
