#include "gc/mark/range_stack.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tests/support/refusals.h"

namespace gleaner::gc {
namespace {

PackedRange Range(uint64_t n) { return {(n + 1) * 16, 16 * (n % 1000 + 1)}; }

TEST(PackedRangeTest, HoldsEveryAddressAndLength) {
  for (const Addr begin :
       {Addr{0}, Addr{16}, Addr{0x7ffffffffff0}, Addr{0xfffffffffff0}, (Addr{1} << 48) - 16}) {
    for (const size_t bytes :
         {size_t{16}, size_t{32}, size_t{4096}, size_t{1} << 20, size_t{8} << 20,
          PackedRange::kMaxBytes - 16, PackedRange::kMaxBytes}) {
      const PackedRange range(begin, bytes);
      EXPECT_EQ(range.begin(), begin);
      EXPECT_EQ(range.bytes(), bytes);
      EXPECT_EQ(PackedRange::FromBits(range.bits()).begin(), begin);
      EXPECT_EQ(PackedRange::FromBits(range.bits()).bytes(), bytes);
    }
  }
  EXPECT_EQ(PackedRange::kMaxBytes, 16 * kMiB - 16);
}

// Against std::deque, with growth, moves to the front and rewinds on the way.
TEST(RangeStackTest, AgreesWithADeque) {
  std::mt19937_64 random(4);
  constexpr size_t kMax = 8000;
  RangeStack stack;
  ASSERT_TRUE(stack.Init(kMax));
  std::deque<uint64_t> model;
  uint64_t next = 0;
  size_t refused = 0;
  for (int i = 0; i < 400000; ++i) {
    const unsigned dice = static_cast<unsigned>(random() % 100);
    const unsigned push = (i / 50000) % 2 == 0 ? 60 : 40;
    if (dice < push) {
      if (stack.Push(Range(next))) {
        model.push_back(Range(next).bits());
      } else {
        // A stack is not a ring: what was taken at the bottom is used again only when that is
        // half of it, so half of the room can always be used.
        ASSERT_GE(stack.size(), kMax / 2);
        ++refused;
      }
      ++next;
    } else if (!model.empty()) {
      if (dice % 4 != 0) {
        ASSERT_EQ(stack.Pop().bits(), model.back());
        model.pop_back();
      } else {
        ASSERT_EQ(stack.TakeOldest().bits(), model.front());
        model.pop_front();
      }
    } else {
      stack.Rewind();
    }
    ASSERT_EQ(stack.size(), model.size());
    ASSERT_EQ(stack.empty(), model.empty());
  }
  EXPECT_GT(refused, 0u);
}

TEST(RangeStackTest, RefusesWhenFullAndKeepsWhatItHas) {
  constexpr size_t kMax = 5000;
  RangeStack stack;
  ASSERT_TRUE(stack.Init(kMax));
  for (uint64_t i = 0; i < kMax; ++i) ASSERT_TRUE(stack.Push(Range(i))) << i;
  EXPECT_FALSE(stack.Push(Range(kMax)));
  EXPECT_FALSE(stack.Push(Range(kMax)));
  EXPECT_EQ(stack.size(), kMax);
  // Less than half taken at the bottom: no room. Half: the rest moves down.
  for (uint64_t i = 0; i < kMax / 2 - 1; ++i) ASSERT_EQ(stack.TakeOldest().bits(), Range(i).bits());
  EXPECT_FALSE(stack.Push(Range(0)));
  ASSERT_EQ(stack.TakeOldest().bits(), Range(kMax / 2 - 1).bits());
  ASSERT_TRUE(stack.Push(Range(kMax)));
  for (uint64_t i = kMax; i >= kMax / 2; --i) ASSERT_EQ(stack.Pop().bits(), Range(i).bits());
  EXPECT_TRUE(stack.empty());
  stack.Rewind();
  for (uint64_t i = 0; i < kMax; ++i) ASSERT_TRUE(stack.Push(Range(i)));
}

TEST(RangeStackTest, RefusesWhenTheSystemHasNoMemory) {
  RangeStack stack;
  ASSERT_TRUE(stack.Init(1 << 20));
  size_t pushed = 0;
  for (; pushed < 100; ++pushed) ASSERT_TRUE(stack.Push(Range(pushed)));
  {
    const testing::MemoryRefused refused;
    while (pushed < (1 << 20) && stack.Push(Range(pushed))) ++pushed;
  }
  EXPECT_LT(pushed, size_t{1} << 20);
  ASSERT_TRUE(stack.Push(Range(pushed)));  // memory is back
  ++pushed;
  EXPECT_EQ(stack.size(), pushed);
  while (pushed-- > 0) ASSERT_EQ(stack.Pop().bits(), Range(pushed).bits());
}

TEST(RangeStackTest, RefusesWhatCannotBeReserved) {
  RangeStack stack;
  EXPECT_FALSE(stack.Init(size_t{1} << 58));
}

}  // namespace
}  // namespace gleaner::gc
