#include "tools/path_shapes.h"

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
