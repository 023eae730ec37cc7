#include "platform/tracking/card_tracking.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

TEST(CardsTest, AreReportedBy512Bytes) {
  TrackedHeap heap(TrackingKind::kCards, 16);
  ASSERT_TRUE(heap.Start());
  heap.Write(3, 1000);
  heap.Write(3, 1024);
  heap.Write(5, 0);
  std::vector<Addr> bounds;
  heap.tracking.FetchAndRearm(
      heap.address(0), heap.address(16),
      [](void* context, Addr begin, Addr end) {
        auto* found = static_cast<std::vector<Addr>*>(context);
        found->push_back(begin);
        found->push_back(end);
      },
      &bounds);
  EXPECT_EQ(bounds, (std::vector<Addr>{heap.address(3) + 512, heap.address(3) + 1536,
                                       heap.address(5), heap.address(5) + 512}));
}

// The card is dirty when both come: the fetch takes the older mark away and must then see the newer
// store, or leave its mark.
TEST(CardsTest, AStoreDuringAFetchIsNotLost) {
  TrackedHeap heap(TrackingKind::kCards, 16);
  ASSERT_TRUE(heap.Start());
  auto* slot = reinterpret_cast<std::atomic<uint64_t>*>(heap.page(3) + 8);
  const auto copy_slot = [](void* context, Addr begin, Addr) {
    *static_cast<uint64_t*>(context) =
        reinterpret_cast<std::atomic<uint64_t>*>(begin + 8)->load(std::memory_order_relaxed);
  };
  uint64_t copy = 0;
  const auto fetch = [&] {
    heap.tracking.FetchAndRearm(heap.address(3), heap.address(4), copy_slot, &copy);
  };
  constexpr uint64_t kEnd = ~uint64_t{0};
  std::atomic<uint64_t> begun{0}, ended{0};
  const auto wait_for = [](const std::atomic<uint64_t>& word, uint64_t value) {
    for (int spins = 0;; ++spins) {
      const uint64_t now = word.load(std::memory_order_acquire);
      if (now == value || now == kEnd) return now == value;
      if (spins % 1024 == 1023) std::this_thread::yield();
    }
  };
  std::thread mutator([&] {
    for (uint64_t round = 1; wait_for(begun, round); ++round) {
      for (uint64_t pause = round % 16; pause != 0; --pause) asm volatile("");
      slot->store(2 * round, std::memory_order_relaxed);
      heap.tracking.MarkDirty(AddressOf(slot));
      ended.store(round, std::memory_order_release);
    }
  });
  uint64_t lost = 0;
  for (Rounds rounds(300'000); rounds.Next();) {
    const uint64_t round = rounds.current();
    slot->store(2 * round - 1, std::memory_order_relaxed);
    heap.tracking.MarkDirty(AddressOf(slot));
    begun.store(round, std::memory_order_release);
    fetch();
    wait_for(ended, round);
    fetch();
    lost += copy != 2 * round;
  }
  begun.store(kEnd, std::memory_order_release);
  mutator.join();
  EXPECT_EQ(lost, 0u);
}

}  // namespace
}  // namespace gleaner::platform
