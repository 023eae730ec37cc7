#include "gc/collector.h"

#include <initializer_list>

#include "alloc/page_space.h"
#include "alloc/thread_heap.h"
#include "alloc/walk.h"
#include "gc/verify.h"
#include "platform/clock.h"

namespace gleaner::gc {

using alloc::ThreadHeap;
using alloc::ThreadHeaps;

constinit Collector g_collector;

namespace {

// Below this, a second marker or sweeper would take longer to wake than the work takes.
constexpr size_t kHelpersFromBytes = 2 * kMiB;
constexpr size_t kParallelSweepFromPages = 4096;

// What a root procedure of the program's pushes through.
struct RootSink : MarkSink {
  RootSink(RootTasks* r, Marker* m) : MarkSink{PushObject, PushRange}, roots(r), marker(m) {}
  static void PushObject(MarkSink* self, Addr word) {
    Marker* marker = static_cast<RootSink*>(self)->marker;
    marker->NoteMarkedByHand();
    MarkSink* objects = marker->worker(0).sink();
    objects->push(objects, word);
  }
  static void PushRange(MarkSink* self, Addr begin, Addr end, bool interior) {
    static_cast<RootSink*>(self)->roots->Add(interior ? RootKind::kStack : RootKind::kData, begin,
                                             end);
  }
  RootTasks* roots;
  Marker* marker;
};

}  // namespace

const char* NameOf(Cause cause) {
  switch (cause) {
    case Cause::kAllocation:
      return "allocation";
    case Cause::kExplicit:
      return "explicit";
    case Cause::kExhausted:
      return "exhausted";
  }
  return "?";
}

bool Collector::Init(const World& world, int max_markers) {
  world_ = world;
  pool_.SetSize(max_markers);
  if (!roots_.Init() || !finalizers_.Init() || !marker_.Init(&pool_, pool_.size())) return false;
  Tunables tunables;
  world_.read_tunables(&tunables);
  pacer_.Configure(tunables.pacer);
  return true;
}

bool Collector::Collect(Cause cause, Addr stack_pointer, int (*give_up)()) {
  const uint64_t seen = collections();
  platform::LockGuard guard(lock_);
  if (cause != Cause::kExplicit && collections() != seen) return false;
  return CollectLocked(cause, stack_pointer, give_up);
}

bool Collector::CollectLocked(Cause cause, Addr stack_pointer, int (*give_up)()) {
  if (give_up != nullptr && give_up() != 0) return false;
  Tunables tunables;
  world_.read_tunables(&tunables);
  if (alloc::ResidentBytes() >= kHelpersFromBytes) pool_.StartHelpers();
  CycleReport report;
  report.cause = cause;
  report.number = collections() + 1;

  world_.event(CycleEvent::kStart);
  if (const auto ask = world_.toggle_function(); ask != nullptr) toggle_refs_.Update(ask);
  world_.event(CycleEvent::kBeforeStop);
  PauseClock clock;
  if (!world_.stop()) return false;
  clock.Enter(PausePart::kRoots);
  world_.event(CycleEvent::kStopped);
  if (give_up != nullptr && give_up() != 0) {
    world_.event(CycleEvent::kBeforeResume);
    world_.resume();
    world_.event(CycleEvent::kResumed);
    return false;
  }
  number_.Store(report.number, platform::memory_order_relaxed);  // a count; written under lock_

  world_.event(CycleEvent::kMarkStart);
  Mark(tunables, stack_pointer, &clock);
  clock.Enter(PausePart::kWeak);
  short_links_.ClearUnreachable(marker_);
  toggle_refs_.ForgetUnreachable(marker_);
  report.finalizable = finalizers_.QueueUnreachable(&marker_, world_.warn_cycle);
  short_links_.ForgetDangling(marker_);
  long_links_.ClearUnreachable(marker_);
  long_links_.ForgetDangling(marker_);
  if (world_.inspect != nullptr) world_.inspect(marker_, roots_, tunables.mark);
  world_.event(CycleEvent::kMarkEnd);
  report.markers = pool_.last_workers();
  report.steals = marker_.statistics().steals;

  clock.Enter(PausePart::kSweep);
  world_.event(CycleEvent::kSweepStart);
  alloc::g_epoch = marker_.black();
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeaps::at(i).RestoreRunsWorldStopped(alloc::g_epoch);
    ThreadHeaps::at(i).DropListsWorldStopped();
  }
  Sweep();
  pacer_.Configure(tunables.pacer);
  SweepTotals swept;
  for (int i = 0; i < kMaxWorkers; ++i) swept.Add(sweep_totals_[i]);
  const uint64_t used_bytes = swept.used_pages << alloc::kPageShift;
  const uint64_t resident_bytes = alloc::ResidentBytes();
  uint64_t allocated = 0;
  uint64_t since_last = 0, most_since_last = 0;  // what all, and the busiest, have allocated
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeap& heap = ThreadHeaps::at(i);
    allocated += heap.allocated_bytes - heap.freed_bytes;
    const uint64_t fresh = heap.allocated_bytes - heap.allocated_at_collection;
    since_last += fresh;
    if (fresh > most_since_last) most_since_last = fresh;
    heap.allocated_at_collection = heap.allocated_bytes;
  }
  pacer_.StartCycle(
      {swept.live_scanned_bytes, swept.live_pointer_free_bytes,
       tunables.mark.all_interior_pointers ? swept.live_granules * alloc::kGranuleBytes : 0,
       roots_.bytes(), resident_bytes > used_bytes ? resident_bytes - used_bytes : 0,
       resident_bytes, ThreadHeaps::active(), (since_last - most_since_last) * 8 > since_last,
       platform::NowNs() - clock.begin_ns(), clock.begin_ns() - last_end_ns_});
  report.live_bytes = swept.live_bytes();
  report.live_objects = swept.live_objects;
  report.resident_bytes = resident_bytes;
  const uint64_t before = last_.live_bytes + (allocated - allocated_at_last_);
  report.freed_bytes = before > report.live_bytes ? before - report.live_bytes : 0;
  allocated_at_last_ = allocated;
  world_.event(CycleEvent::kSweepEnd);

  world_.event(CycleEvent::kBeforeResume);
  clock.Enter(PausePart::kResume);
  world_.resume();
  report.pause = clock.End();
  last_end_ns_ = clock.end_ns();
  last_ = report;
  ++totals_.collections;
  totals_.pauses.Add(report.pause);
  if (report.pause.all_ns > totals_.longest_pause.all_ns) totals_.longest_pause = report.pause;
  totals_.longest_parts.Raise(report.pause);
  totals_.freed_bytes += report.freed_bytes;
  world_.event(CycleEvent::kResumed);
  if (g_any_disclaim) sweeper_.Disclaim();
  if (pacer_.HasLastingSurplus()) ReturnFreeMemory();
  world_.event(CycleEvent::kEnd);
  return true;
}

void Collector::ForEachObject(void (*f)(const alloc::ObjectRef& object, void* context),
                              void* context) {
  while (!world_.stop()) {  // it waits itself before it gives up
  }
  // What threads hold and have not handed out must not look like objects.
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).HideRunsWorldStopped();
  alloc::ForEachSlot([f, context](const alloc::ObjectRef& object) {
    if (*object.mark() == alloc::g_epoch) f(object, context);
  });
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).RestoreRunsWorldStopped(alloc::g_epoch);
  world_.resume();
}

void Collector::ReturnFreeMemory() {
  for (const alloc::Side side : {alloc::Side::kScanned, alloc::Side::kPointerFree}) {
    ThreadHeaps::FlushFreePages(side);
    alloc::SpaceOf(side).DiscardFree();
  }
}

void Collector::Mark(const Tunables& tunables, Addr stack_pointer, PauseClock* clock) {
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).HideRunsWorldStopped();
  marker_.Begin(tunables.mark);
  roots_.Clear();
  RootSink sink(&roots_, &marker_);
  t_mark_sink = &sink;
  world_.add_roots(&roots_, stack_pointer);
  t_mark_sink = nullptr;
  finalizers_.AddRoots(&roots_);
  roots_.AddUncollectablePages();
  clock->Enter(PausePart::kMark);
  toggle_refs_.MarkStrong(&marker_);
  marker_.MarkFromRoots(&roots_);
  if (tunables.verify) VerifyMarks(marker_, tunables.mark, roots_);
}

void Collector::SweepJob(void* collector, int worker) {
  auto* self = static_cast<Collector*>(collector);
  self->sweeper_.Run(&self->sweep_totals_[worker]);
}

void Collector::Sweep() {
  for (SweepTotals& totals : sweep_totals_) totals = {};
  sweeper_.Begin();
  pool_.Begin(SweepJob, this);
  if (sweeper_.pages() >= kParallelSweepFromPages) {
    while (pool_.WakeOne()) {
    }
  }
  SweepJob(this, 0);
  pool_.Finish();
}

void Collector::ResetAfterFork(bool alone) {
  lock_.ResetAfterFork();
  pool_.ResetAfterFork(alone);
}

}  // namespace gleaner::gc
