#include "tools/dominators.h"

#include <algorithm>

#include "tests/unit/tools/random_graph.h"

namespace gleaner::tools {
namespace {

using DominatorsTest = RandomGraphTest;

// The objects that are reached without the object `but` and without the roots of the group
// `but_group`.
std::vector<bool> ReachedWithout(const GraphModel& model, const std::vector<uint32_t>& group_of,
                                 ObjectId but, uint32_t but_group) {
  std::vector<bool> reached(model.words.size());
  std::vector<ObjectId> open;
  const auto visit = [&](ObjectId object) {
    if (object == but || reached[object]) return;
    reached[object] = true;
    open.push_back(object);
  };
  for (size_t i = 0; i < model.roots.size(); ++i) {
    if (group_of[i] != but_group) visit(model.roots[i].target);
  }
  while (!open.empty()) {
    const ObjectId object = open.back();
    open.pop_back();
    for (const GraphWord& word : model.words[object]) visit(word.target);
  }
  return reached;
}

uint32_t CountOf(const std::vector<bool>& objects) {
  return static_cast<uint32_t>(std::count(objects.begin(), objects.end(), true));
}

TEST_F(DominatorsTest, RetainedIsWhatGoesWithout) {
  for (int i = 0; i < 3000; ++i) {
    const GraphModel model = RandomGraph(40);
    const uint32_t groups = 1 + Random(3);
    std::vector<uint32_t> group_of;
    for (size_t k = 0; k < model.roots.size(); ++k) group_of.push_back(Random(groups));
    HeapGraph graph;
    model.Build(&graph);
    const Dominators dominators(&graph, group_of, groups);
    const std::vector<bool> all = ReachedWithout(model, group_of, kNoObject, kNoObject);
    const uint32_t count = CountOf(all);
    EXPECT_EQ(dominators.ReachedObjects(), count);
    EXPECT_EQ(dominators.ReachedBytes(), count * GraphModel::kBytes);
    for (uint32_t group = 0; group < groups; ++group) {
      const uint32_t left = CountOf(ReachedWithout(model, group_of, kNoObject, group));
      EXPECT_EQ(dominators.GroupRetainedObjects(group), count - left) << i << " group " << group;
      EXPECT_EQ(dominators.GroupRetainedBytes(group), (count - left) * GraphModel::kBytes);
    }
    for (ObjectId object = 0; object < model.words.size(); ++object) {
      ASSERT_EQ(dominators.IsReached(object), all[object]);
      const uint32_t left = CountOf(ReachedWithout(model, group_of, object, kNoObject));
      EXPECT_EQ(dominators.RetainedObjects(object), count - left) << i << " " << object;
      EXPECT_EQ(dominators.RetainedBytes(object), (count - left) * GraphModel::kBytes);
    }
  }
}

TEST_F(DominatorsTest, DeepListsAndRings) {
  constexpr ObjectId kCount = 1000000;
  for (const bool back : {false, true}) {
    GraphModel model(kCount);
    for (ObjectId i = 0; i < kCount; ++i) {
      if (back) model.Refer(i, (i + kCount - 1) % kCount);
      model.Refer(i, i);
      if (back || i + 1 < kCount) model.Refer(i, (i + 1) % kCount);
    }
    model.Root(SnapshotRoot::kStatic, 0);
    HeapGraph graph;
    model.Build(&graph);
    const Dominators dominators(&graph, {0}, 1);
    EXPECT_EQ(dominators.GroupRetainedObjects(0), kCount);
    EXPECT_EQ(dominators.RetainedObjects(0), kCount);
    EXPECT_EQ(dominators.RetainedObjects(kCount / 4), back ? 1 : kCount - kCount / 4);
    EXPECT_FALSE(dominators.IsMostOfItsDominator(0));
    EXPECT_EQ(dominators.GroupAbove(0), 0u);
    EXPECT_EQ(dominators.GroupAbove(1), kNoObject);
    EXPECT_EQ(dominators.IsMostOfItsDominator(1), !back);
  }
}

TEST_F(DominatorsTest, WithoutRoots) {
  GraphModel model(3);
  model.Refer(0, 1);
  HeapGraph graph;
  model.Build(&graph);
  const Dominators dominators(&graph, {}, 0);
  EXPECT_EQ(dominators.ReachedBytes(), 0u);
  EXPECT_FALSE(dominators.IsReached(1));
  EXPECT_EQ(dominators.RetainedBytes(1), 0u);
}

}  // namespace
}  // namespace gleaner::tools
