#include "platform/nodes/node_set.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>

#include "platform/os/processor_set.h"

namespace gleaner::platform {
namespace {

constexpr NodeSet SetOfTwo(int one, int other) {
  NodeSet set;
  set.Add(one);
  set.Add(other);
  return set;
}
static_assert(SetOfTwo(0, 1023).Count() == 2 && SetOfTwo(3, 64).Next(3) == 64);
static_assert(sizeof(NodeSet) == 16 * sizeof(uint64_t));

// The set of the list, of which `rest` is what follows.
NodeSet Parsed(const char* text, const char* rest = "") {
  NodeSet set;
  const char* end = nullptr;
  EXPECT_TRUE(ParseNodes(text, &end, &set)) << text;
  EXPECT_STREQ(end, rest) << text;
  return set;
}

std::string Formatted(const NodeSet& set) {
  char text[6000] = "";
  const size_t length = set.Format(text, sizeof text);
  EXPECT_EQ(length, strlen(text));
  return text;
}

TEST(NodeSetTest, IsAMaskOfTheKernel) {
  NodeSet set = SetOfTwo(1, 65);
  EXPECT_EQ(set.words()[0], 2u);
  EXPECT_EQ(set.words()[1], 2u);
  EXPECT_TRUE(set.Has(65));
  set.Remove(65);
  EXPECT_FALSE(set.Has(65));
  EXPECT_EQ(set, SetOfTwo(1, 1));
  set.Unite(SetOfTwo(2, 700));
  EXPECT_EQ(set.Count(), 3);
  set.Subtract(SetOfTwo(2, 3));
  EXPECT_EQ(set, SetOfTwo(1, 700));
  set.Intersect(SetOfTwo(0, 2));
  EXPECT_TRUE(set.IsEmpty());
  EXPECT_EQ(set.First(), -1);
}

TEST(NodeSetTest, NumbersThatCannotBeInItAreNot) {
  NodeSet set;
  for (const int number : {-1, -1000, kMaxNodes, INT32_MAX}) {
    set.Add(number);
    set.Remove(number);
    EXPECT_FALSE(set.Has(number));
  }
  EXPECT_TRUE(set.IsEmpty());
}

TEST(NodeSetTest, AgreesWithASetOfNumbers) {
  const unsigned seed = std::random_device()();
  printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    NodeSet set;
    std::set<int> model;
    const int count = static_cast<int>(random() % 40);
    const int limit = round % 2 == 0 ? 70 : kMaxNodes;
    for (int i = 0; i < count; ++i) {
      const int number = static_cast<int>(random() % static_cast<unsigned>(limit));
      if (random() % 4 == 0) {
        set.Remove(number);
        model.erase(number);
      } else {
        set.Add(number);
        model.insert(number);
      }
    }
    std::set<int> found;
    for (int n = set.First(); n >= 0; n = set.Next(n)) found.insert(n);
    EXPECT_EQ(found, model);
    EXPECT_EQ(set.Count(), static_cast<int>(model.size()));
    EXPECT_EQ(Parsed(Formatted(set).c_str()), set);
  }
}

TEST(NodeSetTest, Lists) {
  EXPECT_EQ(Formatted(Parsed("0-3,5")), "0-3,5");
  EXPECT_EQ(Formatted(Parsed("5,0,1,2,3,2-3")), "0-3,5");
  EXPECT_EQ(Formatted(Parsed("7\n", "\n")), "7");
  EXPECT_EQ(Formatted(Parsed("0-1:rest", ":rest")), "0-1");
  EXPECT_EQ(Formatted(Parsed("1023,62-65")), "62-65,1023");
  EXPECT_EQ(Formatted(Parsed("")), "");
  EXPECT_EQ(Formatted(Parsed("all", "all")), "");
}

TEST(NodeSetTest, WrongListsLeaveTheSet) {
  for (const char* text : {"1,", "1-", "1,-2", "3-2", "1024", "0-1024", "99999999999999999999",
                           "1,,2", "1,x", "0-x"}) {
    NodeSet set = SetOfTwo(8, 9);
    const char* end = nullptr;
    EXPECT_FALSE(ParseNodes(text, &end, &set)) << text;
    EXPECT_EQ(set, SetOfTwo(8, 9)) << text;
  }
}

TEST(NodeSetTest, WhatDoesNotFitIsCutOff) {
  char text[6];
  EXPECT_EQ(Parsed("10-12,20").Format(text, sizeof text), 8u);
  EXPECT_STREQ(text, "10-12");
  EXPECT_EQ(Parsed("10-12,20,30").Format(text, 1), 11u);
  EXPECT_STREQ(text, "");
}

TEST(ProcessorSetTest, TheAffinityIsReadAndSet) {
  ProcessorSet before;
  ASSERT_TRUE(GetAffinity(0, &before));
  ASSERT_FALSE(before.IsEmpty());
  ProcessorSet one;
  one.Add(before.First());
  ASSERT_TRUE(SetAffinity(0, one));
  ProcessorSet now;
  ASSERT_TRUE(GetAffinity(0, &now));
  EXPECT_EQ(now, one);
  ASSERT_TRUE(SetAffinity(0, before));
  EXPECT_FALSE(SetAffinity(0, ProcessorSet()));
}

}  // namespace
}  // namespace gleaner::platform
