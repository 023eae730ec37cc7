// Figures computed for a report: minimum mutator utilisation, histograms, quantiles, thinned
// series.
#pragma once

#include "tools/report/report_model.h"

namespace gleaner::tools {

// The least share of time that the program had in any window of `window_ns` within `life`
// (P. Cheng, G. Blelloch: A Parallel, Real-Time Garbage Collector, 2001). `stops` are in order and
// disjoint. pre: 0 < window_ns <= length of life.
double MinimumUtilisation(const std::vector<Interval>& stops, const Interval& life,
                          uint64_t window_ns);

struct UtilisationPoint {
  uint64_t window_ns;
  double of_pauses;  // time in which the world was not stopped
  double of_stalls;  // of the thread with the least: time in which it was not stalled
};
// For windows of 0.1 ms, 0.2, 0.5 and so on up to the length of the run. A thread with a shorter
// life counts by the whole of it.
std::vector<UtilisationPoint> UtilisationCurve(const ReportModel& model);

// The bounds of histograms: 1, 2, 5 in each decade from 1 us to 100 s. Bucket i has durations from
// bounds[i - 1] to below bounds[i]; the first and the last have what is beyond.
const std::vector<uint64_t>& DurationBounds();
size_t DurationBucketOf(uint64_t ns);

// The least value that at least `share` of the values do not exceed; 0 without values.
uint64_t Quantile(std::vector<uint64_t> values, double share);

// At most four points for each of `columns` equal stretches of time: the first, the last, and the
// least and the greatest value. pre: points are in order of time.
std::vector<Point> Thin(const std::vector<Point>& points, size_t columns);

}  // namespace gleaner::tools
