#include "alloc/residency.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <random>

#include "platform/os/memory.h"

namespace gleaner::alloc {
namespace {

constexpr size_t kChunk = Residency::kChunkBytes;
constexpr uint64_t kDecay = 1000;

class ResidencyTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 300 * kMiB;

  void SetUp() override {
    void* p = platform::Reserve(kBytes, kChunk);
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(platform::Commit(p, kBytes));
    begin_ = AddressOf(p);
  }
  void TearDown() override {
    residency_.Destroy();
    platform::Release(PointerAt<void>(begin_), kBytes);
  }
  void Init(size_t budget, uint64_t decay = kDecay) {
    ASSERT_TRUE(residency_.Init(begin_, kBytes, budget, decay));
  }
  Residency::Range Take(size_t offset, size_t bytes) {
    return residency_.Take(begin_ + offset, bytes);
  }
  void Return(size_t offset, size_t bytes) { residency_.Return(begin_ + offset, bytes); }
  static bool IsEmpty(Residency::Range range) { return range.begin == range.end; }

  Addr begin_ = 0;
  Residency residency_;
};

TEST_F(ResidencyTest, FreshMemoryIsKnownToBeZero) {
  Init(0);
  EXPECT_TRUE(IsEmpty(Take(0, 4096)));
  EXPECT_TRUE(IsEmpty(Take(4096, 5 * kMiB)));  // shares a chunk with the block before it
  Return(0, 4096);
  const Residency::Range again = Take(0, 1024);
  EXPECT_EQ(again.begin, begin_);
  EXPECT_EQ(again.end, begin_ + 1024);
}

TEST_F(ResidencyTest, OnlyWhatMayNotBeZeroIsNamed) {
  Init(Residency::kKeepAll);
  Take(4 * kMiB, 1 * kMiB);
  Return(4 * kMiB, 1 * kMiB);
  const Residency::Range unknown = Take(0, 20 * kMiB);
  EXPECT_EQ(unknown.begin, begin_ + 4 * kMiB);
  EXPECT_EQ(unknown.end, begin_ + 5 * kMiB);  // nothing above was handed out yet
}

TEST_F(ResidencyTest, ChunksThatAnyBlockOverlapsAreNotIdle) {
  Init(Residency::kKeepAll);
  Take(0, kChunk / 2);
  Take(kChunk / 2, 2 * kChunk);
  EXPECT_EQ(residency_.idle_bytes(), 0u);
  Return(0, kChunk / 2);
  EXPECT_EQ(residency_.idle_bytes(), 0u);
  Return(kChunk / 2, 2 * kChunk);
  EXPECT_EQ(residency_.idle_bytes(), 3 * kChunk);
  residency_.CheckForTesting();
  EXPECT_EQ(residency_.Trim(), 3 * kChunk);
  EXPECT_EQ(residency_.idle_bytes(), 0u);
  EXPECT_TRUE(IsEmpty(Take(0, 10 * kChunk)));
}

// A page that reads as zero after it was written has been discarded.
TEST_F(ResidencyTest, FreePagesBesideABlockCanBeDiscarded) {
  Init(Residency::kKeepAll);
  Take(0, 4 * kChunk);
  memset(PointerAt<void>(begin_), 1, 4 * kChunk);
  Return(0, 4 * kChunk);
  const size_t low = kChunk / 2 + 100, high = 3 * kChunk + kChunk / 2;
  Take(0, low);
  Take(high, kChunk / 2);
  residency_.DiscardBetweenBlocks(begin_ + low, begin_ + high);
  const auto byte = [this](size_t offset) { return *PointerAt<char>(begin_ + offset); };
  EXPECT_EQ(byte(low), 1);  // in the OS page of a block in use
  EXPECT_EQ(byte(kChunk / 2 + platform::OsPageBytes()), 0);
  EXPECT_EQ(byte(kChunk - 1), 0);
  EXPECT_EQ(byte(kChunk), 1);  // idle: Trim's
  EXPECT_EQ(byte(3 * kChunk - 1), 1);
  EXPECT_EQ(byte(3 * kChunk), 0);
  EXPECT_EQ(byte(high - 1), 0);
  EXPECT_EQ(byte(high), 1);
  EXPECT_EQ(residency_.idle_bytes(), 2 * kChunk);
  residency_.CheckForTesting();
  const Residency::Range unknown = Take(low, high - low);  // still taken for written
  EXPECT_EQ(unknown.begin, begin_ + low);
  EXPECT_EQ(unknown.end, begin_ + high);
}

TEST_F(ResidencyTest, TheBudgetStaysTheSurplusDecays) {
  Init(8 * kChunk);
  Take(0, 72 * kChunk);
  EXPECT_EQ(residency_.next_step_ns(), Residency::kNever);
  EXPECT_EQ(residency_.Decay(0), 0u);
  Return(0, 72 * kChunk);
  uint64_t now = 5000;
  EXPECT_LE(residency_.next_step_ns(), now);
  EXPECT_EQ(residency_.Decay(now), 0u);  // they are seen to be idle for the first time
  size_t discarded = 0;
  for (const uint64_t end = now + kDecay / 2; now < end; now = residency_.next_step_ns()) {
    const size_t step = residency_.Decay(now);
    EXPECT_LE(step, 5 * kChunk);  // of 72 chunks in 16 steps
    EXPECT_EQ(residency_.Decay(residency_.next_step_ns() - 1), 0u);
    discarded += step;
  }
  EXPECT_EQ(discarded, 64 * kChunk);
  EXPECT_EQ(residency_.next_step_ns(), Residency::kNever);
  EXPECT_EQ(residency_.Decay(now + 100 * kDecay), 0u);
  EXPECT_EQ(residency_.idle_bytes(), 8 * kChunk);
  EXPECT_EQ(residency_.discarded_bytes(), 64 * kChunk);
  residency_.CheckForTesting();
}

// However rarely the owner calls, and wherever the hand stands.
TEST_F(ResidencyTest, LateStepsAreMadeTogether) {
  for (uint64_t interval : {kDecay / 32, kDecay / 5, kDecay / 2, 10 * kDecay}) {
    SCOPED_TRACE(interval);
    Init(0);
    Take(0, 100 * kChunk);
    uint64_t now = 100 * kDecay;
    residency_.Decay(now);
    Return(0, 100 * kChunk);
    for (const uint64_t end = now + kDecay + interval; now <= end; now += interval) {
      residency_.Decay(now);
    }
    EXPECT_EQ(residency_.idle_bytes(), 0u);
    residency_.Destroy();
  }
}

// Only what was ever handed out is looked at, so the time does not grow with the range.
TEST_F(ResidencyTest, AHugeRangeDecaysAsSoon) {
  constexpr size_t kHuge = size_t{1} << 40;
  ASSERT_TRUE(residency_.Init(begin_, kHuge, 0, kDecay));
  Take(0, 10 * kChunk);
  Return(0, 10 * kChunk);
  EXPECT_EQ(residency_.Decay(kDecay), 0u);
  EXPECT_EQ(residency_.Decay(2 * kDecay), 10 * kChunk);
}

TEST_F(ResidencyTest, MemoryInTurnUsedAndFreeStays) {
  Init(0);
  uint64_t now = 0;
  for (int i = 0; i < 100; ++i, now += kDecay / 4) {
    Take(0, 10 * kChunk);
    Return(0, 10 * kChunk);
    EXPECT_EQ(residency_.Decay(now), 0u);
  }
  EXPECT_GT(residency_.Decay(now), 0u);
}

TEST_F(ResidencyTest, WithoutDecayASurplusGoesAtOnce) {
  Init(2 * kChunk, 0);
  Take(0, 100 * kChunk);
  EXPECT_FALSE(residency_.IsDecayDue());
  Return(0, 100 * kChunk);
  EXPECT_TRUE(residency_.IsDecayDue());
  EXPECT_EQ(residency_.Decay(1), 98 * kChunk);
  EXPECT_FALSE(residency_.IsDecayDue());
}

// Random blocks against their contents: whatever is said to be zero is, nothing in use changes, and
// what is idle adds up.
TEST_F(ResidencyTest, RandomHistories) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::printf("residency, seed %llu\n", static_cast<unsigned long long>(seed));
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t bound) { return random() % bound; };
    Init(below(20) * kChunk, below(2) * kDecay);
    std::map<Addr, size_t> blocks;
    uint64_t now = 0;
    for (int step = 0; step < 1000; ++step) {
      if (below(2) == 0 && !blocks.empty()) {
        auto block = blocks.begin();
        std::advance(block, below(blocks.size()));
        ASSERT_EQ(*PointerAt<Addr>(block->first), block->first);
        ASSERT_EQ(*PointerAt<Addr>(block->first + block->second - 8), block->first);
        residency_.Return(block->first, block->second);
        blocks.erase(block);
      } else {
        const size_t bytes = AlignUp(1 + below(below(2) == 0 ? 64 * kKiB : 8 * kMiB), 256);
        const Addr a = begin_ + AlignDown(below(kBytes - bytes), 256);
        const auto next = blocks.lower_bound(a);
        if (next != blocks.end() && next->first < a + bytes) continue;
        if (next != blocks.begin() && std::prev(next)->first + std::prev(next)->second > a)
          continue;
        const Residency::Range unknown = residency_.Take(a, bytes);
        ASSERT_GE(unknown.begin, a);
        ASSERT_LE(unknown.end, a + bytes);
        for (size_t at = 0; at < bytes; at += 1024) {
          if (a + at >= unknown.begin && a + at < unknown.end) continue;
          ASSERT_EQ(*PointerAt<Addr>(a + at), 0u);
        }
        for (size_t at = 0; at < bytes; at += 4096) *PointerAt<Addr>(a + at) = a;
        *PointerAt<Addr>(a) = *PointerAt<Addr>(a + bytes - 8) = a;
        blocks[a] = bytes;
      }
      now += below(kDecay / 2);
      if (below(4) == 0) residency_.Decay(now);
      if (below(500) == 0) residency_.Trim();
      if (step % 100 == 0) residency_.CheckForTesting();
    }
    residency_.Destroy();
    platform::Discard(PointerAt<void>(begin_), kBytes);
  }
}

}  // namespace
}  // namespace gleaner::alloc
