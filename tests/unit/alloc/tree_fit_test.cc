#include "alloc/fits/tree_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/refusals.h"

namespace gleaner::alloc {
namespace {

constinit TreeFit g_constant_initialized;  // must need no constructor at run time

struct Range {
  uint64_t start, count;
  bool operator==(const Range&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Range& r) {
  return out << "[" << r.start << ", +" << r.count << ")";
}

class Space : public TreeFit {
 public:
  ~Space() { Destroy(); }
  Range RangeOf(BlockId block) const { return {StartOf(block), CountOf(block)}; }
  std::vector<Range> FreeList() const {
    std::vector<Range> list;
    ForEachFree([&](uint64_t start, uint64_t count) { list.push_back({start, count}); });
    return list;
  }
};

// What TreeFit promises, by linear search over a map.
class Model {
 public:
  Model(uint32_t max_blocks, uint64_t min_split) : max_blocks_(max_blocks), min_split_(min_split) {}

  struct Block {
    uint64_t count;
    bool free;
  };
  using Map = std::map<uint64_t, Block>;

  bool Extend(uint64_t start, uint64_t count) {
    auto last = blocks_.empty() ? blocks_.end() : std::prev(blocks_.end());
    if (last != blocks_.end() && last->second.free && End(last) == start) {
      last->second.count += count;
      return true;
    }
    if (!HasSpare()) return false;
    blocks_[start] = {count, true};
    return true;
  }

  // The place, or false.
  bool Allocate(uint64_t count, uint64_t alignment, Range* result) {
    auto found = Choose(count, alignment);
    if (found == blocks_.end()) return false;
    const uint64_t gap = AlignUp(found->first, alignment) - found->first;
    if (gap != 0) {
      auto right =
          blocks_.emplace(found->first + gap, Block{found->second.count - gap, true}).first;
      found->second.count = gap;
      found = right;
    }
    found->second.free = false;
    GiveBackRest(found, count);
    *result = {found->first, found->second.count};
    return true;
  }

  void Free(uint64_t start) {
    auto block = blocks_.find(start);
    block->second.free = true;
    if (block != blocks_.begin()) {
      auto left = std::prev(block);
      if (left->second.free && End(left) == start) {
        left->second.count += block->second.count;
        blocks_.erase(block);
        block = left;
      }
    }
    auto right = std::next(block);
    if (right != blocks_.end() && right->second.free && End(block) == right->first) {
      block->second.count += right->second.count;
      blocks_.erase(right);
    }
  }

  void Shrink(uint64_t start, uint64_t count) {
    auto block = blocks_.find(start);
    auto right = std::next(block);
    if (count < block->second.count && right != blocks_.end() && right->second.free &&
        right->first == End(block)) {
      const uint64_t end = End(right);
      blocks_.erase(right);
      block->second.count = count;
      blocks_[start + count] = {end - start - count, true};
    } else {
      GiveBackRest(block, count);
    }
  }

  bool TryGrow(uint64_t start, uint64_t count) {
    auto block = blocks_.find(start);
    if (count <= block->second.count) return true;
    auto right = std::next(block);
    if (right == blocks_.end() || !right->second.free || right->first != End(block)) return false;
    const uint64_t end = End(right);
    if (end - start < count) return false;
    blocks_.erase(right);
    block->second.count = end - start;
    GiveBackRest(block, count);
    return true;
  }

  uint64_t CountOf(uint64_t start) const { return blocks_.at(start).count; }
  uint64_t LargestFree() const {
    uint64_t largest = 0;
    for (auto& [start, block] : blocks_) {
      if (block.free) largest = std::max(largest, block.count);
    }
    return largest;
  }
  std::vector<Range> FreeList() const {
    std::vector<Range> list;
    for (auto& [start, block] : blocks_) {
      if (block.free) list.push_back({start, block.count});
    }
    return list;
  }
  size_t size() const { return blocks_.size(); }

 private:
  static uint64_t End(Map::const_iterator block) { return block->first + block->second.count; }
  bool HasSpare() const { return blocks_.size() < max_blocks_; }

  void GiveBackRest(Map::iterator block, uint64_t keep) {
    const uint64_t rest = block->second.count - keep;
    if (rest < min_split_ || !HasSpare()) return;
    block->second.count = keep;
    blocks_[block->first + keep] = {rest, true};
  }

  Map::iterator Choose(uint64_t count, uint64_t alignment) {
    std::map<std::pair<uint64_t, uint64_t>, Map::iterator> by_size;
    for (auto b = blocks_.begin(); b != blocks_.end(); ++b) {
      if (b->second.free && b->second.count >= count) by_size[{b->second.count, b->first}] = b;
    }
    const auto holds = [&](Map::iterator b) {
      const uint64_t start = AlignUp(b->first, alignment);
      return start + count <= End(b) && (start == b->first || HasSpare());
    };
    uint32_t probes = 0;
    for (auto& [key, b] : by_size) {
      if (probes++ == TreeFit::kAlignedProbes) break;
      if (holds(b)) return b;
    }
    const auto roomy = by_size.lower_bound({count + alignment - 1, 0});
    if (roomy != by_size.end() && holds(roomy->second)) return roomy->second;
    probes = 0;
    for (auto b = by_size.rbegin(); b != by_size.rend() && probes < TreeFit::kAlignedProbes;
         ++b, ++probes) {
      if (holds(b->second)) return b->second;
    }
    return blocks_.end();
  }

  Map blocks_;
  const uint32_t max_blocks_;
  const uint64_t min_split_;
};

struct Mix {
  const char* name;
  uint32_t max_blocks;
  uint64_t min_split;
  uint64_t max_count;
  int resident;  // blocks the run aims at
};

// The same random history on the model and on both policies.
void RunHistory(const Mix& mix, uint64_t seed, int operations) {
  SCOPED_TRACE(::testing::Message() << mix.name << " seed " << seed);
  std::printf("history %s, seed %llu\n", mix.name, static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  // Uniform in the logarithm half of the time, so that exact and wide bins are both used.
  const auto size = [&] {
    const uint64_t bound = below(2) == 0 ? mix.max_count : uint64_t{2} << below(24);
    return 1 + below(std::min(bound, mix.max_count));
  };

  Model model(mix.max_blocks, mix.min_split);
  Space binned, plain;
  ASSERT_TRUE(binned.Init(FitPolicy::kBinned, mix.max_blocks, mix.min_split));
  ASSERT_TRUE(plain.Init(FitPolicy::kPlainTree, mix.max_blocks, mix.min_split));
  std::vector<BlockId> live;
  uint64_t end = below(1000), total = 0;

  for (int step = 0; step < operations; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    const uint64_t dice = below(100);
    if (dice < 4) {
      const uint64_t start = end + (below(2) == 0 ? 0 : 1 + below(50));
      const uint64_t count = 1 + below(mix.max_count * 8);
      const bool expected = model.Extend(start, count);
      ASSERT_EQ(binned.Extend(start, count), expected);
      ASSERT_EQ(plain.Extend(start, count), expected);
      if (expected) {
        end = start + count;
        total += count;
      }
    } else if (dice < 16 && !live.empty()) {
      const BlockId block = live[below(live.size())];
      const Range before = binned.RangeOf(block);
      const uint64_t count = 1 + below(before.count);
      model.Shrink(before.start, count);
      binned.Shrink(block, count);
      plain.Shrink(block, count);
      ASSERT_EQ(binned.RangeOf(block), (Range{before.start, model.CountOf(before.start)}));
      ASSERT_EQ(plain.RangeOf(block), binned.RangeOf(block));
    } else if (dice < 28 && !live.empty()) {
      const BlockId block = live[below(live.size())];
      const Range before = binned.RangeOf(block);
      const uint64_t count = before.count + below(8) * below(before.count + 4);
      const bool expected = model.TryGrow(before.start, count);
      ASSERT_EQ(binned.TryGrow(block, count), expected);
      ASSERT_EQ(plain.TryGrow(block, count), expected);
      ASSERT_EQ(binned.RangeOf(block), (Range{before.start, model.CountOf(before.start)}));
      ASSERT_EQ(plain.RangeOf(block), binned.RangeOf(block));
    } else if (live.size() < below(static_cast<uint64_t>(mix.resident) * 2)) {
      const uint64_t count = size();
      const uint64_t alignment = below(3) == 0 ? uint64_t{1} << below(12) : 1;
      Range expected{};
      const bool found = model.Allocate(count, alignment, &expected);
      const BlockId block = binned.Allocate(count, alignment);
      ASSERT_EQ(block != TreeFit::kNone, found) << count << " aligned " << alignment;
      ASSERT_EQ(plain.Allocate(count, alignment), block);
      if (found) {
        ASSERT_EQ(binned.RangeOf(block), expected) << count << " aligned " << alignment;
        ASSERT_EQ(plain.RangeOf(block), expected);
        ASSERT_FALSE(binned.IsFree(block));
        ASSERT_EQ(expected.start % alignment, 0u);
        ASSERT_GE(expected.count, count);
        live.push_back(block);
      }
    } else if (!live.empty()) {
      const size_t i = below(live.size());
      model.Free(binned.StartOf(live[i]));
      binned.Free(live[i]);
      plain.Free(live[i]);
      live[i] = live.back();
      live.pop_back();
    }
    ASSERT_EQ(binned.total_units(), total);  // [inv.tree-fit-units]
    ASSERT_EQ(binned.free_units(), plain.free_units());
    ASSERT_EQ(binned.block_count(), model.size());
    ASSERT_LE(binned.block_count(), mix.max_blocks);
    if (step % 50 == 0) {
      ASSERT_EQ(binned.FreeList(), model.FreeList());
      ASSERT_EQ(plain.FreeList(), model.FreeList());
      ASSERT_EQ(binned.largest_free(), model.LargestFree());
      ASSERT_EQ(plain.largest_free(), model.LargestFree());
      binned.CheckForTesting();
      plain.CheckForTesting();
    }
  }
  for (BlockId block : live) {
    binned.Free(block);
    plain.Free(block);
  }
  binned.CheckForTesting();
  plain.CheckForTesting();
  EXPECT_EQ(binned.free_units(), total);
  EXPECT_EQ(plain.FreeList(), binned.FreeList());
}

constexpr Mix kMixes[] = {
    {"small sizes", 10000, 1, 40, 60},   {"wide sizes", 10000, 1, 100000, 100},
    {"min_split", 10000, 32, 2000, 100}, {"many blocks", 10000, 1, 600, 800},
    {"scarce metadata", 50, 1, 300, 40}, {"hardly any metadata", 5, 2, 50, 4},
};

TEST(TreeFitTest, RandomHistoriesAgreeWithTheModel) {
  for (const Mix& mix : kMixes) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      RunHistory(mix, seed, 4000);
      if (HasFatalFailure()) return;
    }
    RunHistory(mix, std::random_device{}(), 4000);
    if (HasFatalFailure()) return;
  }
}

class TreeFitPolicyTest : public ::testing::TestWithParam<FitPolicy> {
 protected:
  void Init(uint64_t units, uint64_t min_split = 1, uint32_t max_blocks = 1000) {
    ASSERT_TRUE(space_.Init(GetParam(), max_blocks, min_split));
    if (units != 0) {
      ASSERT_TRUE(space_.Extend(0, units));
    }
  }
  void TearDown() override { space_.CheckForTesting(); }

  // Splits all the space into blocks of these sizes.
  std::vector<BlockId> Fill(const std::vector<uint64_t>& counts) {
    std::vector<BlockId> blocks;
    blocks.reserve(counts.size());
    for (uint64_t count : counts) blocks.push_back(space_.Allocate(count));
    EXPECT_EQ(space_.free_units(), 0u);
    return blocks;
  }

  Space space_;
};

INSTANTIATE_TEST_SUITE_P(Policies, TreeFitPolicyTest,
                         ::testing::Values(FitPolicy::kBinned, FitPolicy::kPlainTree),
                         [](const auto& policy) {
                           return policy.param == FitPolicy::kBinned ? "Binned" : "PlainTree";
                         });

// A piece that is handed out whole for want of memory takes all the space there is.
TEST_P(TreeFitPolicyTest, ARefusalThatIsSoonOverChangesNothing) {
  EXPECT_CHILD_OK([this] {
    constexpr uint64_t kBlocks = 10'000;
    Init(kBlocks, 1, 100'000);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      BlockId block;
      if (i % 400 < 100) {
        const testing::MemoryRefused refused;
        block = space_.Allocate(1);
      } else {
        block = space_.Allocate(1);
      }
      ASSERT_NE(block, BlockList::kNone) << i;
      ASSERT_EQ(space_.CountOf(block), 1u) << i;
    }
  });
}

TEST_P(TreeFitPolicyTest, AlignmentTakesABetterFitThanTheOneThatAlwaysHolds) {
  Init(200);
  auto b = Fill({16, 1, 9, 15, 159});
  space_.Free(b[4]);  // [41, 200) is roomy
  space_.Free(b[2]);  // [17, 26) does not hold 8 units at a multiple of 16
  space_.Free(b[0]);  // [0, 16) does
  EXPECT_EQ(space_.RangeOf(space_.Allocate(8, 16)), (Range{0, 8}));
}

TEST_P(TreeFitPolicyTest, AlignmentFindsTheOnlyBlockThatHolds) {
  // Many blocks of 8 units at odd places, more than kAlignedProbes, and one at the very end of the
  // (size, start) order that holds 8 units aligned although it is not roomy.
  Init(0);
  uint64_t start = 1;
  for (uint32_t i = 0; i < TreeFit::kAlignedProbes * 3; ++i, start += 16) {
    ASSERT_TRUE(space_.Extend(start, 8));
  }
  EXPECT_EQ(space_.Allocate(8, 8), TreeFit::kNone);
  start = AlignUp(start, 8) + 8;
  ASSERT_TRUE(space_.Extend(start - 2, 10));
  EXPECT_EQ(space_.RangeOf(space_.Allocate(8, 8)), (Range{start, 8}));
  EXPECT_EQ(space_.Allocate(8, 8), TreeFit::kNone);
}

// The price of a bounded search: a block that would do, among many smaller and larger ones that do
// not, is passed by; one of count + alignment - 1 units never is.
TEST_P(TreeFitPolicyTest, AlignmentIsRefusedOnlyWithoutARoomyBlock) {
  constexpr uint32_t kOfEach = TreeFit::kAlignedProbes * 2;
  Init(0);
  uint64_t start = 1;
  for (uint32_t i = 0; i < kOfEach; ++i, start += 16) ASSERT_TRUE(space_.Extend(start, 8));
  ASSERT_TRUE(space_.Extend(start - 2, 9));
  start += 16;
  for (uint32_t i = 0; i < kOfEach; ++i, start += 16) ASSERT_TRUE(space_.Extend(start, 10));
  EXPECT_EQ(space_.Allocate(8, 8), TreeFit::kNone);
  ASSERT_TRUE(space_.Extend(start, 8 + 8 - 1));
  EXPECT_EQ(space_.RangeOf(space_.Allocate(8, 8)), (Range{start + 7, 8}));
}

TEST_P(TreeFitPolicyTest, HugeNumbers) {
  ASSERT_TRUE(space_.Init(GetParam(), 10));
  const uint64_t half = uint64_t{1} << 55;
  ASSERT_TRUE(space_.Extend(1, half - 1));
  ASSERT_TRUE(space_.Extend(half, TreeFit::kMaxUnits - half));
  EXPECT_EQ(space_.largest_free(), TreeFit::kMaxUnits - 1);
  EXPECT_EQ(space_.Allocate(TreeFit::kMaxUnits), TreeFit::kNone);
  EXPECT_EQ(space_.Allocate(UINT64_MAX), TreeFit::kNone);
  EXPECT_EQ(space_.Allocate(UINT64_MAX, uint64_t{1} << 63), TreeFit::kNone);
  EXPECT_EQ(space_.Allocate(1, uint64_t{1} << 63), TreeFit::kNone);
  const BlockId block = space_.Allocate(5, half);
  EXPECT_EQ(space_.RangeOf(block), (Range{half, 5}));
  space_.CheckForTesting();
  space_.Free(block);
  EXPECT_EQ(space_.RangeOf(space_.Allocate(TreeFit::kMaxUnits - 1)),
            (Range{1, TreeFit::kMaxUnits - 1}));
}

TEST_P(TreeFitPolicyTest, WithoutMetadataWholeBlocksAreHandedOut) {
  Init(100, 1, 2);
  const BlockId a = space_.Allocate(10);
  EXPECT_EQ(space_.RangeOf(a), (Range{0, 10}));
  const BlockId b = space_.Allocate(10);
  EXPECT_EQ(space_.RangeOf(b), (Range{10, 90}));
  EXPECT_FALSE(space_.Extend(100, 50));  // b is not free
  EXPECT_EQ(space_.total_units(), 100u);
  space_.Shrink(b, 10);
  EXPECT_EQ(space_.CountOf(b), 90u);
  space_.Free(b);
  EXPECT_TRUE(space_.Extend(100, 50));                 // joins
  EXPECT_EQ(space_.Allocate(10, 64), TreeFit::kNone);  // the gap would need a node
  space_.Shrink(a, 8);                                 // joins
  EXPECT_EQ(space_.FreeList(), (std::vector<Range>{{8, 142}}));
  EXPECT_EQ(space_.RangeOf(space_.Allocate(10, 8)), (Range{8, 142}));  // no gap
  space_.Free(a);
  EXPECT_EQ(space_.FreeList(), (std::vector<Range>{{0, 8}}));
}

TEST_P(TreeFitPolicyTest, DestroyMakesInitPossibleAgain) {
  Init(100);
  ASSERT_NE(space_.Allocate(30), TreeFit::kNone);
  space_.Destroy();
  EXPECT_EQ(space_.total_units(), 0u);
  EXPECT_TRUE(space_.FreeList().empty());
  Init(50);
  EXPECT_EQ(space_.FreeList(), (std::vector<Range>{{0, 50}}));
}

// 100,000 free blocks among as many allocated ones: no operation looks at more tree nodes than
// three descents of an AVL tree of that size allow, and an aligned one than the probes do.
TEST_P(TreeFitPolicyTest, AHundredThousandBlocksCostALogarithm) {
  constexpr uint32_t kBlocks = 100000;
  for (const bool same_size : {true, false}) {
    ASSERT_TRUE(space_.Init(GetParam(), 4 * kBlocks));
    ASSERT_TRUE(space_.Extend(0, uint64_t{kBlocks} * 1000));
    std::mt19937_64 random(7);
    const double limit = 3 * (1.4405 * std::log2(kBlocks + 2) + 2);
    uint64_t before = 0, worst = 0;
    const auto note = [&] {
      worst = std::max(worst, space_.TreeStepsForTesting() - before);
      before = space_.TreeStepsForTesting();
    };
    std::vector<BlockId> kept, freed;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      freed.push_back(space_.Allocate(same_size ? 3 : 1 + random() % 900));
      note();
      kept.push_back(space_.Allocate(1));
      note();
    }
    for (BlockId block : freed) {
      space_.Free(block);
      note();
    }
    ASSERT_GT(space_.block_count(), 2 * kBlocks);
    space_.CheckForTesting();
    for (int i = 0; i < 200000; ++i) {
      BlockId& block = kept[random() % kept.size()];
      space_.Free(block);
      note();
      block = space_.Allocate(1 + random() % (same_size ? 4 : 900));
      note();
      ASSERT_NE(block, TreeFit::kNone);
    }
    EXPECT_LE(static_cast<double>(worst), limit);
    worst = 0;
    for (int i = 0; i < 20000; ++i) {
      BlockId& block = kept[random() % kept.size()];
      space_.Free(block);
      note();
      const BlockId aligned = space_.Allocate(1 + random() % 900, uint64_t{1} << random() % 14);
      note();
      if (aligned != TreeFit::kNone) space_.Free(aligned);
      note();
      block = space_.Allocate(1);
      note();
      ASSERT_NE(block, TreeFit::kNone);
    }
    space_.CheckForTesting();
    EXPECT_LE(static_cast<double>(worst), limit / 3 * (2 * TreeFit::kAlignedProbes + 5));
    space_.Destroy();
  }
}

TEST(TreeFitTest, InitFailsWhenAddressSpaceIsRefused) {
  Space space;
  {
    const testing::Limit refused(RLIMIT_AS, 4096);
    EXPECT_FALSE(space.Init(FitPolicy::kBinned, 1u << 30));
  }
  EXPECT_TRUE(space.Init(FitPolicy::kBinned, 100));
}

TEST(TreeFitDeathTest, BadUseIsNamed) {
  // Messages go to the standard error that a program has started with.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Space space;
  ASSERT_TRUE(space.Init(FitPolicy::kBinned, 100));
  ASSERT_TRUE(space.Extend(0, 100));
  const BlockId a = space.Allocate(10);
  const BlockId b = space.Allocate(10);
  space.Free(a);
  EXPECT_DEATH(space.Free(a), "Free of .* not an allocated block");
  EXPECT_DEATH(space.Free(TreeFit::kNone), "Free of 0");
  EXPECT_DEATH(space.Free(5000), "Free of 5000");
  EXPECT_DEATH(space.Shrink(b, 11), "Shrink of 10 units to 11");
  EXPECT_DEATH(space.TryGrow(a, 11), "TryGrow of");
  EXPECT_DEATH(space.Allocate(0), "Allocate.0");
  EXPECT_DEATH(space.Allocate(1, 3), "alignment 3");
  EXPECT_DEATH((void)space.Extend(50, 1), "below the end 100");
  EXPECT_DEATH((void)space.Init(FitPolicy::kBinned, 100), "space in use");
}

TEST(TreeFitTest, IsConstantInitialized) { EXPECT_EQ(g_constant_initialized.total_units(), 0u); }

}  // namespace
}  // namespace gleaner::alloc
