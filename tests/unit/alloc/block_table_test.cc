#include "alloc/arenas/block_table.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <vector>

#include "alloc/fits/tree_fit.h"

namespace gleaner::alloc {
namespace {

TEST(BlockTableTest, RandomHistoriesAgreeWithTheBlocks) {
  constexpr uint32_t kBlocks = 5000;
  std::printf("seed 1\n");
  std::mt19937_64 random(1);
  TreeFit space;
  BlockTable table;
  ASSERT_TRUE(space.Init(FitPolicy::kBinned, 2 * kBlocks));
  ASSERT_TRUE(space.Extend(1000, kBlocks * 4));
  ASSERT_TRUE(table.Init(kBlocks));
  std::vector<BlockId> live;
  for (int step = 0; step < 200000; ++step) {
    const uint64_t dice = random() % 10;
    if (dice < (step % 40000 < 20000 ? 6u : 4u)) {
      const BlockId block = space.Allocate(1 + random() % 7);
      if (block == TreeFit::kNone) continue;
      table.Insert(space, block);
      live.push_back(block);
    } else if (!live.empty()) {
      BlockId& block = live[random() % live.size()];
      ASSERT_EQ(table.Find(space, space.StartOf(block)), block);
      table.Remove(space, block);
      ASSERT_EQ(table.Find(space, space.StartOf(block)), BlockList::kNone);
      space.Free(block);
      block = live.back();
      live.pop_back();
    }
    if (step % 1000 == 0) {
      ASSERT_EQ(table.size(), live.size());
      for (BlockId block : live) ASSERT_EQ(table.Find(space, space.StartOf(block)), block);
    }
  }
  for (BlockId block : live) {
    if (space.CountOf(block) > 1) {
      EXPECT_EQ(table.Find(space, space.StartOf(block) + 1), BlockList::kNone);
    }
  }
  table.Destroy();
  space.Destroy();
}

}  // namespace
}  // namespace gleaner::alloc
