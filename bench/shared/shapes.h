// The five structures whose marking is timed, the same for every memory they are put into:
// mark_shapes builds them with GC_malloc, mark_floor in mapped memory that no collector knows.
//
//   tree    balanced binary tree, allocated in preorder
//   list    singly linked, allocated in order
//   graph   every object has kDegree edges to objects drawn at random, the first is the root
//   arrays  a directory of arrays, each of kArrayLength pointers to leaves drawn at random
//   huge    one array of pointers to leaves drawn at random
// Leaves are small objects without pointers, at most kMaxLeaves of them.
//
// An allocator is any type with `void* Allocate(size_t bytes)` that returns zeroed memory.
#ifndef GLEANER_BENCH_SHAPES_H_
#define GLEANER_BENCH_SHAPES_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_util.h"

namespace bench {

// In the order of the words of --shape.
enum class ShapeKind { kGraph, kTree, kList, kArrays, kHuge };
inline const std::vector<std::string> kShapeWords = {"graph", "tree", "list", "arrays", "huge"};

inline constexpr uint64_t kDegree = 4;
inline constexpr uint64_t kArrayLength = 512;
inline constexpr uint64_t kMaxLeaves = 65'536;

struct TreeNode {
  TreeNode* left;
  TreeNode* right;
  uint64_t id;
};

struct ListNode {
  ListNode* next;
  uint64_t id;
  uint64_t data;
};

struct GraphNode {
  GraphNode* edges[kDegree];
  uint64_t id;
};

struct Leaf {
  uint64_t id;
  uint64_t data[2];
};

struct LeafArray {
  Leaf* items[kArrayLength];
};

// Of a kind of shape: the objects of the full size (arrays for kArrays, elements for kHuge), and
// the size of those that are most numerous, or for kHuge lie behind its array.
struct ShapeSize {
  uint64_t objects;
  size_t object_bytes;
};
inline constexpr ShapeSize kShapeSizes[] = {
    {4'000'000, sizeof(GraphNode)},               // 160 MB of payload
    {(UINT64_C(1) << 23) - 1, sizeof(TreeNode)},  // 268 MB in cells of 32 bytes
    {UINT64_C(1) << 22, sizeof(ListNode)},        // 134 MB in cells of 32 bytes
    {65'536, sizeof(LeafArray)},                  // 268 MB
    {UINT64_C(1) << 25, sizeof(Leaf)},            // 268 MB
};
inline const ShapeSize& SizeOf(ShapeKind kind) { return kShapeSizes[static_cast<int>(kind)]; }

// What mark_shapes and mark_floor are asked for.
struct ShapeOptions {
  int choice = 0;
  uint64_t objects = 0, repeats = 0;
  double scale = 1;

  ShapeKind kind() const { return static_cast<ShapeKind>(choice); }

  void Parse(Options* options, int argc, char** argv) {
    options->Choice("shape", &choice, kShapeWords, "the structure");
    options->Number("objects", &objects, 0, 2'000, 0, UINT64_C(1) << 34,
                    "its objects (huge: elements); 0 is the full size");
    options->Real("scale", &scale, 1, 1e-6, 1e3, "multiplies the objects");
    options->Number("repeats", &repeats, 7, 3, 1, 1'000'000, "collections or traversals timed");
    options->Parse(argc, argv);
    if (objects == 0) objects = SizeOf(kind()).objects;
    objects = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(objects) * scale));
  }

  // The shape, and the times of collections or traversals.
  void AddTo(ResultLine* result, const std::vector<double>& milliseconds) const {
    result->Text("shape", kShapeWords[static_cast<size_t>(choice)]);
    result->Count("objects", objects);
    result->Real("collect_ms_median", Median(milliseconds));
    result->Real("collect_ms_min", *std::min_element(milliseconds.begin(), milliseconds.end()));
    result->Real("collect_ms_max", *std::max_element(milliseconds.begin(), milliseconds.end()));
  }
};

// The number of leaves that `elements` pointers lead to.
inline uint64_t LeavesOf(uint64_t elements) {
  return std::clamp<uint64_t>(elements / 64, 1, kMaxLeaves);
}

// A table of all objects while a shape is built and checked. It is mapped memory, which a
// conservative collector does not scan, so it keeps nothing alive.
template <typename T>
class Index {
 public:
  explicit Index(uint64_t count) : bytes_(count * sizeof(T*)) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Fail("cannot map %zu bytes for an index", bytes_);
    items_ = static_cast<T**>(memory);
  }
  ~Index() { munmap(items_, bytes_); }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  T*& operator[](uint64_t i) { return items_[i]; }

 private:
  size_t bytes_;
  T** items_;
};

// A shape and what identifies its objects. root is the only way in.
struct Shape {
  ShapeKind kind;
  uint64_t objects;
  void* root;
};

namespace shapes_internal {

template <typename Allocator>
TreeNode* BuildTree(Allocator& allocator, uint64_t first_id, uint64_t count) {
  if (count == 0) return nullptr;
  auto* node = static_cast<TreeNode*>(allocator.Allocate(sizeof(TreeNode)));
  const uint64_t left = count / 2;
  node->id = first_id;
  node->left = BuildTree(allocator, first_id + 1, left);
  node->right = BuildTree(allocator, first_id + 1 + left, count - 1 - left);
  return node;
}

template <typename Allocator>
ListNode* BuildList(Allocator& allocator, uint64_t count) {
  ListNode* head = nullptr;
  ListNode** tail = &head;
  for (uint64_t id = 0; id < count; ++id) {
    auto* node = static_cast<ListNode*>(allocator.Allocate(sizeof(ListNode)));
    node->id = id;
    *tail = node;
    tail = &node->next;
  }
  return head;
}

template <typename Allocator>
GraphNode* BuildGraph(Allocator& allocator, uint64_t count) {
  Index<GraphNode> index(count);
  for (uint64_t id = 0; id < count; ++id) {
    index[id] = static_cast<GraphNode*>(allocator.Allocate(sizeof(GraphNode)));
    index[id]->id = id;
  }
  Rng rng(4);
  for (uint64_t id = 0; id < count; ++id) {
    for (GraphNode*& edge : index[id]->edges) edge = index[rng.Below(count)];
  }
  return index[0];
}

// The leaf that element `e` leads to: every leaf once, then at random.
inline uint64_t LeafOf(uint64_t e, uint64_t leaves, Rng* rng) {
  return e < leaves ? e : rng->Below(leaves);
}

template <typename Allocator>
void BuildLeaves(Allocator& allocator, uint64_t count, Index<Leaf>* index) {
  for (uint64_t id = 0; id < count; ++id) {
    (*index)[id] = static_cast<Leaf*>(allocator.Allocate(sizeof(Leaf)));
    (*index)[id]->id = id;
  }
}

template <typename Allocator>
LeafArray** BuildArrays(Allocator& allocator, uint64_t count) {
  auto** directory = static_cast<LeafArray**>(allocator.Allocate(count * sizeof(LeafArray*)));
  const uint64_t leaves = LeavesOf(count * kArrayLength);
  Index<Leaf> index(leaves);
  BuildLeaves(allocator, leaves, &index);
  Rng rng(5);
  for (uint64_t i = 0; i < count; ++i) {
    directory[i] = static_cast<LeafArray*>(allocator.Allocate(sizeof(LeafArray)));
    for (uint64_t k = 0; k < kArrayLength; ++k) {
      directory[i]->items[k] = index[LeafOf(i * kArrayLength + k, leaves, &rng)];
    }
  }
  return directory;
}

template <typename Allocator>
Leaf** BuildHuge(Allocator& allocator, uint64_t count) {
  auto** array = static_cast<Leaf**>(allocator.Allocate(count * sizeof(Leaf*)));
  const uint64_t leaves = LeavesOf(count);
  Index<Leaf> index(leaves);
  BuildLeaves(allocator, leaves, &index);
  Rng rng(6);
  for (uint64_t i = 0; i < count; ++i) array[i] = index[LeafOf(i, leaves, &rng)];
  return array;
}

// Adds one value to a checksum in which the order matters.
inline void Fold(uint64_t* checksum, uint64_t value) { *checksum = Mix64(*checksum ^ value) + 1; }

inline void CheckTree(const TreeNode* node, uint64_t first_id, uint64_t count, uint64_t* checksum) {
  if (count == 0) {
    if (node != nullptr) Fail("the tree has a node too many below %lu", first_id);
    return;
  }
  if (node == nullptr || node->id != first_id) Fail("node %lu of the tree is damaged", first_id);
  Fold(checksum, first_id);
  const uint64_t left = count / 2;
  CheckTree(node->left, first_id + 1, left, checksum);
  CheckTree(node->right, first_id + 1 + left, count - 1 - left, checksum);
}

inline void CheckList(const ListNode* node, uint64_t count, uint64_t* checksum) {
  for (uint64_t id = 0; id < count; ++id) {
    if (node == nullptr || node->id != id) Fail("node %lu of the list is damaged", id);
    Fold(checksum, id);
    node = node->next;
  }
  if (node != nullptr) Fail("the list does not end");
}

inline void CheckGraph(const GraphNode* root, uint64_t count, uint64_t* checksum) {
  std::vector<bool> seen(count);
  Index<const GraphNode> stack(count);
  uint64_t depth = 0;
  uint64_t reached = 0;
  const auto discover = [&](const GraphNode* node) {
    if (node->id >= count) Fail("a node of the graph is damaged");
    if (seen[node->id]) return;
    seen[node->id] = true;
    stack[depth++] = node;
  };
  discover(root);
  while (depth > 0) {
    const GraphNode* node = stack[--depth];
    ++reached;
    Fold(checksum, node->id);
    for (const GraphNode* edge : node->edges) discover(edge);
  }
  Fold(checksum, reached);
}

inline void CheckElement(const Leaf* leaf, uint64_t e, uint64_t leaves, Rng* rng,
                         uint64_t* checksum) {
  const uint64_t expected = LeafOf(e, leaves, rng);
  if (leaf == nullptr || leaf->id != expected) Fail("element %lu is damaged", e);
  *checksum += Mix64(expected ^ e);
}

inline void CheckArrays(LeafArray* const* directory, uint64_t count, uint64_t* checksum) {
  const uint64_t leaves = LeavesOf(count * kArrayLength);
  Rng rng(5);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t k = 0; k < kArrayLength; ++k) {
      CheckElement(directory[i]->items[k], i * kArrayLength + k, leaves, &rng, checksum);
    }
  }
}

inline void CheckHuge(Leaf* const* array, uint64_t count, uint64_t* checksum) {
  const uint64_t leaves = LeavesOf(count);
  Rng rng(6);
  for (uint64_t i = 0; i < count; ++i) CheckElement(array[i], i, leaves, &rng, checksum);
}

}  // namespace shapes_internal

template <typename Allocator>
__attribute__((noinline)) Shape BuildShape(Allocator& allocator, ShapeKind kind, uint64_t objects) {
  using namespace shapes_internal;
  switch (kind) {
    case ShapeKind::kGraph:
      return {kind, objects, BuildGraph(allocator, objects)};
    case ShapeKind::kTree:
      return {kind, objects, BuildTree(allocator, 0, objects)};
    case ShapeKind::kList:
      return {kind, objects, BuildList(allocator, objects)};
    case ShapeKind::kArrays:
      return {kind, objects, BuildArrays(allocator, objects)};
    case ShapeKind::kHuge:
      return {kind, objects, BuildHuge(allocator, objects)};
  }
  return {};
}

// Visits the whole structure and fails if anything differs from what was built. The checksum
// depends on the shape and the number of objects alone.
inline uint64_t CheckShape(const Shape& shape) {
  using namespace shapes_internal;
  uint64_t checksum = shape.objects;
  switch (shape.kind) {
    case ShapeKind::kGraph:
      CheckGraph(static_cast<GraphNode*>(shape.root), shape.objects, &checksum);
      break;
    case ShapeKind::kTree:
      CheckTree(static_cast<TreeNode*>(shape.root), 0, shape.objects, &checksum);
      break;
    case ShapeKind::kList:
      CheckList(static_cast<ListNode*>(shape.root), shape.objects, &checksum);
      break;
    case ShapeKind::kArrays:
      CheckArrays(static_cast<LeafArray**>(shape.root), shape.objects, &checksum);
      break;
    case ShapeKind::kHuge:
      CheckHuge(static_cast<Leaf**>(shape.root), shape.objects, &checksum);
      break;
  }
  return checksum;
}

}  // namespace bench

#endif  // GLEANER_BENCH_SHAPES_H_
