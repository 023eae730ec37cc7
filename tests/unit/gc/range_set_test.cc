// RangeSet (gc/mark/roots.h) against a naive bitmap, and RootTasks.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gc/mark/roots.h"
#include "tests/support/child.h"
#include "tests/support/refusals.h"

namespace gleaner::gc {
namespace {

using platform::Range;

constexpr size_t kUnits = 200;

class Pair {
 public:
  void Add(Addr begin, Addr end) {
    ASSERT_TRUE(set_.Add({begin, end}));
    Fill(begin, end, true);
  }
  void Remove(Addr begin, Addr end) {
    ASSERT_TRUE(set_.Remove({begin, end}));
    Fill(begin, end, false);
  }
  void Compare() const {
    Addr last_end = 0;
    std::vector<bool> covered(kUnits, false);
    for (size_t i = 0; i < set_.size(); ++i) {
      const Range range = set_.at(i);
      ASSERT_LT(range.begin, range.end);
      if (i > 0) {
        ASSERT_GT(range.begin, last_end) << "ranges touch";
      }
      last_end = range.end;
      for (Addr a = range.begin; a < range.end; ++a) covered[a] = true;
    }
    ASSERT_EQ(covered, bits_);
    for (Addr a = 0; a < kUnits; ++a) {
      ASSERT_EQ(set_.Contains(a), bits_[a]) << a;
      Range found;
      ASSERT_EQ(set_.Find(a, &found), bits_[a]) << a;
      ASSERT_TRUE(!bits_[a] || found.Contains(a)) << a;
    }
  }
  void CompareGaps(Addr begin, Addr end) const {
    std::vector<bool> gaps(kUnits, false);
    Addr last_end = 0;
    bool overlaps = false;
    set_.ForEachGap({begin, end}, [&](Range gap) {
      ASSERT_LT(gap.begin, gap.end);
      ASSERT_GE(gap.begin, begin);
      ASSERT_LE(gap.end, end);
      ASSERT_GE(gap.begin, last_end);
      last_end = gap.end;
      for (Addr a = gap.begin; a < gap.end; ++a) gaps[a] = true;
    });
    for (Addr a = 0; a < kUnits; ++a) {
      const bool inside = a >= begin && a < end;
      ASSERT_EQ(gaps[a], inside && !bits_[a]) << a << " of " << begin << "-" << end;
      overlaps = overlaps || (inside && bits_[a]);
    }
    ASSERT_EQ(set_.Overlaps({begin, end}), overlaps);
  }
  void Clear() {
    set_.Clear();
    bits_.assign(kUnits, false);
  }

 private:
  void Fill(Addr begin, Addr end, bool value) {
    for (Addr a = begin; a < end; ++a) bits_[a] = value;
  }
  RangeSet set_;
  std::vector<bool> bits_ = std::vector<bool>(kUnits, false);
};

TEST(RangeSetTest, AgreesWithABitmap) {
  std::mt19937 random(5);
  Pair pair;
  for (int i = 0; i < 3000; ++i) {
    const Addr begin = random() % kUnits;
    const Addr end = begin + random() % (random() % 8 == 0 ? kUnits - begin + 1 : 12);
    const Addr bounded = end < kUnits ? end : kUnits;
    const unsigned dice = random() % 10;
    if (dice < 5) {
      pair.Add(begin, bounded);
    } else if (dice < 9) {
      pair.Remove(begin, bounded);
    } else if (random() % 50 == 0) {
      pair.Clear();
    }
    pair.Compare();
    if (begin < bounded) pair.CompareGaps(begin, bounded);
    pair.CompareGaps(0, kUnits);
    if (HasFatalFailure()) return;
  }
}

TEST(RangeSetTest, EmptyAndBackwardRangesChangeNothing) {
  RangeSet set;
  EXPECT_TRUE(set.Remove({5, 9}));
  EXPECT_TRUE(set.Add({7, 7}));
  EXPECT_TRUE(set.Add({9, 7}));
  EXPECT_EQ(set.size(), 0u);
  ASSERT_TRUE(set.Add({1, 9}));
  EXPECT_TRUE(set.Remove({5, 5}));
  EXPECT_EQ(set.size(), 1u);
}

// A refusal is over at some time. What was added, or cut, meanwhile is there, before and
// afterwards.
CHILD_TEST(RangeSetTest, TheFirstRangesNeedNoMemory) {
  RangeSet set;
  size_t count = 0;
  {
    const testing::MemoryRefused refused;
    while (count < 100 && set.Add({100 * (count + 1), 100 * (count + 1) + 50})) ++count;
    ASSERT_GE(count, 20u);
    ASSERT_LT(count, 100u);
    EXPECT_FALSE(set.Remove({110, 120}));  // two ranges of one
    EXPECT_TRUE(set.Contains(110));
    EXPECT_TRUE(set.Remove({200, 250}));
    EXPECT_TRUE(set.Remove({110, 120}));
  }
  for (; count < 100; ++count) {
    ASSERT_TRUE(set.Add({100 * (count + 1), 100 * (count + 1) + 50}));
  }
  EXPECT_EQ(set.size(), 100u);
  for (size_t i = 0; i < 100; ++i) {
    const Addr begin = 100 * (i + 1);
    EXPECT_EQ(set.Contains(begin + 49), i != 1) << i;
    EXPECT_EQ(set.Contains(begin + 15), i > 1) << i;
    EXPECT_FALSE(set.Contains(begin + 50)) << i;
  }
}

TEST(RootTasksTest, CutsRangesIntoTasksAndEachIsClaimedOnce) {
  RootTasks roots;
  ASSERT_TRUE(roots.Init());
  roots.Clear();
  roots.Add(RootKind::kData, 0x1003, 0x1003 + 300 * kKiB);  // rounded inwards to words
  roots.Add(RootKind::kStack, 0x900000, 0x900008);
  roots.Add(RootKind::kData, 0x900009, 0x90000f);  // no word in it
  Addr expected = 0x1008;
  for (size_t i = 0; i + 1 < roots.size(); ++i) {
    EXPECT_EQ(roots.at(i).kind, RootKind::kData);
    EXPECT_EQ(roots.at(i).range.begin, expected);
    EXPECT_LE(roots.at(i).range.bytes(), 64 * kKiB);
    expected = roots.at(i).range.end;
  }
  EXPECT_EQ(expected, 0x1000u + 300 * kKiB);
  EXPECT_EQ(roots.at(roots.size() - 1).kind, RootKind::kStack);
  std::vector<bool> claimed(roots.size(), false);
  for (size_t i = 0; i < roots.size(); ++i) {
    const size_t task = roots.Claim();
    ASSERT_LT(task, roots.size());
    EXPECT_FALSE(claimed[task]);
    claimed[task] = true;
  }
  EXPECT_EQ(roots.Claim(), roots.size());
  EXPECT_EQ(roots.Claim(), roots.size());
}

}  // namespace
}  // namespace gleaner::gc
