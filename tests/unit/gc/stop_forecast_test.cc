// How long a stop is expected to take, from the last ones.
#include "gc/policy/stop_forecast.h"

#include <gtest/gtest.h>

#include "tests/support/fake_world.h"

namespace gleaner::gc {
namespace {

constexpr uint64_t kLive = 100 * kMiB;

PauseTimes Pause(uint64_t mark_ns, uint64_t sweep_ns, uint64_t rest_ns) {
  PauseTimes pause;
  pause.all_ns = mark_ns + sweep_ns + rest_ns;
  pause.part_ns[static_cast<int>(PausePart::kMark)] = mark_ns;
  pause.part_ns[static_cast<int>(PausePart::kSweep)] = sweep_ns;
  pause.part_ns[static_cast<int>(PausePart::kRoots)] = rest_ns;
  return pause;
}

// Marked by two markers, both of them busy.
void LearnFromStop(StopForecast* forecast, const PauseTimes& pause, uint64_t scanned_bytes,
                   uint64_t allocated_bytes) {
  const uint64_t mark_ns = pause.of(PausePart::kMark);
  forecast->LearnFromFull(
      pause, {scanned_bytes, allocated_bytes, 1000, {mark_ns, 2 * mark_ns, 2}, true, true});
}

TEST(StopForecastTest, WhatTookThatLongTakesThatLongAgain) {
  StopForecast forecast;
  const PauseTimes pause = Pause(2 * kLive, 50'000, 3'000);
  LearnFromStop(&forecast, pause, kLive, 0);
  const uint64_t bytes = forecast.ScanBytes(0);
  EXPECT_EQ(bytes, kLive);
  EXPECT_EQ(forecast.StopNs(bytes, 2, 1000), pause.all_ns);
  EXPECT_EQ(forecast.StopNs(bytes, 1, 1000), pause.all_ns + 2 * kLive) << "one marker";
  EXPECT_EQ(forecast.StopNs(bytes / 2, 2, 1000), pause.all_ns - kLive);
  EXPECT_EQ(forecast.StopNs(bytes, 2, 3000), pause.all_ns + 100'000) << "more pages";
}

TEST(StopForecastTest, AHeapThatGrowsIsExpectedToGrowOn) {
  StopForecast forecast;
  LearnFromStop(&forecast, Pause(kLive, 0, 0), kLive / 2, kLive / 2);
  EXPECT_EQ(forecast.ScanBytes(kMiB), kLive / 2) << "once is no growth";
  LearnFromStop(&forecast, Pause(kLive, 0, 0), kLive, kLive / 2);
  EXPECT_EQ(forecast.ScanBytes(kMiB), kLive + kMiB) << "everything stayed";
  // Of what was allocated since, a minor collection in between included, a quarter stayed.
  forecast.LearnFromMinor(3 * kMiB);
  LearnFromStop(&forecast, Pause(kLive, 0, 0), kLive + kMiB, kMiB);
  EXPECT_EQ(forecast.ScanBytes(0), kLive + kMiB);
  EXPECT_EQ(forecast.ScanBytes(8 * kMiB), kLive + 3 * kMiB);
  forecast.LearnFromMinor(4 * kMiB);
  EXPECT_EQ(forecast.ScanBytes(4 * kMiB), kLive + 3 * kMiB);
  // It does not grow any more.
  LearnFromStop(&forecast, Pause(kLive, 0, 0), kLive, 100 * kMiB);
  EXPECT_EQ(forecast.ScanBytes(100 * kMiB), kLive);
  // Growth without allocation: the program has stored into what it had.
  for (int i = 2; i < 4; ++i) LearnFromStop(&forecast, Pause(kLive, 0, 0), i * kLive, 0);
  EXPECT_EQ(forecast.ScanBytes(kMiB), 3 * kLive + kMiB);
}

TEST(StopForecastTest, AStopThatIsHeldUpOnceDoesNotCount) {
  StopForecast forecast;
  const PauseTimes usual = Pause(kLive, 50'000, 3'000);
  LearnFromStop(&forecast, usual, kLive, 0);
  const PauseTimes held_up = Pause(50 * kLive, 5'000'000, 3'000'000);
  LearnFromStop(&forecast, held_up, kLive, 0);
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), usual.all_ns);
  LearnFromStop(&forecast, held_up, kLive, 0);
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), held_up.all_ns) << "twice is no accident";
}

TEST(StopForecastTest, MarkersWithoutWorkDoNotCount) {
  StopForecast forecast;
  // A list: two markers take as long as one.
  forecast.LearnFromFull(Pause(kLive, 0, 0), {kLive, 0, 1000, {kLive, kLive, 2}, true, true});
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), kLive);
  EXPECT_EQ(forecast.StopNs(kLive, 1, 1000), kLive);
  // Of four markers three are at work in the mean: once is enough.
  LearnFromStop(&forecast, Pause(kLive, 0, 0), kLive, 0);
  forecast.LearnFromFull(Pause(kLive / 3, 0, 0),
                         {kLive, 0, 1000, {kLive / 3, kLive, 4}, true, true});
  EXPECT_NEAR(static_cast<double>(forecast.StopNs(kLive, 4, 1000)), kLive / 3.0, 10);
  EXPECT_NEAR(static_cast<double>(forecast.StopNs(kLive, 2, 1000)), kLive / 2.0, 10)
      << "no more than there are";
}

TEST(StopForecastTest, AHeapThatHasGrownMuchMayHaveWorkForAll) {
  StopForecast forecast;
  // So small that no helper was woken.
  forecast.LearnFromFull(Pause(kMiB, 0, 0), {kMiB, 0, 1000, {kMiB, kMiB, 1}, true, true});
  EXPECT_EQ(forecast.StopNs(2 * kMiB, 2, 1000), 2 * kMiB);
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), kLive / 2);
}

TEST(StopForecastTest, WhatWasDoneConcurrentlyMeasuresNoRate) {
  StopForecast forecast;
  LearnFromStop(&forecast, Pause(2 * kLive, 50'000, 3'000), kLive, 0);
  forecast.LearnFromFull(Pause(100, 0, 100), {2 * kLive, 0, 1000, {}, false, false});
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), 2 * kLive + 50'100) << "the rest is measured";
  // Marked in the stop, swept afterwards.
  forecast.LearnFromFull(Pause(kLive, 0, 7'000),
                         {kLive, 0, 1000, {kLive, 2 * kLive, 2}, true, false});
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), kLive + 50'100) << "the shorter rest";
  // Too little to measure.
  LearnFromStop(&forecast, Pause(1'000'000, 10'000, 1'000), 1000, 0);
  EXPECT_EQ(forecast.StopNs(kLive, 2, 1000), kLive + 11'000);
}

// --- What a collector expects to scan, and what it scans ---

struct Node {
  Node* next;
  void* more[7];
};

// Allocates objects until the allowance is used up; `keep` says what becomes of each.
template <class F>
void UseAllowance(const F& keep) {
  Pacer& pacer = g_collector.pacer();
  for (size_t i = 0; pacer.allocated() < pacer.allowance(); ++i) {
    keep(i, static_cast<Node*>(testing::Allocate(alloc::Kind::kNormal, sizeof(Node))));
    pacer.OnAllocated(sizeof(Node), 0);
  }
}

// After three collections each of the next expects what it scans, within a fifth.
template <class F>
void ExpectGoodForecasts(const F& keep) {
  EXPECT_CHILD_OK([&keep] {
    testing::StartHeap();
    testing::StartCollector();
    g_collector.forecast().SetMarkTimeForTesting(1);  // a nanosecond for a byte
    testing::g_roots.assign(1001, nullptr);
    for (int round = 0; round < 8; ++round) {
      UseAllowance(keep);
      testing::Collect();
      const auto scanned = static_cast<double>(g_collector.marker().statistics().bytes_scanned);
      const auto expected = static_cast<double>(g_collector.last().expected_ns);
      printf("scanned %.2f MB, expected %.2f MB\n", scanned / 1e6, expected / 1e6);
      if (round < 3) continue;
      EXPECT_NEAR(expected / scanned, 1, 0.2) << "round " << round;
    }
  });
}

void Prepend(Node* node) {
  node->next = static_cast<Node*>(testing::g_roots[0]);
  testing::g_roots[0] = node;
}

TEST(StopForecastTest, OfAListThatGrows) {
  ExpectGoodForecasts([](size_t, Node* node) { Prepend(node); });
}

TEST(StopForecastTest, OfAListThatGrowsAmongGarbage) {
  ExpectGoodForecasts([](size_t i, Node* node) {
    if (i % 3 == 0) Prepend(node);
  });
}

TEST(StopForecastTest, OfATableThatKeepsItsSize) {
  ExpectGoodForecasts([](size_t i, Node* node) { testing::g_roots[1 + i % 1000] = node; });
}

}  // namespace
}  // namespace gleaner::gc
