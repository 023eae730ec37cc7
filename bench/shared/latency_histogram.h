// A log-linear histogram of durations, as in HDR histograms: 64 buckets for each doubling, so that
// a quantile is at most 1.6 % too large. One thread at a time.
#ifndef GLEANER_BENCH_LATENCY_HISTOGRAM_H_
#define GLEANER_BENCH_LATENCY_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_util.h"

namespace bench {

class LatencyHistogram {
 public:
  void Record(uint64_t ns) {
    ++buckets_[BucketOf(ns)];
    ++count_;
    max_ns_ = std::max(max_ns_, ns);
  }
  void Add(const LatencyHistogram& other) {
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
  }
  uint64_t count() const { return count_; }
  uint64_t max_ns() const { return max_ns_; }
  // The largest duration that the bucket holding that share of all may hold; `share` in (0, 1].
  uint64_t Quantile(double share) const {
    const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (buckets_[i] != 0 && seen >= rank) return std::min(EndOf(i) - 1, max_ns_);
    }
    return max_ns_;
  }
  // <name>_p50_us, _p99_us, _p999_us and <name>_max_ms.
  void AddTo(ResultLine* result, const std::string& name) const {
    const auto microseconds = [&](const char* suffix, double share) {
      result->Real((name + suffix).c_str(), static_cast<double>(Quantile(share)) * 1e-3);
    };
    microseconds("_p50_us", 0.5);
    microseconds("_p99_us", 0.99);
    microseconds("_p999_us", 0.999);
    result->Real((name + "_max_ms").c_str(), static_cast<double>(max_ns_) * 1e-6);
  }

 private:
  static constexpr int kBits = 6;
  static constexpr uint64_t kPerDoubling = uint64_t{1} << kBits;

  static size_t BucketOf(uint64_t ns) {
    if (ns < kPerDoubling) return ns;
    const int shift = std::bit_width(ns) - 1 - kBits;
    return static_cast<size_t>(shift) * kPerDoubling + (ns >> shift);
  }
  static uint64_t EndOf(size_t bucket) {
    if (bucket < 2 * kPerDoubling) return bucket + 1;
    const size_t shift = bucket / kPerDoubling - 1;
    return (bucket % kPerDoubling + kPerDoubling + 1) << shift;
  }

  std::vector<uint64_t> buckets_ = std::vector<uint64_t>((64 - kBits + 1) * kPerDoubling);
  uint64_t count_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace bench

#endif  // GLEANER_BENCH_LATENCY_HISTOGRAM_H_
