#include "gc/policy/allowance_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

#include "platform/os/base.h"

namespace gleaner::gc {
namespace {

constexpr uint64_t kMs = 1'000'000;

AllowanceLaw::Period PeriodOf(uint64_t run_ns, uint64_t stop_ns, uint64_t allocated_bytes,
                              uint64_t footprint_bytes) {
  AllowanceLaw::Period period;
  period.run_ns = period.run_processor_ns = run_ns;
  period.stop_processor_ns = stop_ns;
  period.allocated_bytes = allocated_bytes;
  period.footprint_bytes = footprint_bytes;
  return period;
}

TEST(AllowanceLawTest, GivesNothingBeforeItHasLearned) {
  const AllowanceLaw law;
  EXPECT_EQ(law.cost_ratio(), 0);
  EXPECT_EQ(law.Bytes(1 * kGiB, 1 * kGiB, 0, 3), 0u);
  EXPECT_EQ(law.BytesAllocatedIn(1 * kMs), 0u);
}

TEST(AllowanceLawTest, APeriodWithoutTimeOrBytesDividesByNothing) {
  AllowanceLaw law;
  law.Learn({});
  EXPECT_EQ(law.Bytes(1 * kGiB, 1 * kGiB, 0, 3), 0u);
  law.Learn(PeriodOf(0, 1 * kMs, 100, 0));
  EXPECT_EQ(law.Bytes(1 * kGiB, 1 * kGiB, 0, 3), 0u);
}

// The program's time is 10 ns a byte, a collection of a footprint of 100 MiB takes 200 ms. With E
// bytes between two collections the program takes 200 ms / (10 ns (E - F)) of its time more, and
// E / 100 MiB of its memory.
TEST(AllowanceLawTest, NoOtherAllowanceCostsLess) {
  constexpr double kFootprint = 100 * kMiB;
  for (const uint64_t in_cycle : {uint64_t{0}, 30 * kMiB}) {
    const auto kept = static_cast<double>(in_cycle);
    const auto cost = [kept](double bytes) {
      return bytes / kFootprint + 2 * 200.0 * kMs / (10 * (bytes - kept));
    };
    AllowanceLaw law;
    law.Learn(PeriodOf(10 * kMiB * 10, 200 * kMs, 10 * kMiB, 100 * kMiB));
    const double best = static_cast<double>(law.Bytes(100 * kMiB, 100 * kMiB, in_cycle, 3)) - kept;
    for (double factor = 0.1; factor < 10; factor *= 1.25) {
      EXPECT_LE(cost(kept + best), cost(kept + best * factor) * (1 + 1e-6)) << factor;
    }
  }
}

TEST(AllowanceLawTest, TheHeapAtMostDoubles) {
  AllowanceLaw law;
  law.Learn(PeriodOf(1 * kMs, 1000 * kMs, 100 * kMiB, 90 * kMiB));
  EXPECT_NEAR(static_cast<double>(law.Bytes(90 * kMiB, 90 * kMiB, 0, 3)), 90.0 * kMiB, 2);
  EXPECT_NEAR(static_cast<double>(law.Bytes(90 * kMiB, 90 * kMiB, 0, 1)), 270.0 * kMiB, 2);
}

TEST(AllowanceLawTest, CheapCollectionsAreNotAllTheMoreFrequent) {
  for (const uint64_t stop_ns : {0, 1}) {
    AllowanceLaw law;
    law.Learn(PeriodOf(1000 * kMs, stop_ns, 100 * kMiB, 90 * kMiB));
    EXPECT_NEAR(static_cast<double>(law.Bytes(90 * kMiB, 90 * kMiB, 0, 3)), 30.0 * kMiB, 2)
        << stop_ns;
  }
}

TEST(AllowanceLawTest, MemoryOutsideTheHeapIsNoReasonForALeastAllowance) {
  AllowanceLaw law;
  law.Learn(PeriodOf(1000 * kMs, 1, 100 * kMiB, 501 * kMiB));
  EXPECT_LT(law.Bytes(501 * kMiB, 1 * kMiB, 0, 3), 1 * kMiB);
}

// The longer the program runs, the less it matters that memory has to be touched once.
TEST(AllowanceLawTest, FreshMemoryHasToPay) {
  const auto bytes_after = [](int periods, double touch_ns_per_byte) {
    AllowanceLaw law;
    AllowanceLaw::Period period = PeriodOf(40 * kMs, 1 * kMs, 40 * kMiB, 500 * kMiB);
    period.touch_ns_per_byte = touch_ns_per_byte;
    for (int i = 0; i < periods; ++i) law.Learn(period);
    return static_cast<double>(law.Bytes(500 * kMiB, 1 * kMiB, 0, 3));
  };
  const double free = bytes_after(100, 0);
  // 40 ms have passed: the time part of touching is 6 * 500 MiB / 40 ms.
  const double part = 6 * 500.0 * kMiB / (40 * kMs);
  EXPECT_NEAR(bytes_after(1, 6), bytes_after(1, 0) / std::sqrt(1 + 2 * part), 1000);
  EXPECT_LT(bytes_after(100, 6), free);
  EXPECT_NEAR(bytes_after(100'000, 6), free, free / 100);
}

// The allowance that the law gives is the period's next one, and so on.
TEST(AllowanceLawTest, SettlesWhereverItBegins) {
  constexpr uint64_t kFootprint = 100 * kMiB;
  const double wanted = std::sqrt(2 * 200.0 * kMs / 10 * kFootprint);
  for (const uint64_t first : {100 * kKiB, 10 * kMiB, 10 * kGiB}) {
    AllowanceLaw law;
    uint64_t allowance = first;
    for (int i = 0; i < 100; ++i) {
      law.Learn(PeriodOf(allowance * 10, 200 * kMs, allowance, kFootprint));
      allowance = law.Bytes(kFootprint, kFootprint, 0, 3);
    }
    EXPECT_NEAR(static_cast<double>(allowance), wanted, wanted / 1000) << first;
  }
}

TEST(AllowanceLawTest, TheDivisorDivides) {
  AllowanceLaw law;
  law.Learn(PeriodOf(40 * kMs, 10 * kMs, 100 * kMiB, 100 * kMiB));
  EXPECT_NEAR(static_cast<double>(law.Bytes(100 * kMiB, 100 * kMiB, 0, 3)),
              std::sqrt(0.5) * 100.0 * kMiB, 2);
  EXPECT_NEAR(static_cast<double>(law.Bytes(100 * kMiB, 100 * kMiB, 0, 6)),
              std::sqrt(0.5) * 50.0 * kMiB, 2);
  EXPECT_NEAR(static_cast<double>(law.Bytes(100 * kMiB, 100 * kMiB, 0, 1)),
              std::sqrt(0.5) * 300.0 * kMiB, 2);
  EXPECT_NEAR(static_cast<double>(law.BytesAllocatedIn(10 * kMs)), 25.0 * kMiB, 2);
}

// Threads that a stop holds up lose its time each; a program that waits most of the time does not.
TEST(AllowanceLawTest, ProcessorTimeCounts) {
  AllowanceLaw one;
  one.Learn(PeriodOf(40 * kMs, 10 * kMs, 100 * kMiB, 100 * kMiB));
  AllowanceLaw two;
  AllowanceLaw::Period period = PeriodOf(40 * kMs, 10 * kMs, 100 * kMiB, 100 * kMiB);
  period.run_processor_ns = 80 * kMs;
  two.Learn(period);
  EXPECT_DOUBLE_EQ(two.cost_ratio(), one.cost_ratio());
  EXPECT_EQ(two.BytesAllocatedIn(10 * kMs), one.BytesAllocatedIn(10 * kMs));
  AllowanceLaw waiting;
  period.run_ns = 400 * kMs;
  period.run_processor_ns = 40 * kMs;
  waiting.Learn(period);
  EXPECT_DOUBLE_EQ(waiting.cost_ratio(), one.cost_ratio());
  EXPECT_EQ(waiting.BytesAllocatedIn(10 * kMs), one.BytesAllocatedIn(10 * kMs));
  AllowanceLaw concurrent;
  period = PeriodOf(40 * kMs, 1 * kMs, 100 * kMiB, 100 * kMiB);
  period.concurrent_processor_ns = 9 * kMs;
  concurrent.Learn(period);
  EXPECT_DOUBLE_EQ(concurrent.cost_ratio(), one.cost_ratio());
}

TEST(AllowanceLawTest, MinorCollectionsAndFullOnesAreAveraged) {
  AllowanceLaw law;
  for (int i = 0; i < 400; ++i) {
    law.Learn(PeriodOf(40 * kMs, (i % 4 == 0 ? 37 : 1) * kMs, 100 * kMiB, 100 * kMiB));
  }
  EXPECT_NEAR(law.cost_ratio(), 10.0 / 40, 0.08);
}

}  // namespace
}  // namespace gleaner::gc
