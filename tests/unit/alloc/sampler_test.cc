#include "alloc/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace gleaner::alloc {
namespace {

constexpr uint64_t kSeed = 20261123;

TEST(SampleDistance, IsTheLogarithm) {
  constexpr size_t kMean = size_t{1} << 30;
  uint64_t random = kSeed;
  for (int i = 0; i < 100000; ++i) {
    random = Mix64(random + 1);
    const double x = std::ldexp(static_cast<double>((random >> 11) + 1), -53);
    const double exact = -std::log(x) * kMean;
    EXPECT_NEAR(static_cast<double>(SampleDistance(random, kMean)), exact + 0.5, 1 + exact * 1e-8);
  }
}

TEST(SampleDistance, OfTheRarestNumbers) {
  EXPECT_EQ(SampleDistance(~uint64_t{0}, 1000), 1u);
  EXPECT_NEAR(static_cast<double>(SampleDistance(0, 1000)), 53 * std::log(2) * 1000, 2);
  // The largest distance at the largest mean fits.
  EXPECT_GT(SampleDistance(0, size_t{1} << 40), size_t{1} << 45);
  for (const uint64_t random : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_EQ(SampleDistance(random, 1), 1u);
  }
}

// Hands out objects as a thread heap does, in windows of at most `window` bytes, of which each
// `given_back`th is given back after one object.
struct Row {
  uint64_t objects = 0;
  uint64_t sampled = 0;

  void Run(Sampler* sampler, size_t slot_bytes, size_t window, uint64_t count, int given_back) {
    for (int windows = 1; objects < count; ++windows) {
      const size_t cut = sampler->Cut(Kind::kNormal, 0, slot_bytes, window);
      ASSERT_NE(cut, 0u);
      ASSERT_LE(cut, window);
      ASSERT_EQ(cut % slot_bytes, 0u);
      const bool due = sampler->TakeDue();
      ASSERT_TRUE(!due || cut == slot_bytes);
      sampled += due ? 1 : 0;
      if (given_back != 0 && windows % given_back == 0) {
        ++objects;
        sampler->DrawAnew(static_cast<size_t>(Kind::kNormal));
      } else {
        objects += cut / slot_bytes;
      }
    }
  }
};

// [inv.sample]: each object is sampled with the probability 1 - exp(-bytes / mean), whatever the
// windows are.
TEST(Sampler, SamplesEachObjectWithItsProbability) {
  for (const size_t mean : {size_t{1}, size_t{100}, size_t{3000}}) {
    for (const size_t slot_bytes : {size_t{16}, size_t{240}, size_t{2048}}) {
      for (const size_t slots : {1, 2, 17, 1000}) {
        for (const int given_back : {0, 1, 3}) {
          g_sample_mean_bytes = mean;
          auto sampler = std::make_unique<Sampler>(kSeed);
          Row row;
          row.Run(sampler.get(), slot_bytes, slots * slot_bytes, 100000, given_back);
          const double p =
              mean == 1 ? 1
                        : -std::expm1(-static_cast<double>(slot_bytes) / static_cast<double>(mean));
          const auto n = static_cast<double>(row.objects);
          EXPECT_NEAR(static_cast<double>(row.sampled), n * p,
                      5 * std::sqrt(n * p * (1 - p)) + 1e-9)
              << mean << ' ' << slot_bytes << ' ' << slots << ' ' << given_back;
        }
      }
    }
  }
  g_sample_mean_bytes = 0;
}

TEST(Sampler, SamplesLargeObjectsWithTheirProbability) {
  g_sample_mean_bytes = 1 << 20;
  auto sampler = std::make_unique<Sampler>(kSeed);
  for (const size_t bytes : {size_t{100000}, size_t{1} << 20, size_t{10} << 20}) {
    double sampled = 0;
    constexpr double kCount = 100000;
    for (int i = 0; i < static_cast<int>(kCount); ++i) sampled += sampler->IsLargeSampled(bytes);
    const double p = -std::expm1(-static_cast<double>(bytes) / (1 << 20));
    EXPECT_NEAR(sampled, kCount * p, 5 * std::sqrt(kCount * p * (1 - p)));
  }
  g_sample_mean_bytes = 0;
}

}  // namespace
}  // namespace gleaner::alloc
