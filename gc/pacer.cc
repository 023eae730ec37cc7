#include "gc/pacer.h"

#include "alloc/hooks.h"

namespace gleaner::gc {
namespace {

// A thread reports when it has allocated this share of the allowance, so that even many threads
// together overshoot by little.
constexpr size_t kReportsPerAllowance = 32;
constexpr size_t kMinReportBytes = 4 * kKiB;
constexpr size_t kMaxReportBytes = 1 * kMiB;

}  // namespace

void Pacer::Configure(const PacerConfig& config) {
  config_ = config;
  if (config_.free_space_divisor == 0) config_.free_space_divisor = 1;
  SetAllowance();
}

void Pacer::ExpandHeap(size_t bytes) {
  expanded_bytes_ += bytes;
  SetAllowance();
}

void Pacer::StartCycle(uint64_t live_bytes, size_t root_bytes) {
  live_bytes_ = live_bytes;
  root_bytes_ = root_bytes;
  allocated_.Store(0, platform::memory_order_relaxed);  // the world is stopped
  SetAllowance();
}

void Pacer::SetAllowance() {
  size_t allowance = (2 * live_bytes_ + root_bytes_) / config_.free_space_divisor;
  if (allowance < config_.min_allowance_bytes) allowance = config_.min_allowance_bytes;
  const uint64_t wanted = config_.initial_heap_bytes + expanded_bytes_;
  if (wanted > live_bytes_ && allowance < wanted - live_bytes_) allowance = wanted - live_bytes_;
  if (config_.stress_bytes != 0) allowance = config_.stress_bytes;
  // Relaxed: see OnAllocated.
  allowance_.Store(static_cast<ptrdiff_t>(allowance), platform::memory_order_relaxed);
  size_t report = allowance / kReportsPerAllowance;
  if (report < kMinReportBytes) report = kMinReportBytes;
  if (report > kMaxReportBytes) report = kMaxReportBytes;
  if (config_.stress_bytes != 0 && report > config_.stress_bytes) report = config_.stress_bytes;
  alloc::g_poll_bytes = report;
}

}  // namespace gleaner::gc
