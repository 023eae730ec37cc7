#include "alloc/fits/index_set.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <random>
#include <set>

namespace gleaner::alloc {
namespace {

template <uint32_t kSize>
void CompareWithASet(uint64_t seed) {
  std::printf("size %u, seed %llu\n", kSize, static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  IndexSet<kSize> set;
  std::set<uint32_t> model;
  for (int step = 0; step < 20000; ++step) {
    // Mostly few members, so that all levels are gone through.
    const auto i = static_cast<uint32_t>(random() % kSize);
    if (random() % 3 == 0) {
      set.Insert(i);
      model.insert(i);
    } else {
      const auto member = model.lower_bound(i);
      const uint32_t out = member == model.end() ? i : *member;
      set.Erase(out);
      model.erase(out);
    }
    ASSERT_EQ(set.empty(), model.empty());
    ASSERT_EQ(set.Contains(i), model.contains(i));
    const auto at = static_cast<uint32_t>(random() % (kSize + 1));
    const auto next = model.lower_bound(at);
    ASSERT_EQ(set.Next(at), next == model.end() ? set.kNone : *next);
    ASSERT_EQ(set.Previous(at), next == model.begin() ? set.kNone : *std::prev(next));
  }
  set.Clear();
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.Next(0), set.kNone);
  EXPECT_EQ(set.Previous(kSize), set.kNone);
}

TEST(IndexSetTest, AgreesWithASet) {
  CompareWithASet<1>(1);
  CompareWithASet<64>(2);
  CompareWithASet<65>(3);
  CompareWithASet<4096>(4);
  CompareWithASet<4097>(5);
  CompareWithASet<12544>(6);
  CompareWithASet<262144>(7);
}

}  // namespace
}  // namespace gleaner::alloc
