// What a working set costs in caches that it fits into, and in those that it does not.
#include "tools/predict/cache_simulation.h"

#include <gtest/gtest.h>

#include <numeric>

namespace gleaner::tools {
namespace {

using Access = CacheSimulation::Access;

Machine TwoCaches() {
  Machine machine;
  machine.caches = {{32 << 10, 64, 8, false, {}}, {1 << 20, 64, 16, false, {10, 2, 3, 1}}};
  machine.memory = {100, 20, 30, 4};
  machine.tlb_entries = 64;
  machine.tlb_miss = {};
  return machine;
}

// The lines of a region in an order in which no line follows its neighbour.
template <class F>
void ForEachLine(uint64_t bytes, const F& f) {
  constexpr uint64_t kStep = 1001;  // odd: all lines of a power of two
  const uint64_t lines = bytes / 64;
  for (uint64_t i = 0; i < lines; ++i) f(i * kStep % lines * 64);
}

// Once the region has been read. Lines that are not looked up get the mean of all that were, cold
// misses among them: they do not count here.
double MeanNs(CacheSimulation* caches, uint64_t bytes, Access access) {
  double ps = 0;
  uint64_t count = 0;
  for (int round = 0; round < 3; ++round) {
    ForEachLine(bytes, [&](uint64_t address) {
      const uint64_t each = caches->Touch(address, access);
      if (round == 0 || !caches->IsSampled(address)) return;
      ps += static_cast<double>(each);
      ++count;
    });
  }
  return ps / static_cast<double>(count) / 1000;
}

TEST(CacheSimulationTest, AWorkingSetCostsWhatTheCacheDoesThatItFitsInto) {
  const struct {
    uint64_t bytes;
    double dependent_ns, ahead_ns;
  } cases[] = {{16 << 10, 0, 0}, {512 << 10, 10, 2}, {16 << 20, 100, 20}};
  for (const auto& [bytes, dependent_ns, ahead_ns] : cases) {
    CacheSimulation caches(TwoCaches());
    EXPECT_NEAR(MeanNs(&caches, bytes, Access::kDependent), dependent_ns, 2) << bytes;
    CacheSimulation others(TwoCaches());
    EXPECT_NEAR(MeanNs(&others, bytes, Access::kAhead), ahead_ns, 1) << bytes;
  }
}

TEST(CacheSimulationTest, NeighboursAreAStreamInBothDirections) {
  for (const int step : {1, -1}) {
    CacheSimulation caches(TwoCaches());
    double ps = 0;
    constexpr int kLines = 1 << 16;
    for (int i = 0; i < kLines; ++i) {
      const int line = step > 0 ? i : kLines - i;
      ps += static_cast<double>(caches.Touch(static_cast<uint64_t>(line) * 64, Access::kDependent));
    }
    EXPECT_NEAR(ps / kLines / 1000, 4 + 96.0 / 64, 1) << "a stream but for a line of each page";
  }
}

TEST(CacheSimulationTest, FurtherLinesOfObjectsInRandomOrderAreNoStream) {
  constexpr uint64_t kObjectBytes = 512;
  const auto ns_of_further = [](double further_ns, uint64_t step) {
    Machine machine = TwoCaches();
    machine.further_ns = further_ns;
    CacheSimulation caches(machine);
    double ps = 0;
    constexpr uint64_t kObjects = 1 << 18;
    for (uint64_t i = 0; i < kObjects; ++i) {
      const uint64_t object = i * step % kObjects * kObjectBytes;
      (void)caches.Touch(object, Access::kAhead);
      for (uint64_t at = 64; at < kObjectBytes; at += 64) {
        ps += static_cast<double>(caches.TouchFurther(object + at));
      }
    }
    return ps / 1000 / (kObjects * (kObjectBytes / 64 - 1));
  };
  EXPECT_NEAR(ns_of_further(15, 161803), 15, 0.5);
  EXPECT_NEAR(ns_of_further(0, 161803), 4, 0.2) << "the machine's description says nothing of them";
  EXPECT_NEAR(ns_of_further(15, 1), 4 + 11.0 / 8, 0.5) << "in order: all but a page's first object";
}

TEST(CacheSimulationTest, LongLinesAndFewSetsCountAsTheyAre) {
  Machine machine = TwoCaches();
  // Two steps of 64 bytes to a line of 128: the second one hits.
  machine.caches = {{32 << 10, 32, 2, false, {}}, {1 << 20, 128, 2, false, {10, 2, 3, 1}}};
  CacheSimulation lines(machine);
  for (uint64_t at = 0; at < 16 << 20; at += 64) {
    lines.TouchTable(at, CacheSimulation::Access::kAhead);
  }
  EXPECT_NEAR(lines.Served()[2] / static_cast<double>(lines.accesses()), 0.5, 0.01);
  // One set of 1,024 lines, four times as many in turn.
  machine.caches = {{64 << 10, 64, 1024, false, {}}};
  CacheSimulation one_set(machine);
  for (int round = 0; round < 20; ++round) {
    for (uint64_t at = 0; at < 256 << 10; at += 64) {
      one_set.TouchTable(at, CacheSimulation::Access::kAhead);
    }
  }
  EXPECT_EQ(one_set.Served()[0], 0);
}

TEST(CacheSimulationTest, EveryAccessIsServedOnce) {
  CacheSimulation caches(TwoCaches());
  ForEachLine(4 << 20, [&](uint64_t address) { caches.Touch(address, Access::kAhead); });
  const std::vector<double> served = caches.Served();
  ASSERT_EQ(served.size(), 3u);
  EXPECT_DOUBLE_EQ(std::accumulate(served.begin(), served.end(), 0.0),
                   static_cast<double>(caches.accesses()));
  EXPECT_DOUBLE_EQ(served[2], static_cast<double>(caches.accesses())) << "cold misses";
}

TEST(CacheSimulationTest, PagesBeyondTheTranslationBufferMiss) {
  Machine machine = TwoCaches();
  machine.tlb_miss = {30, 30, 30, 30};
  for (const uint64_t pages : {32, 4096}) {
    CacheSimulation caches(machine);
    for (int round = 0; round < 4; ++round) {
      for (uint64_t page = 0; page < pages; ++page) {
        caches.Touch(page * 4096, Access::kAhead);
      }
    }
    EXPECT_EQ(caches.tlb_misses(), static_cast<double>(pages == 32 ? pages : 4 * pages));
  }
}

TEST(CacheSimulationTest, LinesThatAreUsedAgainAreAlive) {
  CacheSimulation used(TwoCaches());
  for (int round = 0; round < 20; ++round) {
    ForEachLine(256 << 10, [&](uint64_t address) { used.Touch(address, Access::kAhead); });
  }
  EXPECT_NEAR(used.live_lines(), 4096, 400);
  EXPECT_NEAR(used.live_line_ps(), 18'000, 1) << "they come from memory";
  EXPECT_NEAR(used.live_share(), 0.95, 0.01) << "all but the first round";
  CacheSimulation unused(TwoCaches());
  ForEachLine(16 << 20, [&](uint64_t address) { unused.Touch(address, Access::kAhead); });
  EXPECT_EQ(unused.live_lines(), 0);
  EXPECT_EQ(unused.live_share(), 0);
}

}  // namespace
}  // namespace gleaner::tools
