// The marker's schedule in virtual time, on graphs of which it is known what is reachable.
#include "tools/predict/simulated_marker.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/tools/random_graph.h"
#include "tools/predict/prediction.h"

namespace gleaner::tools {
namespace {

// Memory that is always at hand: only the schedule matters.
Machine FlatMachine() {
  Machine machine;
  machine.processors = 64;
  machine.caches = {{64 << 10, 64, 16, false, {}}};
  machine.tlb_entries = 1536;
  machine.range_ns = 6;
  machine.word_ns = 0.35;
  machine.reference_ns = 3;
  machine.object_ns = 5;
  machine.chain_ns = 5;
  machine.atomic_ns = 6;
  machine.load_ns = 0.5;
  machine.transfer_ns = 100;
  machine.wake_call_ns = 1500;
  return machine;
}

const std::vector<SnapshotKind> kKinds = {{"normal", false, false, false, false},
                                          {"pointer-free", true, false, false, false}};

// Objects of any size, at addresses without gaps, the first of them kept by a root.
class Builder {
 public:
  explicit Builder(const std::vector<uint64_t>& sizes) : sizes_(sizes) {
    uint64_t at = kBegin;
    for (const uint64_t bytes : sizes) {
      begins_.push_back(at);
      at += bytes;
    }
  }
  void Refer(ObjectId source, uint64_t word, ObjectId target) {
    references_.push_back({source, word, target});
  }
  std::unique_ptr<SimulatedHeap> Build() {
    HeapGraph graph;
    const uint8_t live = 1;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      EXPECT_TRUE(graph.AddObjects(begins_[i], sizes_[i], 0, &live, 1));
    }
    graph.FinishObjects();
    for (const auto& [source, word, target] : references_) {
      EXPECT_TRUE(graph.AddReference(source, word * 8, begins_[target]));
    }
    const uint32_t root = graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 64, 72, ""});
    EXPECT_TRUE(graph.AddRootReference(root, 64, begins_[0]));
    graph.FinishReferences();
    return std::make_unique<SimulatedHeap>(graph, kKinds);
  }

 private:
  static constexpr uint64_t kBegin = 0x7f0000000000;
  struct Reference {
    ObjectId source;
    uint64_t word;
    ObjectId target;
  };
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> begins_;
  std::vector<Reference> references_;
};

std::unique_ptr<SimulatedHeap> Tree(int levels) {
  const size_t objects = (size_t{1} << levels) - 1;
  Builder builder(std::vector<uint64_t>(objects, 32));
  for (ObjectId i = 0; 2 * i + 2 < objects; ++i) {
    builder.Refer(i, 0, 2 * i + 1);
    builder.Refer(i, 1, 2 * i + 2);
  }
  return builder.Build();
}

std::unique_ptr<SimulatedHeap> List(size_t objects) {
  Builder builder(std::vector<uint64_t>(objects, 16));
  for (ObjectId i = 0; i + 1 < objects; ++i) builder.Refer(i, 1, i + 1);
  return builder.Build();
}

// One array whose words all refer to objects of their own.
std::unique_ptr<SimulatedHeap> Array(size_t words) {
  std::vector<uint64_t> sizes(words + 1, 16);
  sizes[0] = AlignUp(words * 8, 16);
  Builder builder(sizes);
  for (size_t i = 0; i < words; ++i) builder.Refer(0, i, static_cast<ObjectId>(i + 1));
  return builder.Build();
}

class SimulatedMarkerTest : public RandomGraphTest {};

SimulationResult Simulate(SimulatedHeap* heap, const SimulationOptions& options) {
  const Machine machine = FlatMachine();
  SimulatedMarker marker(heap, machine);
  CacheSimulation caches(machine);
  EXPECT_FALSE(marker.RunSerial(&caches).overflowed);
  const SimulationResult result = marker.Run(options);
  EXPECT_FALSE(result.overflowed);
  return result;
}

double SpeedUp(SimulatedHeap* heap, SimulationOptions options) {
  const Machine machine = FlatMachine();
  SimulatedMarker marker(heap, machine);
  CacheSimulation caches(machine);
  const auto serial = static_cast<double>(marker.RunSerial(&caches).length_ps);
  return serial / static_cast<double>(marker.Run(options).length_ps);
}

TEST_F(SimulatedMarkerTest, MarksWhatIsReachableWhateverTheSchedule) {
  for (int round = 0; round < 60; ++round) {
    const GraphModel model = RandomGraph(3000);
    HeapGraph graph;
    model.Build(&graph);
    std::vector<bool> reached(model.words.size());
    std::vector<ObjectId> stack;
    for (const auto& root : model.roots) stack.push_back(root.target);
    size_t expected = 0;
    while (!stack.empty()) {
      const ObjectId object = stack.back();
      stack.pop_back();
      if (reached[object]) continue;
      reached[object] = true;
      ++expected;
      for (const GraphWord& word : model.words[object]) stack.push_back(word.target);
    }
    SimulatedHeap heap(graph, kKinds);
    SimulationOptions options;
    options.workers = 1 + static_cast<int>(Random(round % 10 == 0 ? 1024 : 70));
    options.balance = Random(4) != 0;
    options.split = Random(4) != 0;
    options.at_start = 1 + static_cast<int>(Random(70));
    options.min_batch = Random(3) == 0 ? 1 + Random(40) : 0;
    if (Random(3) == 0) options.termination = gc::TerminationMethod::kCounter;
    EXPECT_EQ(Simulate(&heap, options).objects, expected) << "round " << round;
  }
}

TEST_F(SimulatedMarkerTest, PartsOfLongObjectsAreScannedOnce) {
  constexpr size_t kWords = 300'000;  // ten times 256 KiB
  for (const int workers : {1, 2, 7, 64}) {
    auto heap = Array(kWords);
    SimulationOptions options;
    options.workers = workers;
    const SimulationResult result = Simulate(heap.get(), options);
    EXPECT_EQ(result.objects, kWords + 1);
    EXPECT_EQ(result.bytes_scanned, kWords * 8 + kWords * 16);
  }
}

TEST_F(SimulatedMarkerTest, SpansOfAnObjectOfAnyLengthAreScannedWhole) {
  for (const uint64_t more : {16, 4096 + 32, 3'000'016}) {
    const uint64_t bytes = (uint64_t{2} * 8 << 20) + more;
    constexpr uint64_t kStep = 32'768;  // words between two references
    const uint64_t count = bytes / 8 / kStep;
    std::vector<uint64_t> sizes(count + 1, 16);
    sizes[0] = bytes;
    Builder builder(sizes);
    for (uint64_t i = 0; i < count; ++i) {
      builder.Refer(0, i * kStep, static_cast<ObjectId>(i + 1));
    }
    auto heap = builder.Build();
    EXPECT_EQ(Simulate(heap.get(), {}).objects, count + 1) << more;
  }
}

TEST_F(SimulatedMarkerTest, RootMemoryCountsWithoutReferencesToo) {
  HeapGraph graph;
  const uint8_t live = 1;
  ASSERT_TRUE(graph.AddObjects(0x7f0000000000, 32, 0, &live, 1));
  graph.FinishObjects();
  constexpr uint64_t kBytes = 64 << 20;
  const uint32_t root = graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 4096, 4096 + kBytes, ""});
  graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 1 << 30, (1 << 30) + kBytes, ""});
  ASSERT_TRUE(graph.AddRootReference(root, 4096 + kBytes / 2, 0x7f0000000000));
  graph.FinishReferences();
  SimulatedHeap heap(graph, kKinds);
  EXPECT_EQ(heap.root_tasks().size(), 2 * kBytes / (64 << 10));
  EXPECT_EQ(heap.root_tasks()[kBytes / 2 / (64 << 10)].cells.size(), 1u);
  const Prediction p = PredictMarking(&heap, FlatMachine(), {1});
  EXPECT_GT(p.processor_ns, 2 * kBytes / 8 * FlatMachine().word_ns);
}

TEST_F(SimulatedMarkerTest, UncollectableObjectsAreRootsOnce) {
  const std::vector<SnapshotKind> kinds = {{"uncollectable", false, false, true, false}};
  HeapGraph graph;
  const uint8_t live = 0xff;
  ASSERT_TRUE(graph.AddObjects(0x7f0000000000, 32, 0, &live, 8));
  graph.FinishObjects();
  const uint32_t root = graph.AddRoot({SnapshotRoot::kUncollectable, kNoThread, 0, 0, ""});
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(graph.AddRootReference(root, 0, 0x7f0000000000 + 32 * i));
  }
  graph.FinishReferences();
  SimulatedHeap heap(graph, kinds);
  size_t cells = 0;
  for (const SimulatedHeap::RootTask& task : heap.root_tasks()) cells += task.cells.size();
  EXPECT_EQ(cells, 8u);
}

TEST_F(SimulatedMarkerTest, TheSameTwice) {
  auto heap = Tree(14);
  SimulationOptions options;
  options.workers = 48;
  const SimulationResult first = Simulate(heap.get(), options);
  auto again = Tree(14);
  const SimulationResult second = Simulate(again.get(), options);
  EXPECT_EQ(first.length_ps, second.length_ps);
  EXPECT_EQ(first.steals, second.steals);
  EXPECT_EQ(first.idle_ps, second.idle_ps);
}

TEST_F(SimulatedMarkerTest, NothingTakesLessThanItsWork) {
  auto heap = Tree(15);
  for (const int workers : {1, 3, 16, 64}) {
    SimulationOptions options;
    options.workers = workers;
    const SimulationResult r = Simulate(heap.get(), options);
    const uint64_t all_ps = r.length_ps * static_cast<uint64_t>(workers);
    EXPECT_LE(r.processor_ps + r.memory_ps + r.added_ps + r.idle_ps + r.absent_ps, all_ps);
    EXPECT_GE(r.processor_ps + r.memory_ps + r.added_ps + r.idle_ps + r.absent_ps +
                  r.contention_ps + all_ps / 20,
              all_ps);
  }
}

// Without balancing and splitting there is no speed-up on 64 processors (Endo, Taura, Yonezawa,
// SC97: at most 4); with both there is.
TEST_F(SimulatedMarkerTest, BalancingAndSplittingMakeItScale) {
  SimulationOptions options;
  options.workers = 64;
  auto tree = Tree(20);
  EXPECT_GT(SpeedUp(tree.get(), options), 40);
  auto array = Array(1 << 20);
  EXPECT_GT(SpeedUp(array.get(), options), 30);
  options.balance = options.split = false;
  tree = Tree(20);
  EXPECT_LE(SpeedUp(tree.get(), options), 4);
  array = Array(1 << 20);
  EXPECT_LE(SpeedUp(array.get(), options), 4);
  options.balance = true;
  array = Array(1 << 20);
  EXPECT_LE(SpeedUp(array.get(), options), 4) << "one marker scans the array";
}

TEST_F(SimulatedMarkerTest, AListIsMarkedOneObjectAfterTheOther) {
  auto list = List(100'000);
  SimulationOptions options;
  options.workers = 64;
  const double speed_up = SpeedUp(list.get(), options);
  EXPECT_LE(speed_up, 1.01);
  EXPECT_GE(speed_up, 0.9) << "nor do the helpers make it slower";
}

// --- What the prediction says of heaps that are unlike others ---

TEST_F(SimulatedMarkerTest, AHeapWithoutObjects) {
  HeapGraph graph;
  graph.FinishObjects();
  graph.FinishReferences();
  SimulatedHeap heap(graph, kKinds);
  const Prediction p = PredictMarking(&heap, FlatMachine(), {1, 2, 64});
  ASSERT_EQ(p.markings.size(), 3u);
  EXPECT_EQ(p.objects, 0u);
  EXPECT_TRUE(p.has_room);
  EXPECT_EQ(p.markings[p.best].markers, 1);
  EXPECT_EQ(AdviceOf(p, FlatMachine()).size(), 1u);
}

TEST_F(SimulatedMarkerTest, OneObject) {
  auto heap = List(1);
  const Prediction p = PredictMarking(heap.get(), FlatMachine(), {64});
  EXPECT_EQ(p.objects, 1u);
  EXPECT_EQ(p.levels, 1u);
  EXPECT_EQ(p.markings[p.best].markers, 1);
}

TEST_F(SimulatedMarkerTest, WhatNoCollectorHasWrittenDoesNoHarm) {
  // An object of half a granule, one of an odd size, and words beyond an object's end.
  Builder builder({8, 24, 300'008, 64});
  builder.Refer(0, 0, 1);
  builder.Refer(1, 40'000, 2);
  builder.Refer(2, 37'500, 3);
  auto heap = builder.Build();
  ASSERT_EQ(heap->error(), "");
  SimulationOptions options;
  options.workers = 7;
  EXPECT_EQ(Simulate(heap.get(), options).objects, 4u);
  EXPECT_NE(Builder({uint64_t{1} << 45}).Build()->error(), "");
}

TEST_F(SimulatedMarkerTest, AListIsNarrow) {
  auto heap = List(5000);
  const Prediction p = PredictMarking(heap.get(), FlatMachine(), {1, 64});
  EXPECT_EQ(p.levels, 5000u);
  EXPECT_DOUBLE_EQ(p.width, 1);
  std::string advice;
  for (const std::string& sentence : AdviceOf(p, FlatMachine())) advice += sentence;
  EXPECT_NE(advice.find("GC_MARKERS=1"), std::string::npos) << advice;
  EXPECT_NE(advice.find("5,000"), std::string::npos) << advice;
}

TEST_F(SimulatedMarkerTest, ManyRoots) {
  constexpr size_t kRoots = 1'000'000;
  HeapGraph graph;
  const std::vector<uint8_t> live(kRoots / 8 + 1, 0xff);
  constexpr uint64_t kBegin = 0x7f0000000000;
  ASSERT_TRUE(graph.AddObjects(kBegin, 32, 1, live.data(), kRoots));
  graph.FinishObjects();
  const uint32_t root =
      graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 4096, 4096 + 8 * kRoots, ""});
  for (uint64_t i = 0; i < kRoots; ++i) {
    ASSERT_TRUE(graph.AddRootReference(root, 4096 + 8 * i, kBegin + 32 * i));
  }
  graph.FinishReferences();
  SimulatedHeap heap(graph, kKinds);
  EXPECT_EQ(heap.root_tasks().size(), (8 * kRoots + (64 << 10) - 1) / (64 << 10))
      << "as the marker cuts them";
  const Prediction p = PredictMarking(&heap, FlatMachine(), {1, 8});
  EXPECT_EQ(p.objects, kRoots);
  EXPECT_EQ(p.scanned_bytes, 0u) << "they hold no pointers";
  EXPECT_GT(p.markings[1].speed_up, 3) << "root tasks are claimed by all";
}

TEST_F(SimulatedMarkerTest, BusyMemoryLimitsWhatMarkersGain) {
  Machine machine = FlatMachine();
  machine.caches[0].bytes = 4096;
  machine.memory = {100, 10, 10, 10};
  machine.one_way_ns = machine.one_way_remote_ns = 40;
  machine.occupancy_ns = 5;
  auto heap = Tree(17);
  const Prediction p = PredictMarking(heap.get(), machine, {1, 64});
  const double lines = p.served.back();
  EXPECT_GE(p.markings[1].mark_ns, lines * machine.occupancy_ns) << "memory serves no faster";
  EXPECT_GT(p.markings[1].waiting, 0.1);
  // The same on four nodes, of which one has everything; then evenly.
  machine.nodes = 4;
  machine.concentration = 1;
  auto one_node = Tree(17);
  const double concentrated = PredictMarking(one_node.get(), machine, {1, 64}).markings[1].mark_ns;
  machine.concentration = 0;
  auto four_nodes = Tree(17);
  const double spread = PredictMarking(four_nodes.get(), machine, {1, 64}).markings[1].mark_ns;
  EXPECT_LT(spread, concentrated / 2);
}

}  // namespace
}  // namespace gleaner::tools
