#include "tools/heap/root_paths.h"

#include <algorithm>

#include "tests/unit/tools/random_graph.h"

namespace gleaner::tools {
namespace {

using RootPathsTest = RandomGraphTest;

int RoundOf(SnapshotRoot kind) {
  if (kind == SnapshotRoot::kStack || kind == SnapshotRoot::kRegisters) return 1;
  return kind == SnapshotRoot::kFinalizer || kind == SnapshotRoot::kOther ? 2 : 0;
}

// What the search is to find, said in another way: the objects of a round are those that none
// before reaches, and a path's cost is its length, then whether it has an interior word.
struct Found {
  int round = 3;
  uint32_t cost = 0;  // 2 * length, and 1 with an interior word
};

std::vector<Found> Expected(const GraphModel& model) {
  std::vector<Found> found(model.words.size());
  for (int round = 0; round < 3; ++round) {
    // Relaxed until nothing changes.
    const auto relax = [&](ObjectId object, uint32_t cost) {
      if (found[object].round < round) return false;
      if (found[object].round == round && found[object].cost <= cost) return false;
      found[object] = {round, cost};
      return true;
    };
    for (const auto& root : model.roots) {
      if (RoundOf(root.kind) == round) relax(root.target, root.is_interior ? 3 : 2);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (ObjectId source = 0; source < model.words.size(); ++source) {
        if (found[source].round != round) continue;
        for (const GraphWord& word : model.words[source]) {
          const uint32_t cost = (found[source].cost + 2) | (word.is_interior ? 1u : 0u);
          changed = relax(word.target, cost) || changed;
        }
      }
    }
  }
  return found;
}

// That the path is one of the graph's, and leads to `object`.
void Check(const GraphModel& model, const RootPath& path, ObjectId object) {
  ASSERT_FALSE(path.steps.empty());
  EXPECT_EQ(path.steps.back().object, object);
  const auto& root = model.roots[path.root_reference];
  EXPECT_EQ(root.target, path.steps[0].object);
  EXPECT_EQ(root.is_interior, path.steps[0].is_interior);
  for (size_t i = 1; i < path.steps.size(); ++i) {
    const auto& words = model.words[path.steps[i - 1].object];
    ASSERT_LT(path.steps[i].offset / 8, words.size());
    const GraphWord& word = words[path.steps[i].offset / 8];
    EXPECT_EQ(word.target, path.steps[i].object);
    EXPECT_EQ(word.is_interior, path.steps[i].is_interior);
  }
}

TEST_F(RootPathsTest, PathsAreShortestAndSureWhereTheyCanBe) {
  for (int i = 0; i < 2000; ++i) {
    const GraphModel model = RandomGraph(40);
    HeapGraph graph;
    model.Build(&graph);
    RootPaths paths(graph);
    paths.Search();
    const std::vector<Found> expected = Expected(model);
    for (ObjectId object = 0; object < model.words.size(); ++object) {
      ASSERT_EQ(paths.IsReached(object), expected[object].round < 3) << i << " " << object;
      if (!paths.IsReached(object)) {
        EXPECT_TRUE(paths.PathTo(object).steps.empty());
        EXPECT_EQ(paths.Before(object), kNoObject);
        continue;
      }
      const RootPath path = paths.PathTo(object);
      Check(model, path, object);
      const auto length = static_cast<uint32_t>(path.steps.size());
      const bool has_interior = std::any_of(path.steps.begin(), path.steps.end(),
                                            [](const PathStep& step) { return step.is_interior; });
      EXPECT_EQ(2 * length + (has_interior ? 1 : 0), expected[object].cost) << i << " " << object;
      EXPECT_EQ(RoundOf(model.roots[path.root_reference].kind), expected[object].round);
    }
    // The search for one object ends early, with the same answer.
    const ObjectId one = Random(static_cast<uint32_t>(model.words.size()));
    const RootPath all = paths.PathTo(one);
    paths.Search(one);
    const RootPath alone = paths.PathTo(one);
    EXPECT_EQ(all.steps.size(), alone.steps.size());
    EXPECT_EQ(all.root_reference, alone.root_reference);
  }
}

TEST_F(RootPathsTest, SurePathsUseNoWordThatMayBeNoPointer) {
  for (int i = 0; i < 500; ++i) {
    const GraphModel model = RandomGraph(40);
    GraphModel sure(model.words.size());
    for (ObjectId source = 0; source < model.words.size(); ++source) {
      for (const GraphWord& word : model.words[source]) {
        if (!word.is_interior) sure.Refer(source, word.target);
      }
    }
    for (const auto& root : model.roots) {
      if (!root.is_interior && RoundOf(root.kind) != 1) sure.Root(root.kind, root.target);
    }
    HeapGraph graph;
    model.Build(&graph);
    RootPaths paths(graph);
    paths.Search(kNoObject, true);
    const std::vector<Found> expected = Expected(sure);
    for (ObjectId object = 0; object < model.words.size(); ++object) {
      ASSERT_EQ(paths.IsReached(object), expected[object].round < 3) << i << " " << object;
      if (!paths.IsReached(object)) continue;
      const RootPath path = paths.PathTo(object);
      Check(model, path, object);
      EXPECT_EQ(2 * path.steps.size(), expected[object].cost);
    }
  }
}

TEST_F(RootPathsTest, StaticDataIsNamedBeforeOthersAndStacksAfterThem) {
  GraphModel model(3);
  model.Refer(0, 1);
  model.Refer(1, 2);
  model.Root(SnapshotRoot::kFinalizer, 2);
  model.Root(SnapshotRoot::kStack, 2);
  model.Root(SnapshotRoot::kUncollectable, 0);
  model.Root(SnapshotRoot::kRegistered, 0);
  model.Root(SnapshotRoot::kStatic, 0);
  HeapGraph graph;
  model.Build(&graph);
  RootPaths paths(graph);
  std::vector<uint32_t> roots;
  for (int i = 0; i < 6; ++i) {
    paths.Search(2);
    const RootPath path = paths.PathTo(2);
    if (path.steps.empty()) break;
    Check(model, path, 2);
    roots.push_back(path.root_reference);
    paths.Exclude(path);
  }
  // The words between the objects are in the first path, and so in no other.
  EXPECT_EQ(roots, (std::vector<uint32_t>{4, 1, 0}));
}

TEST_F(RootPathsTest, DeepListsAndRings) {
  constexpr ObjectId kCount = 1000000;
  GraphModel model(kCount);
  for (ObjectId i = 0; i < kCount; ++i) {
    model.Refer(i, (i + 1) % kCount);
    model.Refer(i, i);
  }
  model.Root(SnapshotRoot::kStatic, 0);
  HeapGraph graph;
  model.Build(&graph);
  RootPaths paths(graph);
  paths.Search(kCount - 1);
  EXPECT_EQ(paths.PathTo(kCount - 1).steps.size(), kCount);
}

TEST_F(RootPathsTest, EmptyGraph) {
  HeapGraph graph;
  graph.FinishObjects();
  graph.FinishReferences();
  RootPaths paths(graph);
  paths.Search();
}

}  // namespace
}  // namespace gleaner::tools
