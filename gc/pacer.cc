#include "gc/pacer.h"

#include "alloc/hooks.h"

namespace gleaner::gc {
namespace {

// All threads together overshoot the allowance by at most 1/kReportsPerAllowance: each thread
// reports when it has allocated its share of that.
constexpr size_t kReportsPerAllowance = 16;
constexpr size_t kMinReportBytes = 4 * kKiB;

// libgc's own weights are 2 and 1/4, but its heap fills up before it collects.
constexpr double kScannedWeight = 1.7;
// For scanned bytes beyond the first 8 MiB: in such a process, memory outside the heap is a smaller
// part of the whole.
constexpr double kManyScannedWeight = 2.4;
constexpr uint64_t kManyScannedBytes = 8 * kMiB;
constexpr double kPointerFreeWeight = 1.15;
// A small heap may be a little larger in a large process, where it is a small part of the whole.
constexpr double kProcessWeight = 0.08;
// For a process of one thread. Several threads need more pages for the same live bytes: each has
// its own pages in every size class, whose free slots the other threads cannot use.
constexpr double kLonePointerFreeWeight = 1.9;
// For pointer-free bytes beyond the first 24 MiB, for any number of threads.
constexpr double kManyPointerFreeWeight = 0.8;
constexpr uint64_t kManyPointerFreeBytes = 24 * kMiB;

// How the allowance follows the share of time that several threads stand still.
constexpr double kMaxCostFactor = 1.5;
constexpr double kCostStep = 0.125;
constexpr uint64_t kCostly = 3;                  // pauses take more than 1/kCostly of the time
constexpr uint64_t kCheap = 5;                   // pauses take less than 1/kCheap of the time
constexpr uint64_t kMaxCostlyBytes = 32 * kMiB;  // the factor does not apply to bytes beyond

// The allowance of concurrent cycles in a process of several busy threads is larger by
// 1/kConcurrentShare of itself and of the live bytes.
constexpr uint64_t kConcurrentShare = 4;

// After a minor collection at least 1/kMinShareLeft of the allowance is left, whatever it has kept.
// A minor collection that keeps as much as that is followed by a full one (gc/generations.h).
constexpr uint64_t kMinShareLeft = 4;

// The first `few` bytes count with one weight, those beyond with another.
double Weigh(uint64_t bytes, uint64_t few, double weight, double weight_beyond) {
  if (few > bytes) few = bytes;
  return weight * static_cast<double>(few) + weight_beyond * static_cast<double>(bytes - few);
}

}  // namespace

void Pacer::Configure(const PacerConfig& config) {
  config_ = config;
  if (config_.free_space_divisor == 0) config_.free_space_divisor = 1;
  ExpandHeapTo(config_.initial_heap_bytes);
}

void Pacer::ExpandHeapTo(size_t bytes) {
  // Relaxed: written under the collector lock.
  if (bytes > wanted_bytes()) wanted_bytes_.Store(bytes, platform::memory_order_relaxed);
  SetAllowance();
}

void Pacer::StartCycle(const PacerInput& found) {
  found_ = found;
  if (config_.stress_bytes != 0) found_.in_cycle_bytes = 0;  // collect after exactly that many
  DiscountAllocatedInCycle();
  max_report_bytes_ = kMaxReportBytes;
  surplus_cycles_before_ = surplus_cycles_;
  NoteSurplus();
  // Relaxed, both: the world is stopped.
  allocated_.Store(static_cast<ptrdiff_t>(found_.in_cycle_bytes), platform::memory_order_relaxed);
  pressure_.Store(0, platform::memory_order_relaxed);
  NoteCost();
  SetAllowance();
}

void Pacer::Amend(uint64_t live_scanned_bytes, uint64_t live_pointer_free_bytes,
                  uint64_t unpadded_bytes, uint64_t free_resident_bytes) {
  found_.live_scanned_bytes = live_scanned_bytes;
  found_.live_pointer_free_bytes = live_pointer_free_bytes;
  found_.unpadded_bytes = unpadded_bytes;
  found_.free_resident_bytes = free_resident_bytes;
  DiscountAllocatedInCycle();
  NoteSurplus();
  SetAllowance();
}

// It is not known which of the live objects were allocated during the cycle: subtracts the same
// share of every sort.
void Pacer::DiscountAllocatedInCycle() {
  const uint64_t live = found_.live_scanned_bytes + found_.live_pointer_free_bytes;
  if (found_.in_cycle_bytes == 0 || live == 0) return;
  const double share = static_cast<double>(found_.in_cycle_bytes) / static_cast<double>(live);
  const double kept = share < 0.75 ? 1 - share : 0.25;
  for (uint64_t* bytes :
       {&found_.live_scanned_bytes, &found_.live_pointer_free_bytes, &found_.unpadded_bytes}) {
    *bytes = static_cast<uint64_t>(kept * static_cast<double>(*bytes));
  }
}

void Pacer::NoteSurplus() {
  const bool surplus =
      found_.free_resident_bytes > MaxUsefulFreeBytes() && found_.resident_bytes > wanted_bytes();
  surplus_cycles_ = surplus ? surplus_cycles_before_ + 1 : 0;
}

void Pacer::NoteCost() {
  const uint64_t cycle_ns = found_.pause_ns + found_.since_last_ns;
  if (found_.several_busy && found_.pause_ns > cycle_ns / kCostly) {
    if (cost_factor_ < kMaxCostFactor) cost_factor_ += kCostStep;
  } else if (!found_.several_busy || found_.pause_ns < cycle_ns / kCheap) {
    if (cost_factor_ > 1) cost_factor_ -= kCostStep;
  }
}

// With more free memory than this, collecting later saves little time.
uint64_t Pacer::MaxUsefulFreeBytes() const {
  return 32 * kMiB + 4 * (found_.live_scanned_bytes + found_.live_pointer_free_bytes);
}

// How many bytes can be allocated until the heap has `heap_bytes`, not counting those allocated
// during the last cycle.
uint64_t Pacer::BytesThatFit(uint64_t heap_bytes) const {
  uint64_t used = found_.live_scanned_bytes + found_.live_pointer_free_bytes;
  // Free memory in partly used pages counts half: it serves few sizes.
  if (config_.early) used = (used + found_.resident_bytes - found_.free_resident_bytes) / 2;
  const uint64_t fit = heap_bytes > used ? heap_bytes - used : 0;
  return config_.early ? fit - fit / 8 : fit;
}

void Pacer::OnThreads(size_t threads) {
  // Relaxed, all: thresholds; a thread that sees an old one reports a little early or late.
  const auto share = static_cast<size_t>(share_.Load(platform::memory_order_relaxed));
  const size_t report = share / (kReportsPerAllowance * threads);
  const auto bytes = static_cast<ptrdiff_t>(report < kMinReportBytes ? kMinReportBytes : report);
  if (bytes < alloc::g_poll_bytes.Load(platform::memory_order_relaxed)) {
    alloc::g_poll_bytes.Store(bytes, platform::memory_order_relaxed);
  }
}

void Pacer::SetAllowance() {
  const bool several_threads = found_.threads > 1;
  const double pointer_free_weight = several_threads ? kPointerFreeWeight : kLonePointerFreeWeight;
  const uint64_t scanned = found_.live_scanned_bytes + found_.unpadded_bytes;
  const uint64_t costly = scanned < kMaxCostlyBytes ? scanned : kMaxCostlyBytes;
  const double weighted =
      Weigh(scanned, kManyScannedBytes, kScannedWeight, kManyScannedWeight) +
      (cost_factor_ - 1) * Weigh(costly, kManyScannedBytes, kScannedWeight, kManyScannedWeight) +
      Weigh(found_.live_pointer_free_bytes, kManyPointerFreeBytes, pointer_free_weight,
            kManyPointerFreeWeight) +
      static_cast<double>(found_.root_bytes) +
      kProcessWeight * static_cast<double>(config_.process_bytes);
  auto allowance =
      static_cast<uint64_t>(weighted / static_cast<double>(config_.free_space_divisor)) +
      found_.unpadded_bytes / 2;
  if (found_.concurrent && found_.several_busy) {
    allowance += (scanned + found_.live_pointer_free_bytes + allowance) / kConcurrentShare;
  }
  if (found_.kept_bytes > allowance - allowance / kMinShareLeft) {
    allowance /= kMinShareLeft;
  } else {
    allowance -= found_.kept_bytes;
  }
  if (allowance < config_.min_allowance_bytes) allowance = config_.min_allowance_bytes;
  uint64_t share = allowance;
  uint64_t free = found_.free_resident_bytes;
  if (free > MaxUsefulFreeBytes()) free = MaxUsefulFreeBytes();
  free -= free / 8;
  free += found_.in_cycle_bytes;
  if (allowance < free) allowance = free;
  uint64_t room = free < config_.min_allowance_bytes ? config_.min_allowance_bytes : free;
  const uint64_t fit = BytesThatFit(wanted_bytes()) + found_.in_cycle_bytes;
  if (allowance < fit) allowance = fit;
  if (room < fit) room = fit;
  if (config_.early && config_.max_heap_bytes != 0) {
    uint64_t most = BytesThatFit(config_.max_heap_bytes) + found_.in_cycle_bytes;
    if (most < config_.min_allowance_bytes) most = config_.min_allowance_bytes;
    if (allowance > most) allowance = most;
    if (share > allowance) share = allowance;
  }
  if (config_.stress_bytes != 0) allowance = share = config_.stress_bytes;
  if (room > allowance) room = allowance;
  // Relaxed, all four: a thread that sees an old threshold collects a little early or late.
  room_.Store(static_cast<ptrdiff_t>(room), platform::memory_order_relaxed);
  share_.Store(static_cast<ptrdiff_t>(share), platform::memory_order_relaxed);
  grown_beyond_.Store(NotBelowWanted(found_.resident_bytes + found_.resident_bytes / 16),
                      platform::memory_order_relaxed);  // a threshold
  allowance_.Store(static_cast<ptrdiff_t>(allowance), platform::memory_order_relaxed);
  const bool often = max_report_bytes_ < kMaxReportBytes;
  size_t report = share / (kReportsPerAllowance * (often ? 4 : 1) * found_.threads);
  if (report < kMinReportBytes) report = kMinReportBytes;
  if (report > max_report_bytes_) report = max_report_bytes_;
  if (config_.stress_bytes != 0 && report > config_.stress_bytes) report = config_.stress_bytes;
  alloc::g_poll_bytes.Store(static_cast<ptrdiff_t>(report),
                            platform::memory_order_relaxed);  // a threshold
}

}  // namespace gleaner::gc
