#include "gc/policy/stop_forecast.h"

namespace gleaner::gc {

void StopForecast::LearnFromFull(const PauseTimes& pause, const Full& full) {
  const uint64_t allocated = allocated_bytes_ + full.allocated_bytes;
  const uint64_t added =
      full.scanned_bytes > scanned_bytes_ ? full.scanned_bytes - scanned_bytes_ : 0;
  const double growth = added == 0 ? 0
                        : added >= allocated
                            ? 1
                            : static_cast<double>(added) / static_cast<double>(allocated);
  growth_ = growth < last_growth_ ? growth : last_growth_;
  last_growth_ = growth;
  scanned_bytes_ = full.scanned_bytes;
  allocated_bytes_ = 0;
  if (is_fixed_) return;

  constexpr uint64_t kMinBytes = 256 * kKiB;  // a shorter marking measures nothing
  const uint64_t mark_ns = pause.of(PausePart::kMark);
  const uint64_t sweep_ns = pause.of(PausePart::kSweep);
  if (full.marked_in_stop && full.scanned_bytes >= kMinBytes) {
    const double parallelism = full.marking.Parallelism();
    mark_ns_per_byte_.Add(static_cast<double>(mark_ns) * parallelism /
                          static_cast<double>(full.scanned_bytes));
    parallel_bytes_ = full.scanned_bytes;
    parallelism_ = parallelism > last_parallelism_ ? parallelism : last_parallelism_;
    last_parallelism_ = parallelism;
  }
  if (full.swept_in_stop && full.pages != 0) {
    sweep_ns_per_page_.Add(static_cast<double>(sweep_ns) / static_cast<double>(full.pages));
  }
  uint64_t rest_ns = pause.all_ns - mark_ns - sweep_ns;
  // A stop that ends a cycle scans what was written meanwhile: no part of a stop-parallel one.
  if (!full.marked_in_stop) rest_ns -= pause.of(PausePart::kDirty);
  rest_ns_.Add(static_cast<double>(rest_ns));
}

uint64_t StopForecast::ScanBytes(uint64_t allocated_bytes) const {
  return scanned_bytes_ +
         static_cast<uint64_t>(growth_ * static_cast<double>(allocated_bytes_ + allocated_bytes));
}

}  // namespace gleaner::gc
