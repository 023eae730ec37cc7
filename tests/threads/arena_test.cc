// A thread-safe arena under several threads: no block is handed out twice, and frees by others are
// seen. What the API's test does with processes, small enough for ThreadSanitizer.
#include "alloc/arenas/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

namespace gleaner::alloc {
namespace {

TEST(ArenaTest, ThreadsShareAnArena) {
  constexpr int kThreads = 4, kRounds = 4000, kShared = 32;
  for (const ArenaPolicy policy : {ArenaPolicy::kBinned, ArenaPolicy::kPlainTree,
                                   ArenaPolicy::kFirstFit, ArenaPolicy::kBuddy}) {
    ArenaConfig config;
    config.policy = policy;
    config.thread_safe = true;
    config.small_bytes = 16 * kKiB;
    config.resident_bytes = 2 * kMiB;
    Arena* arena = Arena::Create(16 * kMiB, config);
    ASSERT_NE(arena, nullptr);
    std::atomic<uint64_t*> shared[kShared] = {};
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    std::printf("seeds 1 to %d\n", kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(static_cast<uint64_t>(t + 1));
        for (int i = 0; i < kRounds; ++i) {
          const size_t bytes = 8 + random() % (random() % 4 == 0 ? 200000 : 4000);
          auto* block = static_cast<uint64_t*>(arena->Allocate(bytes, 1, random() % 4 == 0));
          if (block != nullptr) *block = AddressOf(block);
          uint64_t* old = shared[random() % kShared].exchange(block);
          if (old == nullptr) continue;
          if (*old != AddressOf(old) || arena->BlockBytes(AddressOf(old)) == 0) ++bad;
          *old = 0;
          if (arena->Free(AddressOf(old)) != Arena::FreeResult::kFreed) ++bad;
          if (i % 500 == 0) arena->Trim();
          if (i % 100 == 0) (void)arena->GetStats();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(bad.load(), 0);
    for (auto& block : shared) {
      if (block != nullptr) arena->Free(AddressOf(block.load()));
    }
    EXPECT_EQ(arena->GetStats().used_blocks, 0u);
    arena->CheckForTesting();
    arena->Destroy();
  }
}

}  // namespace
}  // namespace gleaner::alloc
