// Back references of random graphs against distances found by a search of the test's own.
#include "gc/inspect/back_references.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/fake_world.h"

namespace gleaner::gc {
namespace {

using alloc::Kind;
using namespace testing;

constexpr int kFar = 1 << 30;
constexpr size_t kLinks = 3;

BackReferences g_references;
bool g_recorded = false;

void Start() {
  testing::StartHeap();
  testing::StartCollector();
  testing::g_inspect = [](const Marker& marker, const RootTasks& roots, const MarkConfig& config) {
    g_recorded = g_references.RecordWorldStopped(marker, roots, config);
  };
}

struct Node {
  void** object;
  Kind kind;
  size_t link[kLinks];  // index of a node
  int distance = kFar;  // from the roots, in references
};

bool IsInRoots(Addr word) {
  return word >= AddressOf(g_roots.data()) &&
         word < AddressOf(g_roots.data()) + g_roots.size() * sizeof(void*);
}

// A graph of objects of all sizes, large ones included, with kLinks words that refer to others.
// Words in pointer-free objects do not count.
std::vector<Node> MakeGraph(std::mt19937& random, size_t count) {
  std::vector<Node> nodes(count);
  for (Node& node : nodes) {
    node.kind = random() % 8 == 0 ? Kind::kAtomic : Kind::kNormal;
    const size_t bytes = random() % 50 == 0 ? 40000 : 32 + random() % 500;
    node.object = static_cast<void**>(Allocate(node.kind, bytes));
  }
  for (Node& node : nodes) {
    for (size_t i = 0; i < kLinks; ++i) {
      node.link[i] = random() % count;
      node.object[i] = nodes[node.link[i]].object;
    }
    // A sparse graph: most links are cut.
    for (size_t i = 1; i < kLinks; ++i) {
      if (random() % 3 == 0) continue;
      node.object[i] = nullptr;
      node.link[i] = count;
    }
  }
  return nodes;
}

void FindDistances(std::vector<Node>& nodes, const std::vector<size_t>& roots) {
  std::vector<size_t> queue = roots;
  for (const size_t root : roots) nodes[root].distance = 0;
  for (size_t head = 0; head < queue.size(); ++head) {
    const Node& node = nodes[queue[head]];
    if (node.kind == Kind::kAtomic) continue;
    for (const size_t next : node.link) {
      if (next == nodes.size() || nodes[next].distance != kFar) continue;
      nodes[next].distance = node.distance + 1;
      queue.push_back(next);
    }
  }
}

CHILD_TEST(BackReferencesTest, LeadOnAShortestWayToARoot) {
  Start();
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    std::vector<Node> nodes = MakeGraph(random, 5000);
    std::vector<size_t> roots;
    g_roots.clear();
    for (int i = 0; i < 5; ++i) {
      roots.push_back(random() % nodes.size());
      // Inside, so that the object in front does not count as one that ends here.
      g_roots.push_back(nodes[roots.back()].object + 1);
    }
    FindDistances(nodes, roots);
    Collect();
    ASSERT_TRUE(g_recorded);
    size_t reachable = 0;
    for (const Node& node : nodes) {
      const auto* reference = g_references.Find(AddressOf(node.object));
      if (node.distance == kFar) {
        EXPECT_EQ(reference, nullptr);
        continue;
      }
      ++reachable;
      ASSERT_NE(reference, nullptr);
      if (node.distance == 0) {
        EXPECT_EQ(reference->from, BackReferences::From::kRoot);
        EXPECT_TRUE(IsInRoots(reference->word));
        EXPECT_EQ(*PointerAt<Addr>(reference->word), AddressOf(node.object + 1));
        continue;
      }
      EXPECT_EQ(reference->from, BackReferences::From::kHeap);
      EXPECT_EQ(*PointerAt<Addr>(reference->word), AddressOf(node.object));
      alloc::ObjectRef holder;
      ASSERT_TRUE(alloc::FindObject(reference->word, &holder));
      bool nearer = false;
      for (const Node& other : nodes) {
        nearer = nearer ||
                 (AddressOf(other.object) == holder.base && other.distance == node.distance - 1);
      }
      EXPECT_TRUE(nearer) << "distance " << node.distance;
    }
    EXPECT_GT(reachable, 5u);
  }
}

CHILD_TEST(BackReferencesTest, WhatAFinalizerKeepsIsKeptForIt) {
  Start();
  g_roots.clear();
  auto** object = static_cast<void**>(Allocate(Kind::kNormal, 64));
  void* held = Allocate(Kind::kNormal, 64);
  object[0] = held;
  {
    platform::LockGuard guard(g_collector.lock());
    Finalizer old;
    ASSERT_TRUE(g_collector.registered().finalizers.Register(
        AddressOf(object), {[](void*, void*) {}, nullptr, FinalizeOrder::kNormal}, &old));
  }
  Collect();
  ASSERT_TRUE(g_recorded);
  for (void* p : {static_cast<void*>(object), held}) {
    const auto* reference = g_references.Find(AddressOf(p));
    ASSERT_NE(reference, nullptr);
    EXPECT_EQ(reference->from, BackReferences::From::kFinalizer);
  }
}

CHILD_TEST(BackReferencesTest, RegisteredDisplacementsAloneCountWithoutInteriorPointers) {
  Start();
  testing::g_tunables.mark.all_interior_pointers = false;
  g_valid_displacement[16] = 1;
  auto** holder = static_cast<void**>(Allocate(Kind::kNormal, 64));
  auto** at_16 = static_cast<void**>(Allocate(Kind::kNormal, 64));
  auto** at_24 = static_cast<void**>(Allocate(Kind::kNormal, 64));
  holder[0] = at_16 + 2;
  holder[1] = at_24 + 3;
  g_roots.assign(1, holder);
  Collect();
  ASSERT_TRUE(g_recorded);
  ASSERT_NE(g_references.Find(AddressOf(at_16)), nullptr);
  EXPECT_EQ(g_references.Find(AddressOf(at_16))->word, AddressOf(holder));
  EXPECT_EQ(g_references.Find(AddressOf(at_24)), nullptr);
}

}  // namespace
}  // namespace gleaner::gc
