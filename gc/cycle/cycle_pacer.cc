#include "gc/cycle/cycle_pacer.h"

#include "alloc/hooks.h"
#include "alloc/page_space.h"
#include "platform/os/clock.h"

namespace gleaner::gc {

namespace {

// A cycle takes this times as long as marking everything once: what is written meanwhile is scanned
// again.
constexpr double kRescanFactor = 1.5;

}  // namespace

// The forecast does not know how many of the huge objects allocated since the last collection stay:
// it expects all of them.
uint64_t CyclePacer::ExpectedScanBytes() const {
  const ptrdiff_t due = pacer_.allowance() - static_cast<ptrdiff_t>(pacer_.found().in_cycle_bytes);
  const ptrdiff_t allocated = pacer_.AllocatedSinceStop();
  const ptrdiff_t at_stop = allocated > due ? allocated : due;
  const uint64_t expected = forecast_.ScanBytes(at_stop > 0 ? static_cast<uint64_t>(at_stop) : 0);
  const uint64_t with_huge = forecast_.ScanBytes(0) + alloc::g_huge_bytes.Get();
  return expected > with_huge ? expected : with_huge;
}

uint64_t CyclePacer::ExpectedStopNs() const {
  return forecast_.StopNs(ExpectedScanBytes(), pool_.size(),
                          alloc::ResidentBytes() >> alloc::kPageShift);
}

// What the program allocates during a cycle, at its pace since the last collection. If all
// processors are busy, the markers slow the program down as much as the program slows them down.
double CyclePacer::BytesAllocatedWhileMarking(int background_markers) const {
  return Pace() * kRescanFactor * static_cast<double>(ExpectedMarkNs(background_markers));
}

// Bytes per nanosecond that the program has allocated since the last stop; 0 if that is not known.
double CyclePacer::Pace() const {
  const uint64_t now = platform::NowNs();
  if (last_end_ns_ == 0 || now <= last_end_ns_) return 0;
  return static_cast<double>(pacer_.AllocatedSinceStop()) / static_cast<double>(now - last_end_ns_);
}

// Processor time of the program from the last stop until the allowance is used up, at the pace
// since.
double CyclePacer::RunNs() const {
  const uint64_t now = platform::NowNs();
  if (last_end_ns_ == 0 || now <= last_end_ns_) return 0;
  const auto allocated = static_cast<double>(pacer_.AllocatedSinceStop());
  const auto allowance = static_cast<double>(pacer_.allowance());
  const double part = allocated > 0 && allocated < allowance ? allocated / allowance : 1;
  return static_cast<double>(now - last_end_ns_) * pacer_.processors_busy() / part;
}

// How much processor time the program loses while a concurrent cycle is under way. A cycle takes
// the processors that are not idle from the program while it marks, and makes its first writes to
// memory slow. Before the first cycle it is not known how much the program writes: all that is
// armed at most, and no more than it can in the time of the marking. That is the least. What the
// program loses by sharing caches and cores with the markers, and by marking itself, is known from
// the cycles before.
double CyclePacer::ExpectedSlowdownNs(const Tunables& tunables) const {
  const double processors = pool_.size();
  double busy = pacer_.processors_busy();
  if (busy > processors) busy = processors;
  const double markers = tunables.background_markers;
  const double marking = kRescanFactor * static_cast<double>(ExpectedMarkNs(1));
  double taken = (markers - (processors - busy)) / markers;
  if (taken < 0) taken = 0;
  double faults;
  if (written_bytes_ != UINT64_MAX) {
    faults = writes_.FaultNs(written_bytes_);
  } else {
    const double max = marking / markers * busy;
    faults = writes_.FaultNs(static_cast<uint64_t>(writes_.ExpectedBytes(ExpectedScanBytes())));
    if (faults > max) faults = max;
  }
  const double min = marking * taken + faults;
  const double seen = slowdown_ * static_cast<double>(ExpectedScanBytes());
  return seen > min ? seen : min;
}

Measurements CyclePacer::Measure(const Tunables& tunables) const {
  // In a stop, all that the program keeps busy stands still.
  double busy = pacer_.processors_busy();
  if (busy > pool_.size()) busy = pool_.size();
  Measurements found;
  found.expected_stop_ns = ExpectedStopNs();
  found.garbage_in_cycle_bytes =
      (1 - forecast_.growth()) * BytesAllocatedWhileMarking(tunables.background_markers);
  found.cycle_ns = ExpectedSlowdownNs(tunables);
  found.stop_ns = busy * static_cast<double>(found.expected_stop_ns);
  found.excess_ns = busy * excess_ns_per_byte_ * static_cast<double>(pacer_.allowance());
  found.run_ns = RunNs();
  found.budget = budget_;
  return found;
}

bool CyclePacer::IsAllocationPressing() const {
  const uint64_t now = platform::NowNs();
  if (last_end_processor_ns_ == 0 || now <= last_end_ns_) return false;
  const uint64_t used_ns = platform::ProcessorNs() - last_end_processor_ns_;
  if (used_ns < (now - last_end_ns_) * static_cast<uint64_t>(pool_.size()) * 4 / 5) return false;
  return BytesAllocatedWhileMarking(background_markers_) >
         static_cast<double>(pacer_.allowance()) / 4;
}

void CyclePacer::Begin(const Tunables& tunables) {
  started_at_ = pacer_.allocated();
  started_ns_ = platform::NowNs();
  started_processor_ns_ = tunables.processor_clocks ? platform::ProcessorNs() : 0;
  pace_before_ = Pace();
  background_markers_ = tunables.background_markers;
  slice_bytes_ = tunables.slice_bytes;
  rate_ = tunables.rate / 10.0;
  pressing_ = IsAllocationPressing();
}

// The program has allocated `cycle_bytes` in the cycle. At its pace before, that would have taken
// it less time. A program that waits tells nothing.
void CyclePacer::LearnSlowdown(ptrdiff_t cycle_bytes) {
  if (pace_before_ <= 0) return;
  const uint64_t took_ns = platform::NowNs() - started_ns_;
  if (started_processor_ns_ != 0 &&
      2 * (platform::ProcessorNs() - started_processor_ns_) < took_ns) {
    return;
  }
  const auto took = static_cast<double>(took_ns);
  const double lost = took - static_cast<double>(cycle_bytes) / pace_before_;
  const double slowdown = (lost > 0 ? lost : 0) * pacer_.processors_busy() /
                          static_cast<double>(ExpectedScanBytes() + 1);
  slowdown_ = slowdown_ < 0 ? slowdown : slowdown_ + (slowdown - slowdown_) / 4;
}

ptrdiff_t CyclePacer::EndCycle(const Tunables& tunables) {
  const ptrdiff_t bytes = pacer_.allocated() - started_at_;
  written_bytes_ = writes_.written_bytes();
  LearnSlowdown(bytes);
  if (tunables.weighs_cost) {
    // What the pause goal is worth is no loss.
    Measurements found = Measure(tunables);
    found.allowance_bytes = pacer_.allowance();
    budget_.AddLoss(LossOfCycle(found) - found.run_ns / kGoalPrice);
  }
  return bytes;
}

void CyclePacer::LearnExcess(Kind kind, double ns_per_byte) {
  const bool is_pair = kind != last_kind_ && kind != Kind::kOther && last_kind_ != Kind::kOther;
  if (is_pair) {
    const double by_cycle = kind == Kind::kConcurrent ? ns_per_byte : last_ns_per_byte_;
    const double by_stop = kind == Kind::kConcurrent ? last_ns_per_byte_ : ns_per_byte;
    // A program that takes more than twice as long does something else.
    const double excess = by_cycle < 2 * by_stop ? by_cycle - by_stop : by_stop;
    excess_ns_per_byte_ =
        is_excess_known_ ? excess_ns_per_byte_ + (excess - excess_ns_per_byte_) / 4 : excess;
    is_excess_known_ = true;
  } else if (kind != Kind::kOther) {
    excess_ns_per_byte_ -= excess_ns_per_byte_ / 8;
  }
  last_kind_ = kind;
  last_ns_per_byte_ = ns_per_byte;
}

void CyclePacer::EndStop(Kind kind, uint64_t allocated_bytes, uint64_t end_ns,
                         bool processor_clocks) {
  const uint64_t processor_ns = processor_clocks ? platform::ProcessorNs() : 0;
  if (last_end_ns_ != 0 && last_end_processor_ns_ != 0 && processor_ns != 0) {
    const uint64_t took = end_ns - last_end_ns_;
    // A program that waits tells nothing, nor does a period that has ended early.
    const bool waits = 2 * (processor_ns - last_end_processor_ns_) < took;
    const bool is_short = 4 * allocated_bytes < static_cast<uint64_t>(pacer_.allowance());
    LearnExcess(waits || is_short ? Kind::kOther : kind,
                static_cast<double>(took) / static_cast<double>(allocated_bytes + 1));
  }
  last_end_ns_ = end_ns;
  last_end_processor_ns_ = processor_ns;
}

double CyclePacer::PartUsed(size_t finalizable) const {
  const ptrdiff_t to = pacer_.allowance();
  if (to <= started_at_) return 1;
  const double used =
      static_cast<double>(pacer_.allocated() - started_at_) / static_cast<double>(to - started_at_);
  const double overdue = pacer_.PartOverdue(finalizable);
  return used > overdue ? used : overdue;
}

bool CyclePacer::IsBehind(double part_used) const {
  constexpr double kAhead = 1.0 / 8;
  return part_used * rate_ > cycle_.Progress() + kAhead;
}

uint64_t CyclePacer::SliceBytes(uint64_t allocated_bytes) const {
  constexpr uint64_t kMin = 64 * kKiB;
  constexpr uint64_t kMax = 1 * kMiB;  // some 0.5 ms
  if (slice_bytes_ != 0) return slice_bytes_;
  const ptrdiff_t allowance = pacer_.allowance();
  const ptrdiff_t min_room = allowance / 64 + 1;
  const ptrdiff_t room = allowance - pacer_.allocated();
  const double ratio = static_cast<double>(cycle_.WorkLeft()) /
                       static_cast<double>(room > min_room ? room : min_room);
  const double wanted = ratio * rate_ * static_cast<double>(allocated_bytes);
  return wanted < kMin ? kMin : wanted > kMax ? kMax : static_cast<uint64_t>(wanted);
}

}  // namespace gleaner::gc
