#include "tools/heap/heap_graph.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>

namespace gleaner::tools {
namespace {

class HeapGraphTest : public ::testing::Test {
 protected:
  HeapGraphTest() : seed_(std::random_device()()), random_(seed_) {
    RecordProperty("seed", std::to_string(seed_));
    printf("seed %u\n", seed_);
  }
  uint64_t Random(uint64_t below) { return random_() % below; }

  const unsigned seed_;
  std::mt19937_64 random_;
};

struct Plain {
  uint64_t bytes;
  uint32_t kind;
};

TEST_F(HeapGraphTest, ObjectsAreThoseThatWereAdded) {
  HeapGraph graph;
  std::map<uint64_t, Plain> model;
  uint64_t at = 0x7f0000000000;
  for (int i = 0; i < 300; ++i) {
    // Some lie far behind the others, so that the table of chunks has gaps.
    at += Random(10) == 0 ? Random(1 << 24) * 16 : Random(4) * 16;
    const uint64_t bytes = 16 * (1 + Random(Random(10) == 0 ? 100000 : 40));
    const size_t count = 1 + Random(i == 7 ? 200000 : 500);
    std::vector<uint8_t> live(count / 8 + 1);
    const uint64_t density = Random(5);
    for (size_t k = 0; k < count; ++k) {
      if (Random(4) >= density) continue;
      live[k / 8] = static_cast<uint8_t>(live[k / 8] | 1 << k % 8);
      model[at + k * bytes] = {bytes, static_cast<uint32_t>(i)};
    }
    ASSERT_TRUE(graph.AddObjects(at, bytes, static_cast<uint32_t>(i), live.data(), count));
    at += bytes * count;
  }
  graph.FinishObjects();
  graph.FinishReferences();
  ASSERT_EQ(graph.size(), model.size());
  ObjectId id = 0;
  uint64_t total = 0;
  for (const auto& [address, object] : model) {
    EXPECT_EQ(graph.AddressOf(id), address);
    EXPECT_EQ(graph.BytesOf(id), object.bytes);
    EXPECT_EQ(graph.KindOf(id), object.kind);
    const uint64_t inside = Random(object.bytes);
    bool is_interior = false;
    EXPECT_EQ(graph.Find(address + inside, &is_interior), id);
    EXPECT_EQ(is_interior, inside != 0);
    EXPECT_EQ(graph.FindBelow(address + inside), id);
    if (model.count(address + object.bytes) == 0) {
      EXPECT_EQ(graph.Find(address + object.bytes), kNoObject);
      EXPECT_EQ(graph.FindBelow(address + object.bytes), id);
    }
    total += object.bytes;
    ++id;
  }
  EXPECT_EQ(graph.total_bytes(), total);
  EXPECT_EQ(graph.Find(0), kNoObject);
  EXPECT_EQ(graph.Find(~uint64_t{0}), kNoObject);
  EXPECT_EQ(graph.FindBelow(0), kNoObject);
  EXPECT_EQ(graph.FindBelow(~uint64_t{0}), id - 1);
  size_t seen = 0;
  graph.ForEachObject([&](ObjectId object, uint64_t bytes, uint32_t kind) {
    EXPECT_EQ(object, seen++);
    EXPECT_EQ(bytes, graph.BytesOf(object));
    EXPECT_EQ(kind, graph.KindOf(object));
  });
  EXPECT_EQ(seen, model.size());
}

TEST_F(HeapGraphTest, ReferencesAreThoseThatWereAdded) {
  HeapGraph graph;
  constexpr size_t kCount = 1000;
  constexpr uint64_t kBegin = 0x10000;
  constexpr uint64_t kBytes = 1 << 16;
  const std::vector<uint8_t> live(kCount / 8, 0xff);
  ASSERT_TRUE(graph.AddObjects(kBegin, kBytes, 0, live.data(), kCount));
  graph.FinishObjects();
  struct Word {
    ObjectId target;
    bool is_interior;
    uint64_t offset;
    bool operator==(const Word&) const = default;
  };
  std::vector<std::vector<Word>> model(kCount);
  for (ObjectId source = 0; source < kCount; ++source) {
    uint64_t offset = 0;
    for (size_t left = Random(6); left > 0; --left) {
      offset += 8 * Random(Random(3) == 0 ? 1000 : 3);
      const uint64_t told = Random(50) == 0 ? Random(2) * kNoOffset : offset;
      const auto target = static_cast<ObjectId>(Random(kCount));
      const uint64_t inside = Random(2) * Random(kBytes);
      ASSERT_TRUE(graph.AddReference(source, told, kBegin + target * kBytes + inside));
      model[source].push_back({target, inside != 0, told});
    }
  }
  const uint32_t root = graph.AddRoot({SnapshotRoot::kStatic, kNoThread, 8, 16, "a.out"});
  EXPECT_TRUE(graph.AddRootReference(root, 8, kBegin + 3 * kBytes + 5));
  EXPECT_FALSE(graph.AddRootReference(root + 1, 8, kBegin));
  EXPECT_FALSE(graph.AddRootReference(root, 8, kBegin - 1));
  graph.FinishReferences();
  size_t count = 0;
  for (ObjectId source = 0; source < kCount; ++source) {
    std::vector<Word> words;
    graph.ForEachWord(source, [&](ObjectId target, bool is_interior, uint64_t offset) {
      words.push_back({target, is_interior, offset});
    });
    EXPECT_EQ(words, model[source]);
    size_t i = 0;
    graph.ForEachReference(source, [&](ObjectId target, bool is_interior) {
      EXPECT_EQ(target, words[i].target);
      EXPECT_EQ(is_interior, words[i++].is_interior);
    });
    count += words.size();
  }
  EXPECT_EQ(graph.reference_count(), count);
  ASSERT_EQ(graph.root_references().size(), 1u);
  EXPECT_EQ(graph.root_references()[0].target, 3u);
  EXPECT_TRUE(graph.root_references()[0].is_interior);
}

TEST_F(HeapGraphTest, WhatADamagedFileMaySayIsRefused) {
  HeapGraph graph;
  const uint8_t live = 0xff;
  EXPECT_FALSE(graph.AddObjects(0x1000, 0, 0, &live, 8));
  EXPECT_TRUE(graph.AddObjects(0x1000, 16, 0, &live, 8));
  EXPECT_FALSE(graph.AddObjects(0x1000, 16, 0, &live, 8));
  EXPECT_FALSE(graph.AddObjects(0x107f, 16, 0, &live, 8));
  EXPECT_FALSE(graph.AddObjects(0x2000, ~uint64_t{0}, 0, &live, 8));
  EXPECT_FALSE(graph.AddObjects(0x2000, 16, 0, &live, size_t{1} << 60));
  EXPECT_FALSE(graph.AddObjects(~uint64_t{0} - 8, 16, 0, &live, 8));
  EXPECT_TRUE(graph.AddObjects(0x1080, 16, 0, &live, 8));
  graph.FinishObjects();
  EXPECT_FALSE(graph.AddReference(16, 0, 0x1000));
  EXPECT_FALSE(graph.AddReference(0, 0, 0xfff));
  EXPECT_TRUE(graph.AddReference(2, 8, 0x1000));
  EXPECT_FALSE(graph.AddReference(1, 0, 0x1000));
  graph.SetVtable(1000, 0x4000);
  graph.FinishReferences();
  EXPECT_EQ(graph.reference_count(), 1u);
}

TEST_F(HeapGraphTest, TypesAreVtables) {
  HeapGraph graph;
  const uint8_t live = 0xff;
  ASSERT_TRUE(graph.AddObjects(0x1000, 16, 0, &live, 8));
  graph.FinishObjects();
  EXPECT_EQ(graph.TypeOf(3), 0u);
  graph.SetVtable(1, 0x4000);
  graph.SetVtable(3, 0x5000);
  graph.SetVtable(5, 0x4000);
  EXPECT_EQ(graph.TypeOf(0), 0u);
  EXPECT_EQ(graph.TypeOf(1), graph.TypeOf(5));
  EXPECT_EQ(graph.vtables()[graph.TypeOf(3)], 0x5000u);
}

TEST_F(HeapGraphTest, EmptyGraph) {
  HeapGraph graph;
  graph.FinishObjects();
  graph.FinishReferences();
  EXPECT_EQ(graph.size(), 0u);
  EXPECT_EQ(graph.Find(0x1000), kNoObject);
  EXPECT_EQ(graph.FindBelow(0x1000), kNoObject);
}

}  // namespace
}  // namespace gleaner::tools
