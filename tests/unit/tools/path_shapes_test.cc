#include "tools/heap/path_shapes.h"

#include "tests/unit/tools/random_graph.h"

namespace gleaner::tools {
namespace {

using PathShapesTest = RandomGraphTest;

// The groups of all objects, with roots by kind.
std::vector<PathShapes::Group> GroupsOf(const HeapGraph& graph) {
  RootPaths paths(graph);
  paths.Search();
  PathShapes shapes(graph, paths, [&](const RootReference& reference) {
    return std::to_string(static_cast<int>(graph.roots()[reference.root].kind));
  });
  graph.ForEachObject(
      [&](ObjectId object, uint64_t bytes, uint32_t) { shapes.Add(object, bytes); });
  EXPECT_EQ(shapes.objects(), graph.size());
  EXPECT_EQ(shapes.bytes(), graph.total_bytes());
  return shapes.Largest(100);
}

TEST_F(PathShapesTest, AListIsOneGroupAndSoIsATree) {
  constexpr ObjectId kCount = 100000;
  for (const ObjectId children : {1u, 2u}) {
    GraphModel model(kCount);
    for (ObjectId i = 1; i < kCount; ++i) model.Refer((i - 1) / children, i);
    model.Root(SnapshotRoot::kStatic, 0);
    HeapGraph graph;
    model.Build(&graph);
    const auto groups = GroupsOf(graph);
    ASSERT_EQ(groups.size(), 1u);
    EXPECT_EQ(groups[0].objects, kCount);
    EXPECT_EQ(groups[0].bytes, kCount * GraphModel::kBytes);
    EXPECT_EQ(groups[0].example, 0u);
  }
}

// A list whose links are objects of one to three other sizes.
TEST_F(PathShapesTest, RowsThatAreRepeatedAreFewGroups) {
  for (const ObjectId period : {2u, 3u, 4u}) {
    constexpr ObjectId kRounds = 1000;
    const std::vector<uint8_t> live(kRounds / 8 + 1, 0xff);
    HeapGraph graph;
    const auto address = [](ObjectId kind, ObjectId i) {
      return 0x100000 * uint64_t{kind + 1} + uint64_t{16} * (kind + 1) * i;
    };
    for (ObjectId kind = 0; kind < period; ++kind) {
      ASSERT_TRUE(graph.AddObjects(address(kind, 0), 16 * (kind + 1), kind, live.data(), kRounds));
    }
    graph.FinishObjects();
    for (ObjectId kind = 0; kind < period; ++kind) {
      for (ObjectId i = 0; i < kRounds; ++i) {
        const bool is_last = kind == period - 1;
        if (is_last && i == kRounds - 1) continue;
        const uint64_t target = is_last ? address(0, i + 1) : address(kind + 1, i);
        ASSERT_TRUE(graph.AddReference(kind * kRounds + i, i % 2 * 8, target));
      }
    }
    const uint32_t root = graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 0, 0, ""});
    ASSERT_TRUE(graph.AddRootReference(root, 0, address(0, 0)));
    graph.FinishReferences();
    // The words lie at two offsets, and what is repeated is known when it comes the second time.
    EXPECT_LE(GroupsOf(graph).size(), 4 * period) << period;
  }
}

TEST_F(PathShapesTest, RootsAndWordsTellGroupsApart) {
  // Object i refers to a large one in its word i % 2; the large ones are all there is to see.
  HeapGraph graph;
  const std::vector<uint8_t> live(10, 0xff);
  ASSERT_TRUE(graph.AddObjects(0x1000, 16, 0, live.data(), 80));
  ASSERT_TRUE(graph.AddObjects(0x10000, 64, 1, live.data(), 80));
  graph.FinishObjects();
  for (ObjectId i = 0; i < 60; ++i) {
    ASSERT_TRUE(graph.AddReference(i, i % 2 * 8, 0x10000 + i * 64));
  }
  const uint32_t by_static = graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 0, 0, ""});
  const uint32_t by_stack = graph.AddRoot({SnapshotRoot::kStack, 0, 0, 0, ""});
  for (ObjectId i = 0; i < 80; ++i) {
    ASSERT_TRUE(graph.AddRootReference(i < 40 ? by_static : by_stack, i, 0x1000 + i * 16));
  }
  graph.FinishReferences();
  const auto groups = GroupsOf(graph);
  std::vector<std::pair<uint64_t, uint64_t>> sizes;
  for (const auto& group : groups) sizes.emplace_back(group.objects, group.bytes);
  // 20 + 20 by static words, 10 + 10 by the stack's, 20 that nothing reaches, 40 and 40 small ones.
  EXPECT_EQ(sizes,
            (std::vector<std::pair<uint64_t, uint64_t>>{
                {20, 1280}, {20, 1280}, {20, 1280}, {40, 640}, {40, 640}, {10, 640}, {10, 640}}));
}

}  // namespace
}  // namespace gleaner::tools
