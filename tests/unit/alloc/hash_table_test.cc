#include "alloc/metadata/hash_table.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <random>
#include <unordered_map>
#include <vector>

#include "tests/support/refusals.h"

namespace gleaner::alloc {
namespace {

constinit HashTable<int> g_constant_initialized;  // must need no constructor at run time

struct Finalizer {
  Addr function, data;
  uint32_t order;
};

template <class Value>
class Table : public HashTable<Value> {
 public:
  ~Table() { this->Clear(); }
};

size_t CapacityOf(const HashTable<uint64_t>& table) { return table.MemoryBytes() / 16; }

TEST(HashTableTest, AnEmptyTableHoldsNoMemory) {
  Table<Finalizer> table;
  EXPECT_EQ(table.MemoryBytes(), 0u);
  EXPECT_EQ(table.Find(1), nullptr);
  EXPECT_FALSE(table.Erase(1));
  table.ForEach([](uint64_t, Finalizer&) { FAIL(); });
  table.EraseIf([](uint64_t, Finalizer&) { return true; });
  table.Clear();
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(g_constant_initialized.empty());
}

TEST(HashTableTest, InsertFindReplaceErase) {
  Table<Finalizer> table;
  Finalizer* placed = table.Insert(0x1000, {1, 2, 3});
  ASSERT_NE(placed, nullptr);
  EXPECT_EQ(placed, table.Find(0x1000));
  EXPECT_EQ(table.Insert(0x1000, {4, 5, 6}), placed);
  EXPECT_EQ(table.size(), 1u);
  const auto& constant = table;
  EXPECT_EQ(constant.Find(0x1000)->data, 5u);
  EXPECT_EQ(constant.Find(UINT64_MAX), nullptr);
  EXPECT_TRUE(table.Erase(0x1000));
  EXPECT_FALSE(table.Erase(0x1000));
  EXPECT_TRUE(table.empty());
  table.CheckForTesting();
}

TEST(HashTableTest, AValueOfTheTableItselfMayBeInserted) {
  Table<uint64_t> table;
  ASSERT_NE(table.Insert(1, 77), nullptr);
  for (uint64_t key = 2; key < 3000; ++key) {
    ASSERT_NE(table.Insert(key, *table.Find(key - 1)), nullptr);  // while the table moves
  }
  EXPECT_EQ(*table.Find(2999), 77u);
}

// Keys from a small set, so that insertions meet existing keys and erasures absent ones.
void RunHistory(uint64_t seed, const std::vector<uint64_t>& keys, int operations) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::printf("history of %zu keys, seed %llu\n", keys.size(),
              static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  Table<uint64_t> table;
  std::unordered_map<uint64_t, uint64_t> model;
  for (int step = 0; step < operations; ++step) {
    const uint64_t key = keys[random() % keys.size()];
    const uint64_t dice = random() % 1000;
    // Waves, so that the table is now nearly full of the keys, now nearly empty.
    const uint64_t inserts = step / 2000 % 2 == 0 ? 600 : 300;
    if (dice < inserts) {
      const uint64_t value = random();
      uint64_t* placed = table.Insert(key, value);
      ASSERT_NE(placed, nullptr);
      ASSERT_EQ(*placed, value);
      model[key] = value;
    } else if (dice < 990) {
      ASSERT_EQ(table.Erase(key), model.erase(key) == 1);
    } else {
      const uint64_t part = 1 + random() % 4;
      const auto chosen = [&](uint64_t k) { return Mix64(k + seed) % part == 0; };
      std::unordered_map<uint64_t, int> visits;
      table.EraseIf([&](uint64_t k, uint64_t& value) {
        ++visits[k];
        EXPECT_EQ(value, model.at(k));
        value += 1;
        return chosen(k);
      });
      ASSERT_EQ(visits.size(), model.size());
      for (auto& [k, count] : visits) ASSERT_EQ(count, 1);
      std::erase_if(model, [&](auto& entry) { return chosen(entry.first); });
      for (auto& entry : model) ++entry.second;
    }
    ASSERT_EQ(table.size(), model.size());
    if (step % 20 == 0) {
      table.CheckForTesting();
      for (uint64_t k : keys) {
        const uint64_t* found = table.Find(k);
        const auto expected = model.find(k);
        ASSERT_EQ(found != nullptr, expected != model.end());
        if (found != nullptr) {
          ASSERT_EQ(*found, expected->second);
        }
      }
    }
  }
  size_t seen = 0;
  table.ForEach([&](uint64_t k, uint64_t& value) {
    ++seen;
    EXPECT_EQ(value, model.at(k));
  });
  EXPECT_EQ(seen, model.size());
}

TEST(HashTableTest, RandomHistoriesAgreeWithTheModel) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 1; i <= 700; ++i) keys.push_back(i * 16);
  for (uint64_t seed = 1; seed <= 3; ++seed) RunHistory(seed, keys, 8000);
  RunHistory(std::random_device{}(), keys, 8000);
}

// All homes lie in the last four slots of the smallest table: one run of entries across its end.
TEST(HashTableTest, RandomHistoriesOfCollidingKeys) {
  Table<uint64_t> sample;
  ASSERT_NE(sample.Insert(1, 1), nullptr);
  const uint64_t mask = CapacityOf(sample) - 1;
  std::vector<uint64_t> keys;
  for (uint64_t key = 1; keys.size() < 60; ++key) {
    if ((Mix64(key) & mask) >= mask - 3) keys.push_back(key);
  }
  for (uint64_t seed = 1; seed <= 3; ++seed) RunHistory(seed, keys, 20000);
  RunHistory(std::random_device{}(), keys, 20000);
}

TEST(HashTableTest, MemoryFollowsTheLoadAndGoesBack) {
  Table<uint64_t> table;
  constexpr uint64_t kEntries = 100000;
  for (uint64_t key = 1; key <= kEntries; ++key) ASSERT_NE(table.Insert(key << 4, key), nullptr);
  table.CheckForTesting();
  EXPECT_LE(table.MemoryBytes(), kEntries * 16 * 8 / 3);
  const size_t bytes = table.MemoryBytes();
  for (uint64_t round = 0; round < 5; ++round) {  // tombstones would make it grow
    for (uint64_t key = 1; key <= kEntries; ++key) {
      ASSERT_TRUE(table.Erase((key + round * kEntries) << 4));
    }
    for (uint64_t key = 1; key <= kEntries; ++key) {
      ASSERT_NE(table.Insert((key + (round + 1) * kEntries) << 4, key), nullptr);
    }
  }
  EXPECT_EQ(table.MemoryBytes(), bytes);
  table.Clear();
  EXPECT_EQ(table.MemoryBytes(), 0u);
  EXPECT_EQ(table.size(), 0u);
  ASSERT_NE(table.Insert(1, 1), nullptr);
}

TEST(HashTableTest, RefusedMemoryChangesNothing) {
  Table<uint64_t> table;
  uint64_t* placed;
  {
    const gleaner::testing::Limit refused(RLIMIT_AS, 4096);
    placed = table.Insert(1, 1);
  }
  EXPECT_EQ(placed, nullptr);
  EXPECT_EQ(table.Find(1), nullptr);

  ASSERT_NE(table.Insert(1, 1), nullptr);
  const size_t bytes = table.MemoryBytes();
  const uint64_t room = CapacityOf(table) / 4 * 3;
  for (uint64_t key = 2; key <= room; ++key) ASSERT_NE(table.Insert(key, key), nullptr);
  ASSERT_EQ(table.MemoryBytes(), bytes);
  uint64_t* replaced;
  {
    const gleaner::testing::Limit refused(RLIMIT_AS, 4096);
    placed = table.Insert(room + 1, 0);
    replaced = table.Insert(room, 99);  // needs no memory
  }
  EXPECT_EQ(placed, nullptr);
  ASSERT_NE(replaced, nullptr);
  EXPECT_EQ(table.size(), room);
  EXPECT_EQ(table.MemoryBytes(), bytes);
  EXPECT_EQ(table.Find(room + 1), nullptr);
  for (uint64_t key = 1; key < room; ++key) EXPECT_EQ(*table.Find(key), key);
  table.CheckForTesting();
  ASSERT_NE(table.Insert(room + 1, 5), nullptr);
  EXPECT_EQ(table.size(), room + 1);
  EXPECT_GT(table.MemoryBytes(), bytes);
}

TEST(HashTableTest, LargeValues) {
  struct Big {
    uint64_t words[20];
  };
  Table<Big> table;
  for (uint64_t key = 1; key <= 300; ++key) {
    ASSERT_NE(table.Insert(key, Big{{key, 0, key}}), nullptr);
  }
  for (uint64_t key = 1; key <= 300; key += 2) ASSERT_TRUE(table.Erase(key));
  table.EraseIf([](uint64_t key, Big&) { return key % 4 == 0; });
  table.CheckForTesting();
  EXPECT_EQ(table.size(), 75u);
  table.ForEach([](uint64_t key, Big& big) { EXPECT_EQ(big.words[2], key); });
}

}  // namespace
}  // namespace gleaner::alloc
