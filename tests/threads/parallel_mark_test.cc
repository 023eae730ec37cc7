// The worker pool, and marking with it: what 1 to 4 workers mark is what a serial reference
// reaches. There are no mutators but the test itself, so nothing needs to be stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <unordered_set>
#include <vector>

#include "tests/support/fake_world.h"
#include "tests/support/flags.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using alloc::ObjectRef;
using testing::Allocate;
using testing::g_roots;
using testing::g_tunables;
using testing::Rounds;
using testing::Seed;

TEST(WorkerPoolTest, EveryWokenHelperRunsTheJobOnce) {
  EXPECT_CHILD_OK([] {
    struct Job {
      WorkerPool* pool;
      std::atomic<int> runs[kMaxWorkers] = {};
      uint64_t plain = 0;  // written before the job: helpers must see it
      std::atomic<int> wrong{0};
    };
    static WorkerPool pool;
    pool.SetSize(5);
    EXPECT_EQ(pool.size(), 5);
    EXPECT_FALSE(pool.CanWake());  // nobody started yet
    pool.StartHelpers();
    for (unsigned round = 0; round < Rounds(500); ++round) {
      Job job;
      job.pool = &pool;
      job.plain = round;
      job.runs[0].store(1);
      pool.Begin(
          [](void* context, int worker) {
            auto* running = static_cast<Job*>(context);
            if (running->plain >= Rounds(500)) running->wrong.fetch_add(1);
            running->runs[worker].fetch_add(1);
            if (worker % 2 != 0) running->pool->WakeOne();  // from a helper, too
          },
          &job);
      if (round % 3 == 0) {
        pool.WakeAll(static_cast<int>(round % 7));
        EXPECT_GE(pool.last_workers(), static_cast<int>(std::min(round % 7, 5u)));
      } else {
        for (unsigned i = 0; i < round % 6; ++i) pool.WakeOne();
      }
      pool.Finish();
      const int workers = pool.last_workers();
      ASSERT_LE(workers, 5);
      for (int i = 0; i < kMaxWorkers; ++i)
        ASSERT_EQ(job.runs[i].load(), i < workers ? 1 : 0) << "worker " << i;
      ASSERT_EQ(job.wrong.load(), 0);
    }
  });
}

// Depth-first with a set: no marks, no rings, no filter.
std::unordered_set<Addr> Reachable() {
  std::unordered_set<Addr> reached;
  std::vector<ObjectRef> stack;
  const auto visit = [&](Addr word) {
    ObjectRef object;
    if (!alloc::FindObject(word, &object) || word - object.base >= object.bytes) return;
    if (reached.insert(object.base).second) stack.push_back(object);
  };
  for (void* root : g_roots) {
    visit(AddressOf(root));
    if (AddressOf(root) % alloc::kGranuleBytes == 0) visit(AddressOf(root) - 1);
  }
  while (!stack.empty()) {
    const ObjectRef object = stack.back();
    stack.pop_back();
    if (IsPointerFree(object.kind())) continue;
    for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes)
      visit(*PointerAt<Addr>(at));
  }
  return reached;
}

struct Graph {
  std::vector<void*> nodes;
  std::vector<void*> uncollectable;
};

// Shapes that load a marker in different ways: long chains, wide arrays, trees, and anything.
Graph Build(unsigned shape, std::mt19937& random) {
  Graph graph;
  const auto node = [&](size_t bytes, Kind kind = Kind::kNormal) {
    auto* p = static_cast<void**>(Allocate(kind, bytes));
    EXPECT_NE(p, nullptr);
    graph.nodes.push_back(p);
    if (IsUncollectable(kind)) graph.uncollectable.push_back(p);
    return p;
  };
  g_roots.clear();
  switch (shape % 5) {
    case 0: {  // chains
      for (int chain = 0; chain < 6; ++chain) {
        void** last = nullptr;
        for (int i = 0; i < 8000; ++i) {
          void** p = node(32);
          p[1] = last;
          last = p;
        }
        g_roots.push_back(last + 1);
      }
      break;
    }
    case 1: {  // one large array of arrays
      void** array = node(800 * kKiB);
      for (size_t i = 0; i < 800 * kKiB / 8; i += 3) array[i] = node(16 + random() % 64);
      g_roots.push_back(array + 1);
      break;
    }
    case 2: {  // binary tree, depth 15
      std::vector<void**> level{node(48)};
      g_roots.push_back(level[0] + 1);
      for (int depth = 0; depth < 15; ++depth) {
        std::vector<void**> next;
        for (void** p : level) {
          p[0] = node(48);
          p[1] = node(48);
          next.push_back(static_cast<void**>(p[0]));
          next.push_back(static_cast<void**>(p[1]));
        }
        level.swap(next);
      }
      break;
    }
    case 3: {  // behind uncollectable objects, which workers find page by page
      for (int i = 0; i < 3000; ++i) {
        void** p = node(256, Kind::kUncollectable);
        for (int w = 0; w < 32; w += 2) p[w] = node(32);
      }
      break;
    }
    default: {  // random, with interior pointers, pointer-free objects and large ones
      for (int i = 0; i < 40000; ++i) {
        const size_t bytes = random() % 400 == 0 ? 8200 + random() % 40000 : 16 + random() % 200;
        const Kind kind = random() % 4 == 0 ? Kind::kAtomic : Kind::kNormal;
        void** p = node(bytes, kind);
        for (size_t w = 0; w < bytes / 8; ++w) {
          p[w] =
              random() % 4 == 0
                  ? static_cast<char*>(graph.nodes[random() % graph.nodes.size()]) + random() % 16
                  : nullptr;
        }
      }
      for (int i = 0; i < 300; ++i) g_roots.push_back(graph.nodes[random() % graph.nodes.size()]);
    }
  }
  return graph;
}

void MarkAndCompare(int markers, unsigned variant) {
  testing::StartHeap();
  testing::StartCollector(markers);
  g_tunables.mark.split = (variant & 1) == 0;
  g_tunables.mark.balance = (variant & 2) == 0;
  g_tunables.mark.termination =
      (variant & 4) == 0 ? TerminationMethod::kStates : TerminationMethod::kCounter;
  g_tunables.verify = false;  // the reference here is another
  std::mt19937 random(Seed() + variant);
  for (unsigned shape = 0; shape < 5; ++shape) {
    const Graph graph = Build(shape, random);
    std::unordered_set<Addr> expected = Reachable();
    for (void* p : graph.uncollectable) {
      // They are roots; what they hold was put there by Build.
      expected.insert(AddressOf(p));
      for (int w = 0; w < 32; w += 2) expected.insert(AddressOf(static_cast<void**>(p)[w]));
    }
    // A root to a base keeps the slot in front, too; hence through Reachable and not by count.
    testing::Collect();
    size_t wrong = 0;
    for (void* p : graph.nodes) {
      if (testing::IsAllocated(p) != (expected.count(AddressOf(p)) != 0)) ++wrong;
    }
    ASSERT_EQ(wrong, 0u) << "shape " << shape << ", " << markers << " markers, variant " << variant;
    EXPECT_LE(g_collector.last().markers, markers);
    for (void* p : graph.uncollectable) alloc::FreeObject(p);
  }
}

TEST(ParallelMarkTest, MarksWhatASerialReferenceReaches) {
  const unsigned seed = Seed();
  for (int markers = 1; markers <= 4; ++markers) {
    for (unsigned variant = 0; variant < 8; ++variant) {
#ifdef __SANITIZE_THREAD__
      // Two for each number of markers, which are opposites in each of the three switches.
      const unsigned first = static_cast<unsigned>(markers) - 1;
      if (variant != first && variant != 7 - first) continue;
#endif
      EXPECT_CHILD_OK([markers, variant, seed] {
        (void)seed;
        MarkAndCompare(markers, variant);
      });
    }
  }
}

TEST(ParallelMarkTest, HelpersTakePart) {
  EXPECT_CHILD_OK([] {
    testing::StartHeap();
    testing::StartCollector(4);
    g_tunables.verify = false;
    std::mt19937 random(1);
    int most = 0;
    uint64_t steals = 0;
    for (int round = 0; round < 10; ++round) {
      Build(2, random);
      testing::Collect();
      most = g_collector.last().markers > most ? g_collector.last().markers : most;
      steals += g_collector.last().steals;
    }
    EXPECT_GT(most, 1) << "marking was never parallel";
    EXPECT_GT(steals, 0u) << "nothing was ever stolen";
  });
}

}  // namespace
}  // namespace gleaner::gc
