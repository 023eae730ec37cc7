#include "tools/report/report_figures.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace gleaner::tools {

namespace {

// How much of stops lies before a time, for times that come in rising order.
class StoppedBefore {
 public:
  explicit StoppedBefore(const std::vector<Interval>& stops) : stops_(stops) {}
  uint64_t operator()(uint64_t ns) {
    while (next_ < stops_.size() && stops_[next_].end_ns <= ns) {
      sum_ns_ += stops_[next_].end_ns - stops_[next_].begin_ns;
      ++next_;
    }
    const bool inside = next_ < stops_.size() && stops_[next_].begin_ns < ns;
    return sum_ns_ + (inside ? ns - stops_[next_].begin_ns : 0);
  }

 private:
  const std::vector<Interval>& stops_;
  size_t next_ = 0;
  uint64_t sum_ns_ = 0;
};

std::vector<uint64_t> Windows(uint64_t run_ns) {
  std::vector<uint64_t> windows;
  constexpr uint64_t kMinNs = 100'000;
  for (uint64_t decade = kMinNs; decade < run_ns; decade *= 10) {
    for (const uint64_t factor : {1, 2, 5}) {
      if (decade * factor < run_ns) windows.push_back(decade * factor);
    }
  }
  if (run_ns != 0) windows.push_back(run_ns);
  return windows;
}

}  // namespace

// A window with the most stopped time begins where a stop begins, or ends where one ends, or lies
// at an end of `life`: any other one can be moved without losing some. Both kinds of windows come
// in the order of time.
double MinimumUtilisation(const std::vector<Interval>& stops, const Interval& life,
                          uint64_t window_ns) {
  const uint64_t last = life.end_ns - window_ns;  // where the last window begins
  uint64_t worst_ns = 0;
  const auto look_at_all = [&](auto begin_of_window) {
    StoppedBefore at_begin(stops);
    StoppedBefore at_end(stops);
    for (const Interval& stop : stops) {
      const uint64_t begin_ns = std::clamp(begin_of_window(stop), life.begin_ns, last);
      worst_ns = std::max(worst_ns, at_end(begin_ns + window_ns) - at_begin(begin_ns));
    }
  };
  look_at_all([](const Interval& stop) { return stop.begin_ns; });
  look_at_all([window_ns](const Interval& stop) {
    return stop.end_ns < window_ns ? 0 : stop.end_ns - window_ns;
  });
  return 1 - static_cast<double>(std::min(worst_ns, window_ns)) / static_cast<double>(window_ns);
}

std::vector<UtilisationPoint> UtilisationCurve(const ReportModel& model) {
  std::vector<UtilisationPoint> curve;
  for (const uint64_t window : Windows(model.run_ns)) {
    UtilisationPoint point = {window, MinimumUtilisation(model.pauses, {0, model.run_ns}, window),
                              1};
    for (const auto& [number, thread] : model.threads) {
      // Up to the end of the run: threads that lived short say little of long windows.
      const Interval span = {thread.life.begin_ns, model.run_ns};
      const uint64_t span_ns = LengthOf({span});
      if (thread.role != platform::TraceRole::kMutator || span_ns == 0) continue;
      point.of_stalls = std::min(
          point.of_stalls, MinimumUtilisation(thread.stalls, span, std::min(span_ns, window)));
    }
    curve.push_back(point);
  }
  return curve;
}

const std::vector<uint64_t>& DurationBounds() {
  static const std::vector<uint64_t> bounds = [] {
    std::vector<uint64_t> made;
    for (uint64_t decade = 1000; decade <= 10'000'000'000; decade *= 10) {
      for (const uint64_t factor : {1, 2, 5}) made.push_back(decade * factor);
    }
    made.push_back(100'000'000'000);
    return made;
  }();
  return bounds;
}

size_t DurationBucketOf(uint64_t ns) {
  const std::vector<uint64_t>& bounds = DurationBounds();
  return static_cast<size_t>(std::upper_bound(bounds.begin(), bounds.end(), ns) - bounds.begin());
}

uint64_t Quantile(std::vector<uint64_t> values, double share) {
  if (values.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t index = rank < 1 ? 0 : std::min(static_cast<size_t>(rank), values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

std::vector<Point> Thin(const std::vector<Point>& points, size_t columns) {
  if (points.size() <= 4 * columns) return points;
  const uint64_t begin_ns = points.front().at_ns;
  const uint64_t width_ns = (points.back().at_ns - begin_ns) / columns + 1;
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size();) {
    const uint64_t column = (points[i].at_ns - begin_ns) / width_ns;
    size_t end = i;
    size_t least = i;
    size_t greatest = i;
    for (; end < points.size() && (points[end].at_ns - begin_ns) / width_ns == column; ++end) {
      if (points[end].value < points[least].value) least = end;
      if (points[end].value > points[greatest].value) greatest = end;
    }
    for (const size_t k : std::set<size_t>{i, least, greatest, end - 1}) kept.push_back(points[k]);
    i = end;
  }
  return kept;
}

}  // namespace gleaner::tools
