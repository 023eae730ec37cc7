#include "alloc/arenas/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace gleaner::alloc {
namespace {

struct PoolSetup {
  const char* name;
  ArenaPolicy policy;
  size_t pool_bytes;
  size_t unit_bytes;
  size_t small_bytes;
  bool own_memory;
  size_t max_bytes;  // of a request
};

ArenaConfig ConfigOf(const PoolSetup& setup) {
  ArenaConfig config;
  config.policy = setup.policy;
  config.unit_bytes = setup.unit_bytes;
  config.small_bytes = setup.small_bytes;
  config.resident_bytes = 4 * kMiB;
  config.decay_ns = 0;
  return config;
}

// An arena, and the program's memory under it if that is where it lies.
class Pool {
 public:
  explicit Pool(const PoolSetup& setup) {
    if (setup.own_memory) {
      arena_ = Arena::Create(setup.pool_bytes, ConfigOf(setup));
    } else {
      memory_ = std::make_unique<char[]>(setup.pool_bytes + 16);
      // Misaligned, full of something, and with guards on both sides.
      memset(memory_.get(), 0xee, setup.pool_bytes + 16);
      arena_ =
          Arena::CreateOn(AddressOf(memory_.get()) + 8 + 3, setup.pool_bytes - 8, ConfigOf(setup));
    }
  }
  ~Pool() {
    if (arena_ != nullptr) arena_->Destroy();
  }
  Arena* operator->() { return arena_; }
  Arena* get() { return arena_; }

 private:
  std::unique_ptr<char[]> memory_;
  Arena* arena_ = nullptr;
};

// Where blocks of whole units lie, by linear search.
class Model {
 public:
  Model(const PoolSetup& setup, Addr begin, Addr end) : setup_(setup), begin_(begin), end_(end) {}

  size_t Rounded(size_t bytes) const {
    const size_t unit = setup_.unit_bytes;
    const size_t whole = bytes == 0 ? unit : AlignUp(bytes, unit);
    return setup_.policy == ArenaPolicy::kBuddy ? std::bit_ceil(whole) : whole;
  }

  // The free gaps by address.
  template <class F>
  void ForEachGap(F f) const {
    Addr at = begin_;
    for (auto& [start, block] : blocks_) {
      if (start > at) f(at, start - at);
      at = start + block.bytes;
    }
    if (end_ > at) f(at, end_ - at);
  }

  // Where an unaligned request must go, with a single tier; nothing for the buddy policy, which may
  // choose among equals.
  std::optional<Addr> Place(size_t bytes) const {
    Addr best = 0;
    size_t best_bytes = 0;
    ForEachGap([&](Addr start, size_t gap) {
      if (gap < bytes || (best != 0 && setup_.policy == ArenaPolicy::kFirstFit)) return;
      if (best == 0 || gap < best_bytes) {
        best = start;
        best_bytes = gap;
      }
    });
    return best != 0 ? std::optional(best) : std::nullopt;
  }
  // Whether some multiple of `bytes`, a power of two, begins that many free bytes.
  bool BuddyFits(size_t bytes) const {
    bool fits = false;
    ForEachGap([&](Addr start, size_t gap) {
      const Addr at = AlignUp(start, bytes);
      fits = fits || (at < start + gap && start + gap - at >= bytes);
    });
    return fits;
  }
  size_t LargestGap() const {
    size_t largest = 0;
    ForEachGap([&](Addr, size_t gap) { largest = gap > largest ? gap : largest; });
    return largest;
  }

  struct Block {
    size_t bytes;
    unsigned char pattern;
  };
  std::map<Addr, Block> blocks_;
  uint64_t used_bytes_ = 0;

 private:
  const PoolSetup& setup_;
  const Addr begin_, end_;
};

bool IsAll(const void* p, size_t bytes, unsigned char value) {
  auto* c = static_cast<const unsigned char*>(p);
  return bytes == 0 || (c[0] == value && memcmp(c, c + 1, bytes - 1) == 0);
}

void RunHistory(const PoolSetup& setup, uint64_t seed, int operations) {
  SCOPED_TRACE(::testing::Message() << setup.name << " seed " << seed);
  std::printf("history %s, seed %llu\n", setup.name, static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };

  Pool pool(setup);
  ASSERT_NE(pool.get(), nullptr);
  const bool one_tier = setup.small_bytes == 0;
  const size_t pool_bytes = pool->GetStats().pool_bytes;
  ASSERT_GE(pool_bytes + 2 * setup.unit_bytes, setup.pool_bytes - 8);
  const Addr begin = pool->begin();
  Model model(setup, begin, begin + pool_bytes);
  std::vector<Addr> live;
  const auto free_at = [&](size_t i) {
    const auto it = model.blocks_.find(live[i]);
    ASSERT_TRUE(IsAll(PointerAt<void>(it->first), it->second.bytes, it->second.pattern));
    ASSERT_EQ(pool->Free(live[i]), Arena::FreeResult::kFreed);
    model.used_bytes_ -= it->second.bytes;
    model.blocks_.erase(it);
    live[i] = live.back();
    live.pop_back();
  };
  uint64_t failures = 0, bad_frees = 0;

  for (int step = 0; step < operations; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    const uint64_t dice = below(100);
    if (dice < 55) {
      const uint64_t bound = below(2) == 0 ? setup.max_bytes : uint64_t{2} << below(20);
      const size_t bytes = below(std::min<uint64_t>(bound, setup.max_bytes) + 1);
      const size_t alignment = below(3) == 0 ? size_t{1} << below(18) : 1;
      const bool aligned = alignment > setup.unit_bytes;
      const bool zeroed = below(3) == 0;
      const size_t rounded = model.Rounded(bytes);
      const std::optional<Addr> place = model.Place(rounded);
      void* p = pool->Allocate(bytes, alignment, zeroed);
      if (p == nullptr) {
        ++failures;
        if (one_tier && setup.policy == ArenaPolicy::kBuddy) {
          ASSERT_FALSE(model.BuddyFits(std::max(rounded, alignment)));
        } else if (one_tier && !aligned) {
          ASSERT_EQ(place, std::nullopt);
        } else if (one_tier) {
          ASSERT_LT(model.LargestGap(), rounded + alignment - setup.unit_bytes);
        }
        if (!live.empty()) free_at(below(live.size()));
        continue;
      }
      const Addr a = AddressOf(p);
      ASSERT_EQ(a % alignment, 0u);
      ASSERT_EQ(a % setup.unit_bytes, 0u);
      if (one_tier && !aligned && setup.policy != ArenaPolicy::kBuddy) {
        ASSERT_EQ(a, place);
      }
      const size_t usable = pool->BlockBytes(a);
      ASSERT_GE(usable, std::max<size_t>(bytes, 1));
      if (one_tier && !(aligned && setup.policy == ArenaPolicy::kBuddy)) {
        ASSERT_EQ(usable, rounded);
      }
      ASSERT_GE(a, begin);
      ASSERT_LE(a + usable, begin + pool_bytes);
      const auto next = model.blocks_.lower_bound(a);
      if (next != model.blocks_.end()) {
        ASSERT_LE(a + usable, next->first);
      }
      if (next != model.blocks_.begin()) {
        ASSERT_GE(a, std::prev(next)->first + std::prev(next)->second.bytes);
      }
      if (zeroed) {
        ASSERT_TRUE(IsAll(p, usable, 0));
      }
      const auto pattern = static_cast<unsigned char>(1 + below(255));
      memset(p, pattern, usable);
      model.blocks_[a] = {usable, pattern};
      model.used_bytes_ += usable;
      live.push_back(a);
    } else if (dice < 97) {
      if (!live.empty()) free_at(below(live.size()));
    } else if (dice < 98) {
      const size_t trimmed = pool->Trim();
      ASSERT_TRUE(setup.own_memory || trimmed == 0);
      ASSERT_EQ(pool->GetStats().idle_bytes, 0u);
    } else {
      // A free of what is no block in use: anywhere in the pool, or beside it.
      const Addr a = begin - 64 * kKiB + below(pool_bytes + 128 * kKiB);
      if (model.blocks_.contains(a)) continue;
      const bool inside = a - begin < pool_bytes;
      ASSERT_EQ(pool->Free(a),
                inside ? Arena::FreeResult::kNotAllocated : Arena::FreeResult::kOutside);
      ASSERT_EQ(pool->BlockBytes(a), 0u);
      ++bad_frees;
    }
    if (step % 64 == 0) {
      pool->CheckForTesting();
      const Arena::Stats stats = pool->GetStats();
      ASSERT_EQ(stats.used_bytes, model.used_bytes_);
      ASSERT_EQ(stats.used_blocks, model.blocks_.size());
      ASSERT_EQ(stats.failures, failures);
      ASSERT_EQ(stats.bad_frees, bad_frees);
      if (one_tier && setup.policy != ArenaPolicy::kBuddy) {
        ASSERT_EQ(stats.largest_free, model.LargestGap());
      }
    }
  }
  while (!live.empty()) free_at(live.size() - 1);
  pool->CheckForTesting();
  EXPECT_EQ(pool->GetStats().used_bytes, 0u);
  // All of it is one block again.
  pool->Trim();
  if (setup.policy != ArenaPolicy::kBuddy) {
    EXPECT_EQ(pool->GetStats().largest_free, pool_bytes);
    EXPECT_NE(pool->Allocate(pool_bytes, 1, false), nullptr);
  }
}

constexpr ArenaPolicy kPolicies[] = {ArenaPolicy::kBinned, ArenaPolicy::kPlainTree,
                                     ArenaPolicy::kFirstFit, ArenaPolicy::kBuddy};

class ArenaPolicyTest : public ::testing::TestWithParam<ArenaPolicy> {};
INSTANTIATE_TEST_SUITE_P(Policies, ArenaPolicyTest, ::testing::ValuesIn(kPolicies),
                         [](const auto& info) -> std::string {
                           switch (info.param) {
                             case ArenaPolicy::kBinned:
                               return "Binned";
                             case ArenaPolicy::kPlainTree:
                               return "PlainTree";
                             case ArenaPolicy::kFirstFit:
                               return "FirstFit";
                             default:
                               return "Buddy";
                           }
                         });

TEST_P(ArenaPolicyTest, RandomHistoriesAgreeWithALinearSearch) {
  const PoolSetup setups[] = {
      {"one tier, own", GetParam(), 16 * kMiB, 256, 0, true, 3 * kMiB},
      {"one tier, the program's", GetParam(), 200 * kKiB, 256, 0, false, 30 * kKiB},
      {"units of 16", GetParam(), 50 * kKiB, 16, 0, false, 3 * kKiB},
      {"two tiers, own", GetParam(), 32 * kMiB, 256, 64 * kKiB, true, 2 * kMiB},
      {"two tiers, the program's", GetParam(), 2 * kMiB, 16, 4 * kKiB, false, 200 * kKiB},
      {"two tiers, units of 4096", GetParam(), 16 * kMiB, 4096, 128 * kKiB, true, 1 * kMiB},
  };
  for (const PoolSetup& setup : setups) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      RunHistory(setup, seed, 3000);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ArenaPolicyTest, AFullArenaStaysUsable) {
  const PoolSetup setup{"", GetParam(), 1 * kMiB, 256, 0, true, 0};
  Pool pool(setup);
  std::vector<Addr> blocks;
  while (void* p = pool->Allocate(4096, 1, false)) blocks.push_back(AddressOf(p));
  EXPECT_EQ(blocks.size(), 256u);
  EXPECT_EQ(pool->Allocate(1, 1, false), nullptr);
  EXPECT_EQ(pool->GetStats().failures, 2u);
  EXPECT_EQ(pool->GetStats().largest_free, 0u);
  EXPECT_EQ(pool->Free(blocks[7]), Arena::FreeResult::kFreed);
  EXPECT_EQ(pool->Free(blocks[7]), Arena::FreeResult::kNotAllocated);
  EXPECT_EQ(AddressOf(pool->Allocate(4096, 4096, false)), blocks[7]);
  pool->CheckForTesting();
}

TEST_P(ArenaPolicyTest, TinyPools) {
  const PoolSetup setup{"", GetParam(), 0, 256, 128 * kKiB, false, 0};
  alignas(256) static char memory[1024];
  Arena* arena = Arena::CreateOn(AddressOf(memory) + 1, 511, ConfigOf(setup));
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(arena->GetStats().pool_bytes, 256u);
  EXPECT_EQ(arena->Allocate(257, 1, false), nullptr);
  EXPECT_EQ(arena->Allocate(SIZE_MAX, 1, false), nullptr);
  EXPECT_EQ(arena->Allocate(SIZE_MAX - 255, size_t{1} << 63, false), nullptr);
  void* p = arena->Allocate(0, 1, true);
  EXPECT_EQ(AddressOf(p), AddressOf(memory) + 256);
  EXPECT_EQ(arena->Allocate(0, 1, false), nullptr);
  EXPECT_EQ(arena->Free(AddressOf(p) + 1), Arena::FreeResult::kNotAllocated);
  EXPECT_EQ(arena->Free(AddressOf(p) + 256), Arena::FreeResult::kOutside);
  EXPECT_EQ(arena->Free(AddressOf(p)), Arena::FreeResult::kFreed);
  arena->CheckForTesting();
  arena->Destroy();
}

TEST_P(ArenaPolicyTest, AlignmentsLargerThanThePool) {
  const PoolSetup setup{"", GetParam(), 1 * kMiB, 256, 0, true, 0};
  Pool pool(setup);
  for (int shift = 0; shift < 64; ++shift) {
    const size_t alignment = size_t{1} << shift;
    void* p = pool->Allocate(1, alignment, false);
    if (shift <= 19) {
      EXPECT_NE(p, nullptr) << shift;
    }
    if (p == nullptr) continue;
    EXPECT_EQ(AddressOf(p) & (alignment - 1), 0u);
    EXPECT_EQ(pool->Free(AddressOf(p)), Arena::FreeResult::kFreed);
  }
  pool->CheckForTesting();
}

TEST(ArenaTest, EmptySlabsMakeRoomForALargeBlock) {
  const PoolSetup setup{"", ArenaPolicy::kBinned, 4 * kMiB, 256, 8 * kKiB, true, 0};
  Pool pool(setup);
  std::vector<Addr> blocks;
  for (size_t bytes = 256; bytes <= 8 * kKiB; bytes *= 2) {
    for (int i = 0; i < 20; ++i) blocks.push_back(AddressOf(pool->Allocate(bytes, 1, false)));
  }
  EXPECT_GT(pool->GetStats().slab_bytes, 0u);
  for (Addr a : blocks) EXPECT_EQ(pool->Free(a), Arena::FreeResult::kFreed);
  EXPECT_GT(pool->GetStats().slab_bytes, 0u);
  EXPECT_NE(pool->Allocate(4 * kMiB, 1, false), nullptr);
  EXPECT_EQ(pool->GetStats().slab_bytes, 0u);
  pool->CheckForTesting();
}

TEST(ArenaTest, SmallBlocksFindRoomWhenNoSlabDoes) {
  const PoolSetup setup{"", ArenaPolicy::kBinned, 4 * kMiB, 256, 8 * kKiB, true, 0};
  Pool pool(setup);
  ASSERT_NE(pool->Allocate(4 * kMiB - 8 * kKiB, 1, false), nullptr);
  int blocks = 0;
  while (pool->Allocate(512, 1, false) != nullptr) ++blocks;
  EXPECT_EQ(blocks, 16);
  EXPECT_EQ(pool->GetStats().slab_bytes, 0u);
}

// Memory that was never handed out, or was given back, is not touched to make it zero.
TEST(ArenaTest, KnownZeroMemoryIsNotTouched) {
  const PoolSetup setup{"", ArenaPolicy::kBinned, 64 * kMiB, 256, 0, true, 0};
  Pool pool(setup);
  const auto resident_pages = [](Addr a, size_t bytes) {
    std::vector<unsigned char> pages(bytes / platform::OsPageBytes());
    EXPECT_EQ(mincore(PointerAt<void>(a), bytes, pages.data()), 0);
    size_t count = 0;
    for (unsigned char page : pages) count += page & 1u;
    return count;
  };
  const Addr a = AddressOf(pool->Allocate(16 * kMiB, 1, true));
  EXPECT_EQ(resident_pages(a, 16 * kMiB), 0u);
  memset(PointerAt<void>(a), 1, 16 * kMiB);
  ASSERT_EQ(pool->Free(a), Arena::FreeResult::kFreed);
  const Addr b = AddressOf(pool->Allocate(16 * kMiB, 1, true));
  ASSERT_EQ(a, b);
  EXPECT_TRUE(IsAll(PointerAt<void>(b), 16 * kMiB, 0));
  ASSERT_EQ(pool->Free(b), Arena::FreeResult::kFreed);
  EXPECT_EQ(pool->Trim(), 4 * kMiB);  // the budget; the rest has gone
  ASSERT_EQ(AddressOf(pool->Allocate(16 * kMiB, 1, true)), a);
  EXPECT_EQ(resident_pages(a, 16 * kMiB), 0u);
}

}  // namespace
}  // namespace gleaner::alloc
