#include "gc/policy/allowance_law.h"

#include <cmath>

namespace gleaner::gc {

namespace {

void Add(double* sum, double value, double memory) { *sum += value - *sum / memory; }

}  // namespace

// The clock of a process's processor time lags behind for threads that run on other processors, by
// a tick of the scheduler. So it only tells, over several periods, how many processors the program
// keeps busy. In a stop they stand still. The collecting thread's own clock does not lag, and does
// not count the time in which the thread waits for a processor.
void AllowanceLaw::Learn(const Period& period) {
  const auto run_ns = static_cast<double>(period.run_ns);
  const auto concurrent_ns = static_cast<double>(period.concurrent_processor_ns);
  Add(&run_ns_, run_ns, kMemory);
  Add(&run_processor_ns_, static_cast<double>(period.run_processor_ns), kMemory);
  const double part = run_ns_ > 0 ? run_processor_ns_ / run_ns_ : 1;
  Add(&program_ns_, part * run_ns, kMemory);
  all_program_ns_ += part * run_ns;
  touch_ns_per_byte_ = period.touch_ns_per_byte;
  Add(&collection_ns_,
      ProcessorsBusy() * static_cast<double>(period.stop_processor_ns) + concurrent_ns, kMemory);
  Add(&allocated_bytes_, static_cast<double>(period.allocated_bytes), kMemory);
  Add(&footprint_bytes_, static_cast<double>(period.footprint_bytes), kMemory);
}

// At least 1: a program that waits for a processor, or for input, has one thread that runs or none.
double AllowanceLaw::ProcessorsBusy() const {
  return run_processor_ns_ > run_ns_ ? run_processor_ns_ / run_ns_ : 1;
}

double AllowanceLaw::cost_ratio() const {
  if (program_ns_ <= 0 || footprint_bytes_ <= 0) return 0;
  return collection_ns_ / footprint_bytes_ * allocated_bytes_ / program_ns_;
}

uint64_t AllowanceLaw::BytesAllocatedIn(uint64_t ns) const {
  if (program_ns_ <= 0) return 0;
  return static_cast<uint64_t>(ProcessorsBusy() * static_cast<double>(ns) * allocated_bytes_ /
                               program_ns_);
}

uint64_t AllowanceLaw::Bytes(uint64_t footprint_bytes, uint64_t live_bytes, uint64_t in_cycle_bytes,
                             uint64_t free_space_divisor) const {
  if (program_ns_ <= 0) return in_cycle_bytes;
  constexpr double kDefaultDivisor = 3;
  const auto footprint = static_cast<double>(footprint_bytes);
  const double touch_part = touch_ns_per_byte_ * footprint / all_program_ns_;
  double growth = std::sqrt(kTimeWeight * cost_ratio() / (1 + kTimeWeight * touch_part));
  if (growth > kMaxGrowth) growth = kMaxGrowth;
  double bytes = growth * footprint;
  const double min = kMinGrowth * static_cast<double>(live_bytes);
  if (bytes < min) bytes = min;
  const double scale = kDefaultDivisor / static_cast<double>(free_space_divisor);
  return in_cycle_bytes + static_cast<uint64_t>(bytes * scale);
}

}  // namespace gleaner::gc
