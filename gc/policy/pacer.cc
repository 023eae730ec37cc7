#include "gc/policy/pacer.h"

#include "alloc/hooks.h"

namespace gleaner::gc {
namespace {

// All threads together overshoot the allowance by at most 1/kReportsPerAllowance: each thread
// reports when it has allocated its share of that.
constexpr size_t kReportsPerAllowance = 16;
constexpr size_t kMinReportBytes = 4 * kKiB;

constexpr uint64_t Max(uint64_t a, uint64_t b) { return a < b ? b : a; }
constexpr uint64_t Min(uint64_t a, uint64_t b) { return a < b ? a : b; }

// As a threshold: sums of two of them are in range.
ptrdiff_t Threshold(uint64_t bytes) {
  constexpr uint64_t kMax = PTRDIFF_MAX / 4;
  return static_cast<ptrdiff_t>(bytes < kMax ? bytes : kMax);
}

// After a minor collection at least 1/kMinShareLeft of the allowance is left, whatever it has kept.
// A minor collection that keeps as much as that is followed by a full one
// (gc/policy/generations.h).
constexpr uint64_t kMinShareLeft = 4;

}  // namespace

void Pacer::Configure(const PacerConfig& config) {
  config_ = config;
  if (config_.free_space_divisor == 0) config_.free_space_divisor = 1;
  ExpandHeapTo(config_.initial_heap_bytes);
}

void Pacer::ExpandHeapTo(size_t bytes) {
  if (bytes > wanted_bytes()) wanted_bytes_.Set(bytes);
  SetAllowance();
}

void Pacer::StartCycle(const PacerInput& found) {
  found_ = found;
  if (config_.stress_bytes != 0) found_.in_cycle_bytes = 0;  // collect after exactly that many
  DiscountAllocatedInCycle();
  max_report_bytes_ = kMaxReportBytes;
  surplus_cycles_before_ = surplus_cycles_;
  LearnReleased();
  allocated_.Set(static_cast<ptrdiff_t>(found_.in_cycle_bytes));
  found_.period.footprint_bytes = FootprintBytes();
  found_.period.touch_ns_per_byte = config_.touch_ns_per_byte;
  law_.Learn(found_.period);
  CountSurplus();
  SetAllowance();
  SetWorth();
}

void Pacer::SetWorth() {
  constexpr double kShare = 8;
  const double touch = config_.touch_ns_per_byte;
  // The stop holds up all processors that the program keeps busy.
  const double stop = kShare * static_cast<double>(found_.full_stop_ns) * law_.ProcessorsBusy();
  const bool may = touch > 0 && found_.full_stop_ns < config_.longest_stop_ns;
  pays_from_.Set(may && stop / touch < static_cast<double>(PTRDIFF_MAX)
                     ? static_cast<size_t>(stop / touch)
                     : SIZE_MAX);
  touch_ns_per_byte_.Set(touch);
}

// Minor collections take from what is registered what dies young. Most of what the program keeps
// is found to be kept after some collections that were not worth it, so these become rare.
void Pacer::LearnReleased() {
  if (found_.is_minor) {
    allocated_before_ += allocated();
    ran_before_ns_ += found_.period.run_ns;
    return;
  }
  LearnOutside();
  constexpr double kMemory = 8;
  const uint64_t before = found_.finalizable + found_.finalized;
  if (before > finalizable_) {
    finalizable_added_ += static_cast<double>(before - finalizable_) - finalizable_added_ / kMemory;
    finalized_ += static_cast<double>(found_.finalized) - finalized_ / kMemory;
    finalized_part_ = finalized_ < finalizable_added_ ? finalized_ / finalizable_added_ : 1;
  }
  finalizable_ = found_.finalizable;
  allocated_before_ = 0;
  wants_full_.Set(false);
}

void Pacer::LearnOutside() {
  if (outside_is_due_ && !outside_has_grown_ && ++outside_quiet_ >= outside_trust_) {
    outside_weight_ /= 2;
    outside_quiet_ = 0;
    outside_has_gone_down_ = true;
  }
  outside_bytes_ = UINT64_MAX;
  outside_is_due_ = outside_has_grown_ = false;
  next_look_ = 0;
  ran_before_ns_ = 0;
}

bool Pacer::WeighProcessBytes(size_t finalizable, uint64_t process_bytes, uint64_t ran_ns) {
  if (outside_bytes_ > process_bytes) outside_bytes_ = process_bytes;
  const uint64_t grown = process_bytes - outside_bytes_;
  if (grown < kMinOutsideBytes / 4) {
    outside_at_ = finalizable;
  } else if (grown >= kMinOutsideBytes && finalizable > outside_at_) {
    const double weight =
        static_cast<double>(grown) / static_cast<double>(finalizable - outside_at_);
    if (outside_has_gone_down_ && weight > 1.5 * outside_weight_) {
      if (outside_trust_ < kMaxTrust) outside_trust_ *= 2;
      outside_has_gone_down_ = false;
    }
    outside_weight_ = weight;
    outside_has_grown_ = true;
    outside_quiet_ = 0;
  }
  if (finalizable <= finalizable_) return false;
  const double added = static_cast<double>(finalizable - finalizable_) * outside_weight_;
  const double bytes = finalized_part_ * added;
  const auto ran = static_cast<double>(ran_before_ns_ + ran_ns);
  const auto stop = static_cast<double>(found_.full_stop_ns);
  const auto outside = static_cast<double>(process_bytes);
  const double footprint =
      static_cast<double>(LiveBytes()) + (outside > added ? outside - added : 0);
  if (bytes < static_cast<double>(kMinOutsideBytes) || ran < kRest * stop ||
      bytes * ran < kOutsideWeight * stop * footprint) {
    return false;
  }
  outside_is_due_ = true;
  WantFull(finalizable);
  return true;
}

void Pacer::Amend(uint64_t live_scanned_bytes, uint64_t live_pointer_free_bytes,
                  uint64_t free_resident_bytes) {
  found_.live_scanned_bytes = live_scanned_bytes;
  found_.live_pointer_free_bytes = live_pointer_free_bytes;
  found_.free_resident_bytes = free_resident_bytes;
  DiscountAllocatedInCycle();
  CountSurplus();
  SetAllowance();
}

// It is not known which of the live objects were allocated during the cycle: subtracts the same
// share of every sort.
void Pacer::DiscountAllocatedInCycle() {
  const uint64_t live = LiveBytes();
  if (found_.in_cycle_bytes == 0 || live == 0) return;
  const double share = static_cast<double>(found_.in_cycle_bytes) / static_cast<double>(live);
  const double kept = share < 0.75 ? 1 - share : 0.25;
  for (uint64_t* bytes : {&found_.live_scanned_bytes, &found_.live_pointer_free_bytes}) {
    *bytes = static_cast<uint64_t>(kept * static_cast<double>(*bytes));
  }
}

void Pacer::CountSurplus() {
  const bool surplus =
      found_.free_resident_bytes > MaxUsefulFreeBytes() && found_.resident_bytes > wanted_bytes();
  surplus_cycles_ = surplus ? surplus_cycles_before_ + 1 : 0;
}

// With more free memory than this, collecting later saves little time. What the law gives is
// touched again in each period, with the eighth by which threads may overshoot.
uint64_t Pacer::MaxUsefulFreeBytes() const {
  const uint64_t by_live = 32 * kMiB + 4 * LiveBytes();
  const uint64_t by_law = BytesByLaw() + BytesByLaw() / 8;
  return by_live > by_law ? by_live : by_law;
}

// How many bytes can be allocated until the heap has `heap_bytes`, not counting those allocated
// during the last cycle.
uint64_t Pacer::BytesThatFit(uint64_t heap_bytes, bool early) const {
  uint64_t used = LiveBytes();
  // Free memory in partly used pages counts half: it serves few sizes.
  if (early) used = (used + found_.resident_bytes - found_.free_resident_bytes) / 2;
  const uint64_t fit = heap_bytes > used ? heap_bytes - used : 0;
  return early ? fit - fit / 8 : fit;
}

uint64_t Pacer::HeapBytesInLimit() const {
  const uint64_t limit = config_.soft_limit_bytes;
  if (limit == 0) return SIZE_MAX;
  return limit > config_.process_bytes ? limit - config_.process_bytes : 0;
}

// What the law gives, less what a minor collection keeps.
uint64_t Pacer::AllowanceByLaw() const {
  const uint64_t by_law = BytesByLaw();
  const bool is_kept_most = found_.kept_bytes > by_law - by_law / kMinShareLeft;
  return Max(is_kept_most ? by_law / kMinShareLeft : by_law - found_.kept_bytes,
             config_.min_allowance_bytes);
}

// What fits into the free pages, as far as they are no surplus.
uint64_t Pacer::AllowanceByFreeMemory() const {
  const uint64_t free = Min(found_.free_resident_bytes, MaxUsefulFreeBytes());
  return free - free / 8 + found_.in_cycle_bytes;
}

// What fits into the heap that the program has asked for.
uint64_t Pacer::AllowanceByAskedHeap() const {
  return BytesThatFit(wanted_bytes(), config_.early) + found_.in_cycle_bytes;
}

// What fits into the largest heap that the program allows. Without `early` a collection comes when
// no pages are left.
uint64_t Pacer::MaxAllowanceByHeap() const {
  if (!config_.early || config_.max_heap_bytes == 0) return UINT64_MAX;
  return Max(BytesThatFit(config_.max_heap_bytes, true) + found_.in_cycle_bytes,
             config_.min_allowance_bytes);
}

// The limit is let go where stop-parallel collections would otherwise take half of the time.
Pacer::SoftLimit Pacer::FindSoftLimit() const {
  SoftLimit limit;
  limit.heap_bytes = HeapBytesInLimit();
  limit.let_go_at = Max(law_.BytesAllocatedIn(found_.full_stop_ns), config_.min_allowance_bytes);
  const uint64_t fit = BytesThatFit(limit.heap_bytes, true);
  limit.fitting_bytes = fit - Min(found_.kept_bytes, fit) + found_.in_cycle_bytes;
  return limit;
}

// Whether `allowance` might not fit below the limit. In the worst case nothing fits into the partly
// used pages.
bool Pacer::MayPass(const SoftLimit& limit, uint64_t allowance) const {
  const uint64_t used = found_.resident_bytes - found_.free_resident_bytes;
  return allowance > limit.fitting_bytes || allowance + used > limit.heap_bytes;
}

void Pacer::OnThreads(size_t threads) {
  const auto share = static_cast<size_t>(share_.Get());
  const size_t report = share / (kReportsPerAllowance * threads);
  const auto bytes = static_cast<ptrdiff_t>(report < kMinReportBytes ? kMinReportBytes : report);
  if (bytes < alloc::g_poll_bytes.Get()) alloc::g_poll_bytes.Set(bytes);
}

// At the end, unless stress_bytes overrules everything:
//   min_allowance_bytes <= share <= allowance
//   allowance <= what fits below the soft limit, or what lets the limit go
//   allowance <= what fits into the largest heap, with PacerConfig::early, or the minimum
// The maxima come before all else, the soft limit first. Below them the allowance is the largest of
// what the heap asked for has room for, what the free memory has room for, what the law gives, and
// the minimum; the share is what the law gives, or the minimum.
void Pacer::SetAllowance() {
  const uint64_t by_law = AllowanceByLaw();
  const SoftLimit limit = FindSoftLimit();
  uint64_t allowance = Max(by_law, Max(AllowanceByFreeMemory(), AllowanceByAskedHeap()));
  allowance = Min(allowance, MaxAllowanceByHeap());
  is_near_limit_ = MayPass(limit, allowance);
  misses_limit_ = limit.IsLetGo() && found_.resident_bytes > limit.heap_bytes;
  allowance = Min(allowance, limit.MaxAllowance());
  uint64_t share = Min(by_law, allowance);
  GLEANER_DCHECK(config_.min_allowance_bytes <= share && share <= allowance &&
                     allowance <= limit.MaxAllowance() && allowance <= MaxAllowanceByHeap(),
                 "an allowance of %zu bytes with a share of %zu", size_t{allowance}, size_t{share});
  if (config_.stress_bytes != 0) allowance = share = config_.stress_bytes;
  const uint64_t to_release = (2 * found_.live_scanned_bytes + found_.live_pointer_free_bytes / 4) /
                              config_.free_space_divisor;
  release_bytes_ = Min(Max(to_release, config_.min_allowance_bytes), by_law);
  heap_bytes_at_limit_.Set(limit.heap_bytes);
  let_go_at_.Set(Threshold(limit.let_go_at));
  share_.Set(Threshold(share));
  // NotBelowWanted reads heap_bytes_at_limit_.
  grown_beyond_.Set(NotBelowWanted(found_.resident_bytes + found_.resident_bytes / 16));
  allowance_.Set(Threshold(allowance));
  alloc::g_poll_bytes.Set(static_cast<ptrdiff_t>(ReportBytes(share)));
}

// After how many allocated bytes each thread reports, with this share.
size_t Pacer::ReportBytes(uint64_t share) const {
  const bool often = max_report_bytes_ < kMaxReportBytes;
  size_t report = share / (kReportsPerAllowance * (often ? 4 : 1) * found_.threads);
  if (report < kMinReportBytes) report = kMinReportBytes;
  if (report > max_report_bytes_) report = max_report_bytes_;
  if (config_.stress_bytes != 0 && report > config_.stress_bytes) report = config_.stress_bytes;
  return report;
}

}  // namespace gleaner::gc
