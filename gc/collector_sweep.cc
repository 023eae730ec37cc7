// The collector's part of the sweep: in the stop by all workers, or concurrently by the driver and
// by threads that allocate.
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "gc/collector.h"
#include "observe/events.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

using alloc::ThreadHeaps;

// Below this size, waking a second sweeper takes longer than the work.
constexpr size_t kParallelSweepFromPages = 4096;

void Collector::SweepJob(void* collector, int worker) {
  auto* self = static_cast<Collector*>(collector);
  self->sweeper_.Run(&self->sweep_totals_[worker]);
}

SweepTotals Collector::Sweep(uint8_t dead) {
  for (SweepTotals& totals : sweep_totals_) totals = {};
  sweeper_.Begin(dead);
  pool_.Begin(SweepJob, this);
  if (sweeper_.pages() >= kParallelSweepFromPages) pool_.WakeAll();
  SweepJob(this, 0);
  pool_.Finish();
  SweepTotals swept;
  for (const SweepTotals& totals : sweep_totals_) swept.Add(totals);
  alloc::g_free_counts_lack = false;
  return swept;
}

uint64_t Collector::FreeBytes(const SweepTotals& swept) const {
  const uint64_t used_bytes = swept.used_pages << alloc::kPageShift;
  return resident_at_sweep_ > used_bytes ? resident_at_sweep_ - used_bytes : 0;
}

void Collector::SetLive(CycleReport* report, uint64_t live_bytes) const {
  report->live_bytes = live_bytes;
  report->freed_bytes = live_before_ > live_bytes ? live_before_ - live_bytes : 0;
}

// --- The concurrent sweep ---

// Estimates the totals before any page is swept. Objects and scanned bytes are counted by the
// marker; pointer-free bytes are those of the last collection; a page that is not free counts as
// used.
SweepTotals Collector::BeginConcurrentSweepWorldStopped(uint8_t dead) {
  sweeper_.BeginConcurrentWorldStopped(dead);
  const MarkStatistics marked = marker_.statistics();
  SweepTotals guess;
  guess.live_objects = marked.objects;
  guess.live_scanned_bytes = scanned_bytes_;
  guess.live_pointer_free_bytes = pacer_.found().live_pointer_free_bytes;
  guess.used_pages = alloc::ResidentBytes() >> alloc::kPageShift;
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    const size_t free = ThreadHeaps::ResidentFreePages(space);
    guess.used_pages -= free < guess.used_pages ? free : guess.used_pages;
  }
  return guess;
}

bool Collector::SweepSome() { return g_collector.sweeper_.Step(); }

bool Collector::SweepRest() {
  bool any = false;
  if (!sweeper_.IsConcurrent()) return any;
  const platform::SweepEvent event;
  for (bool more = true; more; any |= more) {
    platform::CriticalSection section;
    more = sweeper_.Step();
  }
  return any;
}

void Collector::StepJob(void* collector, int) { static_cast<Collector*>(collector)->SweepRest(); }

void Collector::FinishSweep() {
  if (!sweeper_.IsConcurrent() || sweeper_.IsDone()) return;
  pool_.Begin(StepJob, this);
  if (sweeper_.pages() >= kParallelSweepFromPages) pool_.WakeAll();
  StepJob(this, 0);
  pool_.Finish();
}

void Collector::EndSweep() {
  GLEANER_CHECK(sweeper_.IsDone(), "a concurrent sweep ends before all is swept");
  sweeper_.EndConcurrent();
  SweepTotals swept;
  if (!sweeper_.TotalsOfSteps(&swept)) return;  // keep the estimate
  pacer_.Amend(swept.live_scanned_bytes, swept.live_pointer_free_bytes, FreeBytes(swept));
  totals_.freed_bytes -= last_.freed_bytes;
  SetLive(&last_, swept.live_bytes());
  last_.live_objects = swept.live_objects;
  totals_.freed_bytes += last_.freed_bytes;
}

void Collector::TryEndSweep() {
  const platform::HandlersWait no_handlers;
  // If the lock is taken, its holder collects and ends the sweep, or the next report ends it.
  if (!lock_.TryAcquire()) return;
  if (sweeper_.IsConcurrent() && sweeper_.IsDone()) {
    EndSweep();
    if (pacer_.ShouldReturnFreeMemory()) ReturnFreeMemory();
  }
  lock_.Release();
}

}  // namespace gleaner::gc
