// Parallel marking against a serial traversal of the test's own: 1 to 4 workers, with and without
// balancing and splitting, both termination methods.
//
// Several threads build the heap, with the allocator alone, and have ended before the first mark.
// The reference knows every object from a list and finds the one an address lies in by bisection;
// it shares no code with the marker.
#include <algorithm>
#include <cstring>
#include <memory>

#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "gc/marker.h"
#include "tests/support/heap.h"
#include "tests/threads/concurrent.h"

namespace gleaner::gc {
namespace {

size_t CountDirty(const RescanSet& rescan_set) {
  size_t cards = 0;
  rescan_set.ForEachUnit([&](alloc::PageNumber, size_t, size_t count) { cards += count; });
  return cards;
}

using alloc::Kind;
using alloc::ObjectRef;
using alloc::ThreadHeaps;
using testing::Random;
using testing::RunThreads;

class MarkingTest : public testing::ConcurrentTest {};

struct Object {
  Addr base = 0;
  size_t bytes = 0;  // usable
  Kind kind = Kind::kNormal;
  bool first_page_only = false;
  uint8_t* mark = nullptr;
  bool reachable = false;
};

Object Describe(void* p, bool first_page_only = false) {
  ObjectRef found;
  EXPECT_TRUE(alloc::FindObject(AddressOf(p), &found));
  return {found.base, found.bytes, found.kind(), first_page_only, found.mark(), false};
}

// Root words; the marker's and the reference's.
struct Root {
  RootKind kind;
  std::vector<Addr> words;
};

class Graph {
 public:
  std::vector<Object> objects;
  std::vector<Root> roots;

  void Sort() {
    std::sort(objects.begin(), objects.end(),
              [](const Object& a, const Object& b) { return a.base < b.base; });
  }

  // Serial, depth first.
  void TraceReference(const MarkConfig& config) {
    config_ = config;
    for (Object& object : objects) object.reachable = false;
    for (const Object& object : objects) {
      if (IsUncollectable(object.kind)) Visit(object.base, true);
    }
    for (const Root& root : roots) {
      for (const Addr word : root.words) {
        Visit(word, config.all_interior_pointers || root.kind == RootKind::kStack);
        if (config.all_interior_pointers && word % alloc::kGranuleBytes == 0) {
          Visit(word - 1, true);
        }
      }
    }
    while (!stack_.empty()) {
      const Object object = *stack_.back();
      stack_.pop_back();
      for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes) {
        const Addr word = *PointerAt<const Addr>(at);
        Visit(word, config.all_interior_pointers);
        if (config.pad_objects) Visit(word - 1, config.all_interior_pointers);
      }
    }
  }

  // What the marker did, against the reference.
  void Compare(uint8_t white, uint8_t black) const {
    size_t reachable = 0;
    size_t marked = 0;
    size_t reported = 0;
    for (const Object& object : objects) {
      const uint8_t mark = *object.mark;
      reachable += object.reachable ? 1 : 0;
      marked += mark == black ? 1 : 0;
      if ((object.reachable ? mark != black : (mark & white) == 0) && ++reported <= 5) {
        ADD_FAILURE() << "object " << std::hex << object.base << std::dec << " of " << object.bytes
                      << " bytes, kind " << static_cast<int>(object.kind) << ", is "
                      << (object.reachable ? "" : "not ") << "reachable, its mark is "
                      << static_cast<int>(mark) << ", black is " << static_cast<int>(black);
      }
    }
    EXPECT_EQ(marked, reachable);
    // No mark where there is no object.
    size_t black_bytes = 0;
    size_t white_bytes = 0;
    alloc::ForEachPage([&](alloc::PageNumber page, const alloc::PageInfo&) {
      const uint8_t* marks = alloc::g_space.MarksOf(page);
      for (size_t i = 0; i < alloc::kMarkBytesPerPage; ++i) {
        black_bytes += marks[i] == black ? 1 : 0;
        white_bytes += (marks[i] & white) != 0 ? 1 : 0;
      }
    });
    EXPECT_EQ(black_bytes, reachable);
    EXPECT_EQ(white_bytes, objects.size() - reachable);
  }

  size_t reachable() const {
    return static_cast<size_t>(
        std::count_if(objects.begin(), objects.end(), [](const Object& o) { return o.reachable; }));
  }

 private:
  void Visit(Addr word, bool interior) {
    auto after = std::upper_bound(objects.begin(), objects.end(), word,
                                  [](Addr a, const Object& object) { return a < object.base; });
    if (after == objects.begin()) return;
    Object& object = *--after;
    const Addr displacement = word - object.base;
    if (displacement >= object.bytes) return;
    if (!interior && displacement != 0) return;  // no other displacement is registered
    if (object.first_page_only && displacement >= alloc::kPageBytes) return;
    if (object.reachable) return;
    object.reachable = true;
    if (!IsPointerFree(object.kind)) stack_.push_back(&object);
  }

  MarkConfig config_;
  std::vector<Object*> stack_;
};

// A marker with its pool, both for good: helper threads never end.
struct Machine {
  WorkerPool pool;
  Marker marker;
  RootTasks tasks;

  void Start(int workers) {
    pool.SetSize(workers);
    ASSERT_TRUE(marker.Init(&pool, workers));
    ASSERT_TRUE(tasks.Init());
    pool.StartHelpers();
  }

  MarkStatistics Mark(Graph& graph, const MarkConfig& config) {
    Prepare(graph, config);
    EXPECT_TRUE(marker.MarkFromRoots(&tasks));
    return marker.statistics();
  }

  // All white, and the list of roots.
  void Prepare(Graph& graph, const MarkConfig& config) {
    for (size_t i = 0; i < ThreadHeaps::count(); ++i) ThreadHeaps::at(i).RetireRunsWorldStopped();
    for (const Object& object : graph.objects) *object.mark = alloc::g_epoch;
    tasks.Clear();
    AddRoots(graph);
    marker.Begin(config);
  }
  void AddRoots(const Graph& graph) {
    for (const Root& root : graph.roots) {
      const Addr begin = AddressOf(root.words.data());
      tasks.Add(root.kind, begin, begin + root.words.size() * kWordBytes);
    }
    tasks.AddUncollectablePages();
  }
};

Machine& NewMachine(int workers) {
  auto* machine = new Machine;  // NOLINT: its threads use it as long as the process lives
  machine->Start(workers);
  return *machine;
}

// --- Graphs ---

size_t RandomBytes(Random& random) {
  switch (random.Below(100)) {
    case 0:
      return 8193 + random.Below(60000);
    case 1:
    case 2:
      return 1025 + random.Below(7000);
    default:
      return 1 + random.Below(random.OneIn(4) ? 1024 : 64);
  }
}

Kind RandomKind(Random& random) {
  const size_t dice = random.Below(1000);
  return dice < 2     ? Kind::kUncollectable
         : dice < 4   ? Kind::kAtomicUncollectable
         : dice < 250 ? Kind::kAtomic
                      : Kind::kNormal;
}

// A word that refers to one of `objects`: mostly its base, now and then inside it or one past it.
Addr Reference(Random& random, const std::vector<Object>& objects) {
  const Object& target = objects[random.Below(objects.size())];
  switch (random.Below(16)) {
    case 0:
      return target.base + random.Below(target.bytes);
    case 1:
      return target.base + target.bytes;
    default:
      return target.base;
  }
}

// Words of all sorts: few references, so that not all of the graph is reached, and what looks like
// one and is none. Pointer-free objects get them too.
void FillRandomly(Random& random, const Object& object, const std::vector<Object>& objects,
                  const std::vector<Addr>& freed) {
  auto* words = PointerAt<Addr>(object.base);
  const size_t count = object.bytes / kWordBytes;
  const size_t references = random.Below(4) + (random.OneIn(50) ? count / 2 : 0);
  for (size_t i = 0; i < count; ++i) words[i] = 0;
  for (size_t i = 0; i < references; ++i) {
    words[random.Below(count)] = Reference(random, objects);
  }
  if (random.OneIn(4)) words[random.Below(count)] = random.Next();
  if (random.OneIn(8) && !freed.empty())
    words[random.Below(count)] = freed[random.Below(freed.size())];
  if (random.OneIn(8)) {
    words[random.Below(count)] = alloc::g_space.base + random.Below(alloc::g_space.bytes);
  }
}

// Built by several threads, which have ended when this returns.
void BuildRandom(Graph* graph, size_t threads, size_t objects_a_thread) {
  std::vector<std::vector<Object>> parts(threads);
  std::vector<std::vector<Addr>> freed(threads);
  RunThreads(threads, [&](size_t self) {
    Random random(self + 1000);
    alloc::t_heap = ThreadHeaps::Acquire();
    ASSERT_NE(alloc::t_heap, nullptr);
    for (size_t i = 0; i < objects_a_thread; ++i) {
      const bool first_page_only = random.OneIn(100);
      const size_t bytes = first_page_only ? 40000 : RandomBytes(random);
      void* p =
          alloc::AllocateObject(RandomKind(random), bytes, alloc::kGranuleBytes, first_page_only);
      ASSERT_NE(p, nullptr);
      if (random.OneIn(5)) {
        ASSERT_EQ(alloc::FreeObject(p), alloc::FreeResult::kFreed);
        freed[self].push_back(AddressOf(p));
      } else {
        parts[self].push_back(Describe(p, first_page_only));
      }
    }
    // Some heaps keep their runs, to be hidden; some are abandoned.
    if (self % 2 == 0) ThreadHeaps::Abandon(alloc::t_heap);
    alloc::t_heap = &alloc::g_no_heap;
  });
  for (const auto& part : parts) {
    graph->objects.insert(graph->objects.end(), part.begin(), part.end());
  }
  std::vector<Addr> all_freed;
  for (const auto& part : freed) all_freed.insert(all_freed.end(), part.begin(), part.end());
  graph->Sort();
  RunThreads(threads, [&](size_t self) {
    Random random(self + 2000);
    for (const Object& object : parts[self]) {
      FillRandomly(random, object, graph->objects, all_freed);
    }
  });
  Random random(3000);
  for (const RootKind kind : {RootKind::kData, RootKind::kStack, RootKind::kData}) {
    Root root{kind, std::vector<Addr>(20000)};
    for (Addr& word : root.words) {
      word =
          random.OneIn(40) ? Reference(random, graph->objects) : random.Next() >> random.Below(64);
    }
    graph->roots.push_back(std::move(root));
  }
}

// A list of `length` nodes of `bytes`, from the front.
void* BuildList(Graph* graph, size_t length, size_t bytes) {
  void* next = nullptr;
  for (size_t i = 0; i < length; ++i) {
    void* node = testing::Allocate(Kind::kNormal, bytes);
    EXPECT_NE(node, nullptr);
    *static_cast<void**>(node) = next;
    graph->objects.push_back(Describe(node));
    next = node;
  }
  return next;
}

// Arrays of arrays, the larger of them over 1 MiB, with leaves of 16 bytes.
void* BuildTree(Graph* graph, Random& random, size_t depth, size_t width) {
  if (depth == 0) {
    void* leaf = testing::Allocate(random.OneIn(2) ? Kind::kNormal : Kind::kAtomic, 16);
    graph->objects.push_back(Describe(leaf));
    return leaf;
  }
  auto** array = static_cast<void**>(testing::Allocate(Kind::kNormal, width * sizeof(void*)));
  EXPECT_NE(array, nullptr);
  graph->objects.push_back(Describe(array));
  for (size_t i = 0; i < width; ++i) {
    if (!random.OneIn(3)) array[i] = BuildTree(graph, random, depth - 1, 40);
  }
  return array;
}

void AddRoots(Graph* graph, std::initializer_list<void*> pointers) {
  Root root{RootKind::kStack, {}};
  for (void* p : pointers) root.words.push_back(AddressOf(p));
  graph->roots.push_back(root);
}

// --- Tests ---

std::string NameOf(int workers, const MarkConfig& config) {
  return std::to_string(workers) + " workers, balance " + std::to_string(config.balance) +
         ", split " + std::to_string(config.split) + ", interior " +
         std::to_string(config.all_interior_pointers) + ", pad " +
         std::to_string(config.pad_objects) + ", batches of " + std::to_string(config.min_batch) +
         ", termination " +
         (config.termination == TerminationMethod::kStates ? "states" : "counter");
}

// Marks with every combination, each several times.
void MarkAllWays(Graph& graph, int rounds) {
  graph.Sort();
  graph.TraceReference({});  // the variants must not make a difference
  for (int workers = 1; workers <= 4; ++workers) {
    Machine& machine = NewMachine(workers);
    uint64_t steals = 0;
    uint64_t batches = 0;
    int most_workers = 0;
    for (int variant = 0; variant < 8; ++variant) {
      MarkConfig config;
      config.balance = (variant & 1) == 0;
      config.split = (variant & 2) == 0;
      config.termination =
          (variant & 4) == 0 ? TerminationMethod::kStates : TerminationMethod::kCounter;
      for (int round = 0; round < rounds; ++round) {
        config.min_batch = round % 2 == 0 ? 0 : 8;
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
        most_workers = std::max(most_workers, machine.pool.last_workers());
        if (::testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(batches, 0u);
    EXPECT_LE(most_workers, workers);
    if (workers > 1) {
      EXPECT_GT(most_workers, 1) << "nobody helped";
    }
    printf(
        "%d workers: %zu of %zu objects reachable, up to %d took part, %llu steals, %llu batches\n",
        workers, graph.reachable(), graph.objects.size(), most_workers,
        static_cast<unsigned long long>(steals), static_cast<unsigned long long>(batches));
  }
}

TEST_F(MarkingTest, RandomGraphs) {
  EXPECT_CHILD_OK([] {
    testing::StartHeap();
    Graph graph;
    BuildRandom(&graph, 4, 25000 / testing::kSlowdown);
    MarkAllWays(graph, 3);
  });
}

TEST_F(MarkingTest, ArraysAndLists) {
  EXPECT_CHILD_OK([] {
    testing::StartHeap();
    Graph graph;
    Random random(1);
    AddRoots(&graph, {BuildList(&graph, 40000 / testing::kSlowdown, 16),
                      BuildList(&graph, 5000 / testing::kSlowdown, 100),
                      BuildTree(&graph, random, 2, 8000 / testing::kSlowdown),
                      BuildTree(&graph, random, 1, 300000 / testing::kSlowdown)});  // 2.4 MB
    BuildList(&graph, 1000, 32);                                                    // dead
    MarkAllWays(graph, 3);
  });
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
TEST_F(MarkingTest, SlicesOfAnySizeMarkTheSame) {
  EXPECT_CHILD_OK([] {
    testing::StartHeap();
    Graph graph;
    BuildMixture(&graph);
    Random random(5);
    for (int workers = 1; workers <= 4; ++workers) {
      Machine& machine = NewMachine(workers);
      for (const MarkConfig& config : PausingConfigs()) {
        SCOPED_TRACE(NameOf(workers, config));
        for (const size_t most : {size_t{1}, 100 * kKiB, 2 * kMiB}) {
          machine.Prepare(graph, config);
          size_t slices = 1;
          bool done = machine.marker.MarkFromRoots(&machine.tasks, 1 + random.Below(most));
          for (; !done; ++slices) {
            ASSERT_LT(slices, 100000u) << "no progress";
            done = machine.marker.Continue(1 + random.Below(most));
          }
          graph.Compare(machine.marker.white(), machine.marker.black());
          if (config.min_batch != 0) {
            EXPECT_GT(machine.marker.statistics().batches, 0u);
          }
          if (most == 1) {
            EXPECT_GT(slices, 10u);
          }
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  });
}

TEST_F(MarkingTest, AnotherThreadPausesItAtAnyTime) {
  EXPECT_CHILD_OK([] {
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
  });
}

// A cycle that is given up at any depth leaves no trace, and the next one is right.
TEST_F(MarkingTest, AbandonedAtAnyDepth) {
  EXPECT_CHILD_OK([] {
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
        machine.marker.Abandon();
        size_t others = 0;
        for (const Object& object : graph.objects) others += (*object.mark & white) != 0 ? 0 : 1;
        ASSERT_EQ(others, 0u);
        machine.Mark(graph, config);
        graph.Compare(machine.marker.white(), machine.marker.black());
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
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

TEST_F(MarkingTest, WhatChangesBetweenSlicesIsFoundByScanningAgain) {
  EXPECT_CHILD_OK([] {
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
  });
}

// What counts as a pointer is the same for any number of workers.
TEST_F(MarkingTest, InteriorPointersAndPadding) {
  EXPECT_CHILD_OK([] {
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
  });
}

// A word one past the base of an object may be a pointer one past the end of another, if it is a
// word of a heap object and objects are padded. In a static root it is no pointer.
TEST_F(MarkingTest, PaddingDoesNotConcernRoots) {
  EXPECT_CHILD_OK([] {
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
  });
}

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
      for (int round = 0; round < 3; ++round) {
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

TEST_F(MarkingTest, AFullStackLosesNothing) {
  CheckFullStack([](Graph* graph) { BuildComb(graph, 900); }, {}, true);
}

TEST_F(MarkingTest, ABatchDoesNotFillTheStack) {
  MarkConfig config;
  config.min_batch = 256;
  CheckFullStack([](Graph* graph) { BuildFan(graph, 400); }, config, false);
}

// A heap that is large enough to make batches by itself. A slice as the driver's makes them, a
// mutator's does not.
TEST_F(MarkingTest, ALargeHeapIsMarkedInBatches) {
  EXPECT_CHILD_OK([] {
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
  });
}

}  // namespace
}  // namespace gleaner::gc
