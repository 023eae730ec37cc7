// A graph that changes all the time, for tests of collections that see it change.
#pragma once

#include <random>
#include <set>
#include <vector>

#include "tests/support/cycle_steps.h"

namespace gleaner::testing {

// Sixteen to a page, so that most are not on the page in which the thread allocates.
struct Node {
  Node* references[4];
  uint64_t number;
  uint64_t filling[123];
};

inline Node* NewNode(uint64_t number) {
  auto* node = static_cast<Node*>(Allocate(alloc::Kind::kNormal, sizeof(Node)));
  EXPECT_NE(node, nullptr);
  node->number = number;
  return node;
}

inline const uint8_t* MarkOf(const void* p) {
  alloc::ObjectRef object;
  EXPECT_TRUE(alloc::FindSlot(AddressOf(p), &object));
  return object.mark();
}

// An object that nothing refers to, and that has no neighbour that is referred to.
inline void* Dead() { return Allocate(alloc::Kind::kAtomic, 512); }

// A graph that changes all the time, and what it should be: nodes by number, in memory that is not
// scanned, with the addresses complemented.
class Graph {
 public:
  explicit Graph(unsigned seed) : random_(seed) { g_roots.assign(kRoots, nullptr); }

  void Change() {
    const size_t dice = Below(10);
    if (dice < 3) {
      Put(Somewhere(), NewNode(next_number_++));
    } else if (dice < 5) {
      Put(Somewhere(), nullptr);
    } else if (dice < 9) {
      // Out of one place into another, which may have been scanned.
      Node** from = Somewhere();
      Node* node = *from;
      *from = nullptr;
      Put(Somewhere(), node);
    } else {
      // The old value is free to be used again at once.
      Node** place = Somewhere();
      if (Node* node = *place; node != nullptr && Count(node) == 1) {
        *place = nullptr;
        ASSERT_EQ(alloc::FreeObject(node), alloc::FreeResult::kFreed);
      }
    }
  }

  // All nodes that can be reached are there, with their numbers.
  size_t Check() {
    std::set<Node*> seen;
    std::vector<Node*> work;
    for (void* root : g_roots) work.push_back(static_cast<Node*>(root));
    while (!work.empty()) {
      Node* node = work.back();
      work.pop_back();
      if (node == nullptr || !seen.insert(node).second) continue;
      EXPECT_TRUE(IsAllocated(node));
      EXPECT_LT(node->number, next_number_);
      work.insert(work.end(), node->references, node->references + 4);
    }
    return seen.size();
  }

 private:
  static constexpr size_t kRoots = 64;

  size_t Below(size_t n) { return random_() % n; }
  // With the barrier, which roots outside of the heap do not need.
  static void Put(Node** place, Node* node) {
    *place = node;
    RecordStore(place);
  }
  Node** Somewhere() {
    auto** place = reinterpret_cast<Node**>(&g_roots[Below(kRoots)]);
    for (size_t steps = Below(12); steps != 0 && *place != nullptr; --steps) {
      place = &(*place)->references[Below(4)];
    }
    return place;
  }
  // Edges to the node, with its own references counted twice, so that it counts as shared then.
  size_t Count(Node* node) {
    size_t edges = 0;
    for (Node* reference : node->references) edges += reference != nullptr ? 2 : 0;
    std::set<Node*> seen;
    std::vector<Node*> work;
    const auto see = [&](Node* target) {
      edges += target == node ? 1 : 0;
      if (target != nullptr && seen.insert(target).second) work.push_back(target);
    };
    for (void* root : g_roots) see(static_cast<Node*>(root));
    while (!work.empty()) {
      Node* next = work.back();
      work.pop_back();
      for (Node* reference : next->references) see(reference);
    }
    return edges;
  }

  std::mt19937 random_;
  uint64_t next_number_ = 1;
};

}  // namespace gleaner::testing
