#include "gc/mark/sorted_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "tests/support/refusals.h"

namespace gleaner::gc {
namespace {

constexpr Addr kBase = Addr{1} << 40;
constexpr size_t kHeap = 64 * kMiB;

bool Never() { return false; }

PackedRange RandomRange(std::mt19937_64* random) {
  return {kBase + (*random)() % (kHeap / 16) * 16, 16 * ((*random)() % 64)};
}

TEST(SortedBatchTest, TheHeapDecidesHowManyRanges) {
  SortedBatch batch;
  batch.Init(kHeap, 2);
  batch.BeginCycle(kBase, 31 * kMiB, 0);
  EXPECT_EQ(batch.min(), SIZE_MAX) << "a heap that fits into a cache";
  for (const size_t heap : {32 * kMiB, kHeap}) {
    batch.BeginCycle(kBase, heap, 0);
    const size_t pages = heap / alloc::kPageBytes;
    EXPECT_EQ(batch.max(), pages * 32 / 2);
    EXPECT_EQ(batch.min(), pages * 8 / 2);
  }
  batch.BeginCycle(kBase, kHeap, 16);
  EXPECT_EQ(batch.min(), 16u);
  batch.BeginCycle(kBase, 4096, 16);
  EXPECT_EQ(batch.min(), SIZE_MAX) << "more than such a heap's batch may hold";
  batch.BeginCycle(kBase, 2 * kHeap, 0);
  EXPECT_EQ(batch.min(), SIZE_MAX) << "no room was reserved for such a heap";
  SortedBatch of_four, of_five;
  of_four.Init(kHeap, 4);
  of_four.BeginCycle(kBase, kHeap, 0);
  EXPECT_EQ(of_four.min(), kHeap / alloc::kPageBytes * 8 / 4);
  of_five.Init(kHeap, 5);
  of_five.BeginCycle(kBase, kHeap, 0);
  EXPECT_EQ(of_five.min(), SIZE_MAX) << "too thin";
}

// A batch holds the newest ranges of the stack, each once, and its regions ascend.
TEST(SortedBatchTest, TakesTheNewestInTheOrderOfRegions) {
  const unsigned seed = std::random_device()();
  printf("seed %u\n", seed);
  std::mt19937_64 random(seed);
  SortedBatch batch;
  batch.Init(kHeap, 1);
  batch.BeginCycle(kBase, kHeap, 1);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{5000}, batch.max(), batch.max() + 3000}) {
    RangeStack stack;
    ASSERT_TRUE(stack.Init(2 * batch.max()));
    std::vector<uint64_t> model;
    for (size_t i = 0; i < count; ++i) {
      // Some ranges are no part of the heap.
      const PackedRange range = i % 100 == 7 ? PackedRange(0x10000 * i, 32) : RandomRange(&random);
      ASSERT_TRUE(stack.Push(range));
      model.push_back(range.bits());
    }
    ASSERT_TRUE(batch.Fill(&stack, Never));
    const size_t taken = std::min(count, batch.max());
    ASSERT_EQ(batch.size(), taken);
    ASSERT_EQ(stack.size(), count - taken);
    std::vector<uint64_t> expected(model.end() - static_cast<ptrdiff_t>(taken), model.end());
    std::vector<uint64_t> got;
    // From both ends, as the owner and thieves do.
    std::vector<uint64_t> from_end;
    for (; !batch.empty(); got.push_back(batch.Take().bits())) {
      if (batch.size() > 1 && random() % 4 == 0) from_end.push_back(batch.TakeLast().bits());
    }
    got.insert(got.end(), from_end.rbegin(), from_end.rend());
    const auto region = [](uint64_t bits) {
      const Addr offset = PackedRange::FromBits(bits).begin() - kBase;
      return std::min<Addr>(offset / (kHeap / 1024 * 2), 511);  // 512 of twice 64 KiB
    };
    for (size_t i = 1; i < got.size(); ++i) ASSERT_LE(region(got[i - 1]), region(got[i])) << i;
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected);
    for (size_t i = count - taken; i-- != 0;) ASSERT_EQ(stack.Pop().bits(), model[i]);
  }
}

// Whenever the answer is yes, the stack keeps all, and a later batch is whole.
TEST(SortedBatchTest, APauseTakesNothing) {  // some 800 places to pause at
  std::mt19937_64 random(5);
  SortedBatch batch;
  batch.Init(kHeap, 1);
  batch.BeginCycle(kBase, kHeap, 1);
  RangeStack stack;
  ASSERT_TRUE(stack.Init(100000));
  std::vector<uint64_t> model;
  for (int i = 0; i < 50000; ++i) {
    model.push_back(RandomRange(&random).bits());
    ASSERT_TRUE(stack.Push(PackedRange::FromBits(model.back())));
  }
  int asked = 0;
  for (int pause_at = 1;; ++pause_at) {
    asked = 0;
    if (batch.Fill(&stack, [&]() { return ++asked == pause_at; })) break;
    EXPECT_TRUE(batch.empty());
    ASSERT_EQ(stack.size(), model.size());
    ASSERT_TRUE(std::equal(model.begin(), model.end(), stack.newest(model.size()),
                           [](uint64_t a, PackedRange b) { return a == b.bits(); }));
  }
  EXPECT_GE(asked, 2 * 50000 / 128) << "asked too seldom";
  EXPECT_EQ(batch.size(), model.size());
  batch.Clear();
  EXPECT_TRUE(batch.empty());
}

TEST(SortedBatchTest, WithoutMemoryTheStackKeepsAll) {
  constexpr size_t kLarge = kGiB;
  SortedBatch batch;
  batch.Init(kLarge, 1);
  batch.BeginCycle(kBase, kLarge, 1);
  ASSERT_EQ(batch.min(), 1u);
  RangeStack stack;
  ASSERT_TRUE(stack.Init(1 << 20));
  std::mt19937_64 random(6);
  for (int i = 0; i < 1 << 20; ++i) ASSERT_TRUE(stack.Push(RandomRange(&random)));
  {
    const testing::MemoryRefused refused;
    EXPECT_FALSE(batch.Fill(&stack, Never));
  }
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.min(), SIZE_MAX);
  EXPECT_EQ(stack.size(), size_t{1} << 20);
  batch.BeginCycle(kBase, kLarge, 1);  // the next cycle tries again
  EXPECT_TRUE(batch.Fill(&stack, Never));
}

}  // namespace
}  // namespace gleaner::gc
