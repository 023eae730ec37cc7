// Which pages threads get on a machine with several memory nodes: their own node's while the policy
// allows, and no page is lost or given away twice, whatever the nodes are.
//
// The machine is a model (fake_nodes.h), and one thread drives the threads' heaps, so the tests are
// deterministic. [inv.lps-bound] holds with the slack of docs/design/lps_and_tree_fit.md: the batch
// of 16, and eight pages that a search gives away.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <vector>

#include "alloc/page_node.h"
#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "tests/support/fake_nodes.h"
#include "tests/support/fake_world.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using alloc::PageNumber;
using alloc::Policy;
using alloc::Space;
using alloc::ThreadHeap;
using alloc::ThreadHeaps;
using namespace testing;

constexpr size_t kObjectBytes = 1024;
constexpr size_t kObjectsAPage = alloc::kPageBytes / kObjectBytes;
constexpr int kNodes = 4;

size_t Taken() { return alloc::PageSpaceOf(Space::kScanned).taken().value(); }
// On the lists of threads and nodes.
size_t Free() {
  size_t free = 0;
  for (size_t i = 0; i < ThreadHeaps::count(); ++i) {
    free += ThreadHeaps::at(i).free_pages(Space::kScanned);
  }
  return free;
}

struct Setting {
  Policy policy = Policy::kLps;
  double k = 1;
  size_t threads = kNodes;
  size_t reserve = 256 * kMiB;
};

// Threads, of which number i starts on node i % kNodes.
class Nodes {
 public:
  explicit Nodes(const Setting& setting) : slack_(16 + 8 * setting.threads) {
    testing::StartNodes(kNodes);
    testing::HeapConfig config;
    config.policy = setting.policy;
    config.k = setting.k;
    config.reserve = setting.reserve;
    config.by_node = true;
    testing::StartHeap(config);
    EXPECT_TRUE(alloc::g_space.by_node);
    testing::StartCollector();
    g_roots.assign(1 << 16, nullptr);
    for (size_t i = 0; i < setting.threads; ++i) Start(static_cast<int>(i) % kNodes);
  }

  void Start(int node) {
    g_current_node = node;
    heaps_.push_back(ThreadHeaps::Acquire());
    nodes_.push_back(node);
    EXPECT_NE(heaps_.back(), nullptr);
  }
  void End(size_t thread) { ThreadHeaps::Abandon(heaps_[thread]); }
  void Move(size_t thread, int node) { nodes_[thread] = node; }

  // The thread allocates objects, rooted from `first` on. False once there is no memory.
  bool Fill(size_t thread, size_t first, size_t objects) {
    g_current_node = nodes_[thread];
    for (size_t i = first; i < first + objects; ++i) {
      auto* p = static_cast<size_t*>(
          heaps_[thread]->Allocate(Kind::kNormal, alloc::SizeClassOf(kObjectBytes)));
      if (p == nullptr) return false;
      for (size_t word = 0; word < kObjectBytes / sizeof *p; ++word) {
        if (p[word] != 0) ADD_FAILURE() << "not zero";
      }
      p[1] = ~i;
      p[kObjectBytes / sizeof *p - 1] = ~i;
      if (g_roots[i] != nullptr) ADD_FAILURE() << "in use";
      g_roots[i] = p;
      ++objects_;
      if (testing::NodeOfOsPage(AddressOf(p)) != nodes_[thread]) ++elsewhere_;
      Sample();
    }
    return true;
  }
  bool FillPages(size_t thread, size_t first, size_t pages) {
    return Fill(thread, first, pages * kObjectsAPage);
  }
  // Checks the objects, and drops them.
  void Drop(size_t first, size_t objects) {
    for (size_t i = first; i < first + objects; ++i) {
      const auto* p = static_cast<size_t*>(g_roots[i]);
      if (p != nullptr && (p[1] != ~i || p[kObjectBytes / sizeof *p - 1] != ~i)) {
        ADD_FAILURE() << "object " << i << " has changed";
      }
      g_roots[i] = nullptr;
    }
  }
  void DropPages(size_t first, size_t pages) { Drop(first, pages * kObjectsAPage); }

  void Sample() {
    max_live_ = std::max(max_live_, Taken() - Free());
    max_taken_ = std::max(max_taken_, Taken());
    if (ThreadHeaps::policy() == Policy::kLps) {
      EXPECT_LE(static_cast<double>(Taken()),
                ThreadHeaps::k() * static_cast<double>(max_live_) + static_cast<double>(slack_));
    }
  }
  // Each free page is on one list.
  static void Check() {
    ThreadHeaps::CheckForTesting();
    alloc::PageSpaceOf(Space::kScanned).CheckForTesting();
    size_t taken = 0;
    alloc::ForEachPage(Space::kScanned, [&](PageNumber, const alloc::PageInfo& info) {
      taken += info.state == alloc::PageState::kTaken ? 1 : 0;
    });
    EXPECT_EQ(Free(), taken);
  }

  ThreadHeap& heap(size_t thread) { return *heaps_[thread]; }
  size_t objects() const { return objects_; }
  size_t elsewhere() const { return elsewhere_; }
  size_t max_taken() const { return max_taken_; }
  void ForgetFigures() { objects_ = elsewhere_ = 0; }

 private:
  const size_t slack_;
  std::vector<ThreadHeap*> heaps_;
  std::vector<int> nodes_;
  size_t objects_ = 0;
  size_t elsewhere_ = 0;  // of these, objects on another node than their thread
  size_t max_live_ = 0;
  size_t max_taken_ = 0;
};

void TakeTurns(Nodes& nodes, size_t threads, size_t pages) {
  for (int round = 0; round < 3; ++round) {
    for (size_t t = 0; t < threads; ++t) {
      EXPECT_TRUE(nodes.FillPages(t, 0, pages));
      nodes.DropPages(0, pages);
      Collect();
      nodes.Sample();
      Nodes::Check();
    }
  }
}

TEST(NodePagesTest, ThreadsInTurnKeepToTheirNodesWhileTheBoundAllows) {
  for (const Policy policy : {Policy::kAllLocal, Policy::kLps}) {
    EXPECT_CHILD_OK([policy] {
      Nodes nodes({policy, 5, 8});  // two threads a node
      TakeTurns(nodes, 8, 100);
      EXPECT_EQ(nodes.elsewhere(), 0u);
    });
  }
  EXPECT_CHILD_OK([] {
    Nodes nodes({Policy::kLps, 1, 4});
    TakeTurns(nodes, 4, 100);
    EXPECT_GT(nodes.elsewhere(), nodes.objects() / 2);
    EXPECT_LE(nodes.max_taken(), 100 + 16 + 8 * 4u);
  });
}

// What a thread has left on a node when it went to another is for the threads there.
CHILD_TEST(NodePagesTest, FreePagesGoToTheListOfTheirNode) {
  Nodes nodes({Policy::kLps, 4, 4});
  EXPECT_TRUE(nodes.FillPages(1, 0, 200));
  nodes.Move(1, 2);
  EXPECT_TRUE(nodes.FillPages(1, 200 * kObjectsAPage, 4));
  nodes.DropPages(0, 200);
  Collect();
  Nodes::Check();
  EXPECT_LE(nodes.heap(1).free_pages(Space::kScanned), 8u);
  nodes.Start(1);  // thread 4
  const size_t taken = Taken();
  nodes.ForgetFigures();
  EXPECT_TRUE(nodes.FillPages(4, 0, 190));
  EXPECT_EQ(Taken(), taken);
  EXPECT_EQ(nodes.elsewhere(), 0u);
  EXPECT_EQ(nodes.heap(4).remote_pages, 0u);
}

// Large objects are given back to the page space. Threads find out on which node such pages are.
TEST(NodePagesTest, PagesFromTheSpaceAreSortedByTheirNodes) {
  for (const Policy policy : {Policy::kAllLocal, Policy::kLps}) {
    EXPECT_CHILD_OK([policy] {
      Nodes nodes({policy, 3, 4});
      for (int node = 0; node < kNodes; ++node) {
        g_current_node = node;
        void* large = testing::Allocate(Kind::kNormal, 64 * alloc::kPageBytes);
        memset(large, 1, 64 * alloc::kPageBytes);
        for (size_t at = 0; at < 64 * alloc::kPageBytes; at += platform::OsPageBytes()) {
          (void)testing::NodeOfOsPage(AddressOf(large) + at);
        }
        EXPECT_EQ(alloc::FreeObject(large), alloc::FreeResult::kFreed);
      }
      for (size_t thread = 0; thread < 4; ++thread) {
        EXPECT_TRUE(nodes.FillPages(thread, thread * 1000, 50));
      }
      Nodes::Check();
      // Under LPS a search passes over eight pages at most.
      const size_t few = policy == Policy::kAllLocal ? 0 : 16 * kObjectsAPage;
      EXPECT_LE(nodes.elsewhere(), few);
    });
  }
}

TEST(NodePagesTest, RandomLoads) {
  for (const Policy policy : {Policy::kLps, Policy::kAllLocal, Policy::kPageShared}) {
    for (const unsigned seed : {1u, 2u}) {
      EXPECT_CHILD_OK([policy, seed] {
        std::mt19937 random(seed);
        constexpr size_t kThreads = 6;
        constexpr size_t kRegions = 12;
        constexpr size_t kRegionObjects = 64 * kObjectsAPage;
        Nodes nodes({policy, 1 + 0.5 * static_cast<double>(random() % 4), kThreads});
        for (int step = 0; step < 60; ++step) {
          const size_t first = random() % kRegions * kRegionObjects;
          if (random() % 5 == 0) nodes.Move(random() % kThreads, static_cast<int>(random() % 4));
          nodes.Drop(first, kRegionObjects);
          EXPECT_TRUE(nodes.Fill(random() % kThreads, first, 1 + random() % kRegionObjects));
          if (random() % 3 == 0) Collect();
          if (random() % 4 == 0) {
            void* large = testing::Allocate(Kind::kNormal, (1 + random() % 40) * alloc::kPageBytes);
            memset(large, 1, alloc::kPageBytes);
            EXPECT_EQ(alloc::FreeObject(large), alloc::FreeResult::kFreed);
          }
          Nodes::Check();
        }
        nodes.Drop(0, g_roots.size());
      });
    }
  }
}

// Of each page that the ended thread 1 of node 1 has left, half is free.
void LeaveHalves(Nodes& nodes, size_t pages) {
  EXPECT_TRUE(nodes.FillPages(1, 0, pages));
  for (size_t first = 1 << 15; Free() != 0; ++first) EXPECT_TRUE(nodes.Fill(1, first, 1));
  for (size_t page = 0; page < pages; ++page) {
    nodes.Drop(page * kObjectsAPage, kObjectsAPage / 2);
  }
  nodes.End(1);
  Collect();
}

TEST(NodePagesTest, PartialPagesOfAnEndedThreadAreUsedElsewhereBeforeTheNeedGrows) {
  EXPECT_CHILD_OK([] {
    Nodes nodes({Policy::kLps, 1, 4});
    LeaveHalves(nodes, 200);
    EXPECT_EQ(Free(), 0u);  // which would be a reason by itself
    const size_t taken = Taken();
    EXPECT_TRUE(nodes.FillPages(0, 1 << 14, 80));
    EXPECT_LE(Taken(), taken + 16);
    Nodes::Check();
  });
  EXPECT_CHILD_OK([] {
    Nodes nodes({Policy::kLps, 2, 4});
    LeaveHalves(nodes, 200);
    nodes.ForgetFigures();
    EXPECT_TRUE(nodes.FillPages(0, 1 << 14, 80));
    EXPECT_EQ(nodes.elsewhere(), 0u);
  });
}

TEST(NodePagesTest, PartialPagesOfAnyNodeAreBetterThanFailure) {
  for (const Policy policy : {Policy::kAllLocal, Policy::kLps}) {
    EXPECT_CHILD_OK([policy] {
      Nodes nodes({policy, 4, 4, 16 * kMiB});
      LeaveHalves(nodes, 500);
      size_t objects = 0;
      while (nodes.Fill(0, (1 << 14) + objects, 1)) ++objects;
      EXPECT_GE(Taken(), 1000u) << "the heap is not full";
      // A slot of each page is kept by a pointer to the base of the next one.
      EXPECT_GE(objects + 500 * (kObjectsAPage / 2 + 1), (Taken() - 8) * kObjectsAPage);
    });
  }
}

CHILD_TEST(NodePagesTest, AHeapIsAdoptedOnItsNodeAndElsewhereIfThereIsNoOther) {
  Nodes nodes({Policy::kLps, 1, 4});
  ThreadHeap* left = &nodes.heap(1);
  nodes.End(1);
  g_current_node = 0;
  EXPECT_NE(ThreadHeaps::Acquire(), left);
  g_current_node = 1;
  EXPECT_EQ(ThreadHeaps::Acquire(), left);
  ThreadHeaps::Abandon(left);
  g_current_node = 0;
  const rlimit none = {1, 1};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  for (ThreadHeap* next = nullptr; next != left;) {
    next = ThreadHeaps::Acquire();
    ASSERT_NE(next, nullptr);
  }
}

}  // namespace
}  // namespace gleaner::gc
