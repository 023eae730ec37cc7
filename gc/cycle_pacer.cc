#include "gc/cycle_pacer.h"

#include "alloc/hooks.h"
#include "alloc/page_space.h"
#include "platform/clock.h"

namespace gleaner::gc {

// Time for `workers` to mark as many bytes as the last collection did, and the huge objects
// allocated since.
uint64_t CyclePacer::ExpectedMarkNs(int workers) const {
  const uint64_t bytes = cycle_.last_scanned_bytes() +
                         alloc::g_huge_bytes.Load(platform::memory_order_relaxed);  // a count
  return static_cast<uint64_t>(static_cast<double>(bytes) * ns_per_byte_ / workers);
}

bool CyclePacer::IsAllocationPressing() const {
  const uint64_t now = platform::NowNs();
  if (last_end_ns_ == 0 || now <= last_end_ns_) return false;
  const uint64_t used_ns = platform::ProcessorNs() - last_end_processor_ns_;
  if (used_ns < (now - last_end_ns_) * static_cast<uint64_t>(pool_.size()) * 4 / 5) return false;
  const double pace =
      static_cast<double>(pacer_.AllocatedSinceStop()) / static_cast<double>(now - last_end_ns_);
  const auto mark_ns = static_cast<double>(ExpectedMarkNs(background_markers_));
  return pace * mark_ns * 1.5 > static_cast<double>(pacer_.allowance()) / 4;
}

// How many bytes before the end of the allowance a cycle begins.
ptrdiff_t CyclePacer::Runway() const {
  const ptrdiff_t allowance = pacer_.allowance();
  const ptrdiff_t usual = cycle_bytes_.Load(platform::memory_order_relaxed);  // a hint
  const ptrdiff_t least = allowance / 16;
  const ptrdiff_t most = allowance / 2;
  if (usual >= most) return most;
  return usual + usual / 4 > least ? usual + usual / 4 : least;
}

bool CyclePacer::IsDue(bool minor_next) const {
  return IsWanted() || (!minor_next && pacer_.allocated() >= pacer_.allowance() - Runway());
}

bool CyclePacer::MayBegin(const Tunables& tunables) {
  const uint64_t short_ns =
      tunables.pause_target_ns != 0 && tunables.pause_target_ns < tunables.short_pause_ns
          ? tunables.pause_target_ns
          : tunables.short_pause_ns;
  is_stop_short_ =
      tunables.concurrent_mark && !IsWanted() && ExpectedMarkNs(pool_.size()) < short_ns;
  const bool can = tunables.concurrent_mark && !is_stop_short_;
  can_begin_.Store(can, platform::memory_order_relaxed);  // a hint to others
  return can;
}

void CyclePacer::Begin(const Tunables& tunables) {
  started_at_ = pacer_.allocated();
  background_markers_ = tunables.background_markers;
  slice_bytes_ = tunables.slice_bytes;
  rate_ = tunables.rate / 10.0;
  pressing_ = IsAllocationPressing();
  wanted_.Store(false, platform::memory_order_relaxed);  // a hint to others
}

uint64_t CyclePacer::NoteCycleBytes() {
  const ptrdiff_t last = pacer_.allocated() - started_at_;
  const ptrdiff_t before = cycle_bytes_.Load(platform::memory_order_relaxed);  // under the lock
  const ptrdiff_t smoothed = before == PTRDIFF_MAX ? last : before + (last - before) / 4;
  cycle_bytes_.Store(smoothed > last ? smoothed : last,
                     platform::memory_order_relaxed);  // a hint to others
  return last > 0 ? static_cast<uint64_t>(last) : 0;
}

void CyclePacer::NoteStop(bool marked_all, const PauseTimes& pause, int markers,
                          uint64_t scanned_bytes, uint64_t end_ns, bool tracks_processor_time) {
  last_end_ns_ = end_ns;
  last_end_processor_ns_ = tracks_processor_time ? platform::ProcessorNs() : 0;
  constexpr uint64_t kMinBytes = 256 * kKiB;  // a shorter marking measures nothing
  if (!marked_all || scanned_bytes < kMinBytes || mark_time_is_given_) return;
  ns_per_byte_ = static_cast<double>(pause.of(PausePart::kMark)) * markers /
                 static_cast<double>(scanned_bytes);
}

bool CyclePacer::IsBehind() const {
  constexpr double kAhead = 1.0 / 8;
  const ptrdiff_t to = pacer_.allowance();
  if (to <= started_at_) return true;
  const double used =
      static_cast<double>(pacer_.allocated() - started_at_) / static_cast<double>(to - started_at_);
  return used * rate_ > cycle_.Progress() + kAhead;
}

uint64_t CyclePacer::SliceBytes(uint64_t allocated_bytes) const {
  constexpr uint64_t kMin = 64 * kKiB;
  constexpr uint64_t kMax = 1 * kMiB;  // some 0.5 ms
  if (slice_bytes_ != 0) return slice_bytes_;
  const ptrdiff_t allowance = pacer_.allowance();
  const ptrdiff_t least_room = allowance / 64 + 1;
  const ptrdiff_t room = allowance - pacer_.allocated();
  const double ratio = static_cast<double>(cycle_.WorkLeft()) /
                       static_cast<double>(room > least_room ? room : least_room);
  const double wanted = ratio * rate_ * static_cast<double>(allocated_bytes);
  return wanted < kMin ? kMin : wanted > kMax ? kMax : static_cast<uint64_t>(wanted);
}

}  // namespace gleaner::gc
