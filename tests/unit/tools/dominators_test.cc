#include "tools/heap/dominators.h"

#include <algorithm>

#include "tests/unit/tools/random_graph.h"

namespace gleaner::tools {
namespace {

using DominatorsTest = RandomGraphTest;

struct Groups {
  std::vector<uint32_t> of;  // of each root
  std::vector<int> rounds;   // of each group
};

// Of each object the round in which it is reached without the object `but` and without the roots of
// the group `but_group`, where objects of `before` keep their rounds; or kNone.
constexpr int kNone = kSearchRounds;
std::vector<int> RoundsWithout(const GraphModel& model, const Groups& groups, ObjectId but,
                               uint32_t but_group, const std::vector<int>* before) {
  std::vector<int> reached(model.words.size(), kNone);
  for (int round = 0; round < kSearchRounds; ++round) {
    std::vector<ObjectId> open;
    const auto visit = [&](ObjectId object) {
      if (object == but || reached[object] != kNone) return;
      if (before != nullptr && (*before)[object] != round) return;
      reached[object] = round;
      open.push_back(object);
    };
    for (size_t i = 0; i < model.roots.size(); ++i) {
      const uint32_t group = groups.of[i];
      if (group != but_group && groups.rounds[group] == round) visit(model.roots[i].target);
    }
    while (!open.empty()) {
      const ObjectId object = open.back();
      open.pop_back();
      for (const GraphWord& word : model.words[object]) visit(word.target);
    }
  }
  return reached;
}

uint32_t CountOf(const std::vector<int>& rounds) {
  return static_cast<uint32_t>(rounds.size()) -
         static_cast<uint32_t>(std::count(rounds.begin(), rounds.end(), kNone));
}

TEST_F(DominatorsTest, RetainedIsWhatGoesWithout) {
  for (int i = 0; i < 3000; ++i) {
    const GraphModel model = RandomGraph(40);
    Groups groups;
    for (uint32_t left = 1 + Random(4); left > 0; --left) {
      groups.rounds.push_back(static_cast<int>(Random(kSearchRounds)));
    }
    const auto count_of_groups = static_cast<uint32_t>(groups.rounds.size());
    for (size_t k = 0; k < model.roots.size(); ++k) groups.of.push_back(Random(count_of_groups));
    HeapGraph graph;
    model.Build(&graph);
    const Dominators dominators(&graph, groups.of, groups.rounds);
    const std::vector<int> all = RoundsWithout(model, groups, kNoObject, kNoObject, nullptr);
    const uint32_t count = CountOf(all);
    EXPECT_EQ(dominators.ReachedObjects(), count);
    EXPECT_EQ(dominators.ReachedBytes(), count * GraphModel::kBytes);
    for (uint32_t group = 0; group < count_of_groups; ++group) {
      const uint32_t left = CountOf(RoundsWithout(model, groups, kNoObject, group, &all));
      EXPECT_EQ(dominators.GroupRetainedObjects(group), count - left) << i << " group " << group;
      EXPECT_EQ(dominators.GroupRetainedBytes(group), (count - left) * GraphModel::kBytes);
    }
    for (ObjectId object = 0; object < model.words.size(); ++object) {
      ASSERT_EQ(dominators.IsReached(object), all[object] != kNone);
      const uint32_t left = CountOf(RoundsWithout(model, groups, object, kNoObject, &all));
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
    const Dominators dominators(&graph, {0}, {0});
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
  const Dominators dominators(&graph, {}, {});
  EXPECT_EQ(dominators.ReachedBytes(), 0u);
  EXPECT_FALSE(dominators.IsReached(1));
  EXPECT_EQ(dominators.RetainedBytes(1), 0u);
}

}  // namespace
}  // namespace gleaner::tools
