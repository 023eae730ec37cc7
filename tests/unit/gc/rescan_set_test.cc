// Granules set by one thread while another takes them.
#include "gc/mark/rescan_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "platform/faults/delays.h"
#include "tests/support/heap.h"

namespace gleaner::gc {
namespace {

constexpr size_t kGroups = 64;
constexpr auto kPages = static_cast<alloc::PageNumber>(kGroups * RescanSet::kPagesPerGroup);

// Takes what the groups lead to. Returns how many cards that was.
size_t TakeAll(RescanSet& rescan_set) {
  size_t taken = 0;
  for (size_t group = 0; group < kGroups; ++group) {
    if (!rescan_set.TakeGroup(group)) continue;
    for (size_t i = 0; i < RescanSet::kPagesPerGroup; ++i) {
      const auto page = static_cast<alloc::PageNumber>(group * RescanSet::kPagesPerGroup + i);
      taken += static_cast<size_t>(__builtin_popcount(rescan_set.Take(page)));
    }
  }
  return taken;
}

// [inv.group] One card in each group, so that no other makes up for it if its group is set
// first: delays, where the build has them, let that be seen.
CHILD_TEST(RescanSetTest, WhatIsSetWhileOthersTakeIsFoundByItsGroup) {
  testing::StartHeap();
  RescanSet rescan_set;
  ASSERT_TRUE(rescan_set.Init());
  ASSERT_TRUE(rescan_set.Cover(kPages));
  platform::SetDelays(4);
  for (size_t round = 0; round < 20; ++round) {
    std::atomic<bool> over{false};
    size_t taken = 0;
    std::thread taker([&] {
      while (!over.load()) taken += TakeAll(rescan_set);
    });
    for (size_t group = 0; group < kGroups; ++group) {
      const size_t page = group * RescanSet::kPagesPerGroup + round;
      rescan_set.Set(alloc::g_space.AddressOfPage(static_cast<alloc::PageNumber>(page)), 1);
    }
    over.store(true);
    taker.join();
    EXPECT_EQ(taken + TakeAll(rescan_set), kGroups) << "round " << round;
  }
}

}  // namespace
}  // namespace gleaner::gc
