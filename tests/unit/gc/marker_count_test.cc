// How many markers begin, by the parallelism of the last marking.
#include "gc/mark/marker_count.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

namespace gleaner::gc {
namespace {

// What `workers` take for 1 ms of work, if bringing it to twice as many takes `doubling_ns`.
MarkingTimes Marking(int workers, double doubling_ns) {
  constexpr double kWorkNs = 1e6;
  const double elapsed = kWorkNs / workers + doubling_ns * std::log2(workers);
  return {static_cast<uint64_t>(elapsed), static_cast<uint64_t>(kWorkNs), workers};
}

TEST(MarkerCountTest, TheBestNumberIsFoundFromAnyOther) {
  for (const double doubling_ns : {2e3, 1e4, 2e4, 5e4, 1e5, 3e5}) {
    int best = 1;
    for (int n = 2; n <= 64; ++n) {
      if (Marking(n, doubling_ns).elapsed_ns < Marking(best, doubling_ns).elapsed_ns) best = n;
    }
    for (int before = 2; before <= 64; ++before) {
      int n = MarkersAtStart(Marking(before, doubling_ns), 64);
      if (n > 1) n = MarkersAtStart(Marking(n, doubling_ns), 64);
      EXPECT_LE(static_cast<double>(Marking(n, doubling_ns).elapsed_ns),
                1.03 * static_cast<double>(Marking(best, doubling_ns).elapsed_ns))
          << n << " after " << before << ", best " << best << ", " << doubling_ns;
    }
  }
}

TEST(MarkerCountTest, WhereAllAreBusyAllBegin) {
  for (int workers = 2; workers <= 64; ++workers) {
    const uint64_t all = 1'000'000 * static_cast<uint64_t>(workers);
    EXPECT_EQ(MarkersAtStart({1'000'000, all, workers}, workers), workers);
    EXPECT_EQ(MarkersAtStart({1'000'000, all, workers}, 64), 64) << "more than took part";
    EXPECT_EQ(MarkersAtStart({1'000'000, all * 95 / 100, workers}, workers), workers);
  }
}

TEST(MarkerCountTest, OneIsEnoughForAList) {
  EXPECT_EQ(MarkersAtStart({1'000'000, 1'000'000, 1}, 64), 1);
  EXPECT_EQ(MarkersAtStart({1'000'000, 1'000'000, 2}, 64), 1);
  for (int n = 2; n <= 64; ++n) {
    for (const uint64_t busy_ns : {UINT64_C(1'001'000), UINT64_C(100'000)}) {
      const MarkingTimes list = {1'000'000, busy_ns, n};
      EXPECT_EQ(MarkersAtStart(list, 64), n == 2 ? 1 : 2) << n;
    }
    EXPECT_GE(MarkersAtStart({1'000'000, 1'250'000, n}, 64), 2) << n;
  }
}

TEST(MarkerCountTest, NothingMeasuredIsOneMarker) {
  EXPECT_EQ(MarkersAtStart({}, 64), 1);
  EXPECT_EQ(MarkersAtStart({0, 0, 2}, 64), 1);
  EXPECT_EQ(MarkersAtStart({0, 5'000, 2}, 1), 1);
  // Clocks that disagree.
  EXPECT_EQ(MarkersAtStart({1'000, 900'000, 2}, 8), 8);
}

}  // namespace
}  // namespace gleaner::gc
