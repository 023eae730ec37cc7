#include "tools/report/report_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>

namespace gleaner::tools {
namespace {

// One generator for each test, whose seed is printed.
std::mt19937_64 NewDraw() {
  const uint64_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  return std::mt19937_64(seed);
}

uint64_t Below(std::mt19937_64& draw, uint64_t bound) { return draw() % bound; }

std::vector<Interval> RandomIntervals(std::mt19937_64& draw, uint64_t end, size_t count) {
  std::vector<Interval> intervals;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t begin = Below(draw, end);
    intervals.push_back({begin, std::min(end, begin + Below(draw, 40))});
  }
  return intervals;
}

TEST(ReportFiguresTest, UnionCoversWhatItsIntervalsCover) {
  std::mt19937_64 draw = NewDraw();
  for (int i = 0; i < 300; ++i) {
    constexpr uint64_t kEnd = 300;
    const std::vector<Interval> intervals = RandomIntervals(draw, kEnd, Below(draw, 20));
    const std::vector<Interval> joined = Union(intervals);
    const auto covers = [](const std::vector<Interval>& all, uint64_t at) {
      return std::any_of(all.begin(), all.end(), [at](const Interval& each) {
        return each.begin_ns <= at && at < each.end_ns;
      });
    };
    for (uint64_t at = 0; at < kEnd; ++at) ASSERT_EQ(covers(intervals, at), covers(joined, at));
    for (size_t k = 1; k < joined.size(); ++k) {
      ASSERT_LT(joined[k - 1].end_ns, joined[k].begin_ns);
    }
  }
}

// Looks at every window.
double NaiveUtilisation(const std::vector<Interval>& stops, const Interval& life, uint64_t window) {
  uint64_t worst = 0;
  for (uint64_t begin = life.begin_ns; begin + window <= life.end_ns; ++begin) {
    uint64_t stopped = 0;
    for (const Interval& stop : stops) {
      const uint64_t from = std::max(stop.begin_ns, begin);
      const uint64_t to = std::min(stop.end_ns, begin + window);
      if (from < to) stopped += to - from;
    }
    worst = std::max(worst, stopped);
  }
  return 1 - static_cast<double>(worst) / static_cast<double>(window);
}

TEST(ReportFiguresTest, MinimumUtilisationIsThatOfEveryWindow) {
  std::mt19937_64 draw = NewDraw();
  for (int i = 0; i < 500; ++i) {
    constexpr uint64_t kEnd = 400;
    const std::vector<Interval> stops = Union(RandomIntervals(draw, kEnd, Below(draw, 12)));
    const uint64_t begin = Below(draw, kEnd / 2);
    const Interval life = {begin, begin + 1 + Below(draw, kEnd - begin)};
    const uint64_t window = 1 + Below(draw, life.end_ns - life.begin_ns);
    ASSERT_DOUBLE_EQ(MinimumUtilisation(stops, life, window), NaiveUtilisation(stops, life, window))
        << "window " << window << " in " << life.begin_ns << ".." << life.end_ns;
  }
}

TEST(ReportFiguresTest, CurveEndsWithTheWholeRun) {
  ReportModel model;
  model.run_ns = 1'000'000'000;
  model.pauses = {{0, 100'000'000}};
  ThreadRow& thread = model.threads[1];
  thread.life = {500'000'000, 1'000'000'000};
  thread.stalls = {{600'000'000, 850'000'000}};
  const std::vector<UtilisationPoint> curve = UtilisationCurve(model);
  EXPECT_EQ(curve.front().window_ns, 100'000u);
  EXPECT_DOUBLE_EQ(curve.front().of_pauses, 0);
  EXPECT_EQ(curve.back().window_ns, model.run_ns);
  EXPECT_DOUBLE_EQ(curve.back().of_pauses, 0.9);
  EXPECT_DOUBLE_EQ(curve.back().of_stalls, 0.5);
  // One that lived short leaves the windows alone that are much longer than its life.
  model.threads[2].life = {500'000'000, 500'000'010};
  model.threads[2].stalls = {{500'000'000, 500'000'010}};
  EXPECT_DOUBLE_EQ(UtilisationCurve(model).back().of_stalls, 0.5);
  EXPECT_TRUE(UtilisationCurve(ReportModel()).empty());
}

TEST(ReportFiguresTest, BucketsHoldWhatTheirBoundsSay) {
  const std::vector<uint64_t>& bounds = DurationBounds();
  EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
  EXPECT_EQ(DurationBucketOf(0), 0u);
  EXPECT_EQ(DurationBucketOf(~uint64_t{0}), bounds.size());
  for (size_t i = 0; i < bounds.size(); ++i) {
    EXPECT_EQ(DurationBucketOf(bounds[i] - 1), i);
    EXPECT_EQ(DurationBucketOf(bounds[i]), i + 1);
  }
}

TEST(ReportFiguresTest, QuantileIsTheLeastThatEnoughDoNotExceed) {
  std::mt19937_64 draw = NewDraw();
  EXPECT_EQ(Quantile({}, 0.5), 0u);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint64_t> values(1 + Below(draw, 50));
    for (uint64_t& value : values) value = Below(draw, 30);
    const double share = static_cast<double>(Below(draw, 101)) / 100;
    const uint64_t found = Quantile(values, share);
    const auto within = [&](uint64_t max) {
      return static_cast<double>(
          std::count_if(values.begin(), values.end(), [max](uint64_t v) { return v <= max; }));
    };
    const double wanted = share * static_cast<double>(values.size());
    ASSERT_GE(within(found) + 1e-9, wanted);
    if (found != 0) {
      const uint64_t least = *std::min_element(values.begin(), values.end());
      ASSERT_TRUE(found == least || within(found - 1) < wanted + 1e-9);
    }
  }
}

TEST(ReportFiguresTest, ThinnedSeriesKeepTheirExtremes) {
  std::mt19937_64 draw = NewDraw();
  for (int i = 0; i < 50; ++i) {
    std::vector<Point> points(Below(draw, 5000));
    uint64_t at = Below(draw, 1000);
    for (Point& point : points) point = {at += Below(draw, 20), static_cast<double>(draw())};
    const size_t columns = 1 + Below(draw, 100);
    const std::vector<Point> kept = Thin(points, columns);
    ASSERT_LE(kept.size(), 4 * columns);
    const auto less = [](const Point& a, const Point& b) { return a.value < b.value; };
    const auto earlier = [](const Point& a, const Point& b) { return a.at_ns < b.at_ns; };
    ASSERT_TRUE(std::is_sorted(kept.begin(), kept.end(), earlier));
    if (points.empty()) continue;
    const auto least = [&](const auto& all) {
      return std::min_element(all.begin(), all.end(), less)->value;
    };
    const auto most = [&](const auto& all) {
      return std::max_element(all.begin(), all.end(), less)->value;
    };
    ASSERT_EQ(least(kept), least(points));
    ASSERT_EQ(most(kept), most(points));
    ASSERT_EQ(kept.front().at_ns, points.front().at_ns);
    ASSERT_EQ(kept.back().at_ns, points.back().at_ns);
  }
}

}  // namespace
}  // namespace gleaner::tools
