// Graphs of objects, and a serial traversal of them that the parallel marker is compared with.
//
// Several threads build the heap, with the allocator alone, and have ended before the first mark.
// The reference knows every object from a list and finds the one an address lies in by bisection;
// it shares no code with the marker.
#pragma once

#include <algorithm>
#include <cstring>
#include <ios>
#include <memory>

#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "gc/mark/marker.h"
#include "tests/support/heap.h"
#include "tests/threads/concurrent.h"

namespace gleaner::gc {

inline size_t CountDirty(const RescanSet& rescan_set) {
  size_t cards = 0;
  rescan_set.ForEachUnit([&](alloc::PageNumber, size_t, size_t count) { cards += count; });
  return cards;
}

using alloc::Kind;
using alloc::ObjectRef;
using alloc::ThreadHeaps;
using testing::Random;
using testing::RunThreads;

struct Object {
  Addr base = 0;
  size_t bytes = 0;  // usable
  Kind kind = Kind::kNormal;
  bool first_page_only = false;
  uint8_t* mark = nullptr;
  bool reachable = false;
};

inline Object Describe(void* p, bool first_page_only = false) {
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

inline Machine& NewMachine(int workers) {
  auto* machine = new Machine;  // NOLINT: its threads use it as long as the process lives
  machine->Start(workers);
  return *machine;
}

// --- Graphs ---

inline size_t RandomBytes(Random& random) {
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

inline Kind RandomKind(Random& random) {
  const size_t dice = random.Below(1000);
  return dice < 2     ? Kind::kUncollectable
         : dice < 4   ? Kind::kAtomicUncollectable
         : dice < 250 ? Kind::kAtomic
                      : Kind::kNormal;
}

// A word that refers to one of `objects`: mostly its base, now and then inside it or one past it.
inline Addr Reference(Random& random, const std::vector<Object>& objects) {
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
inline void FillRandomly(Random& random, const Object& object, const std::vector<Object>& objects,
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
inline void BuildRandom(Graph* graph, size_t threads, size_t objects_a_thread) {
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
inline void* BuildList(Graph* graph, size_t length, size_t bytes) {
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
inline void* BuildTree(Graph* graph, Random& random, size_t depth, size_t width) {
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

inline void AddRoots(Graph* graph, std::initializer_list<void*> pointers) {
  Root root{RootKind::kStack, {}};
  for (void* p : pointers) root.words.push_back(AddressOf(p));
  graph->roots.push_back(root);
}

}  // namespace gleaner::gc
