#include "gc/collector.h"

#include <initializer_list>

#include "alloc/page_space.h"
#include "alloc/thread_heap.h"
#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "gc/verify.h"
#include "platform/clock.h"
#include "platform/stop_world.h"

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
  cycle_.Init(&world_, &marker_, &pool_);
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

constexpr int kDisarmsAtOnce = 8;  // by who has collected: some 1 ms; the driver does the rest

bool Collector::CollectLocked(Cause cause, Addr stack_pointer, int (*give_up)()) {
  if (give_up != nullptr && give_up() != 0) return false;
  cycle_.AwaitSlice();
  FinishSweep();
  Tunables tunables;
  world_.read_tunables(&tunables);
  // An explicit collection is to find what has died since the cycle began.
  const bool give_up_cycle = cause == Cause::kExplicit || !tunables.mark_beside;
  const bool may_be_minor = MayBeMinor(cause, tunables);
  // The settings cannot change in mid-cycle.
  if (!give_up_cycle && cycle_.IsUnderWay()) tunables.mark = cycle_.config();
  const bool early = cycle_.state() != CycleState::kReady;
  if (alloc::ResidentBytes() >= kHelpersFromBytes) pool_.StartHelpers();
  CycleReport report;
  report.cause = cause;
  report.number = collections() + 1;

  world_.event(CycleEvent::kStart);
  if (const auto ask = world_.toggle_function(); ask != nullptr) toggle_refs_.Update(ask);
  world_.event(CycleEvent::kBeforeStop);
  PauseClock clock;
  if (!world_.stop()) return false;
  if (sweeper_.IsBeside()) EndSweep();  // no mutator is at a step any more
  clock.Enter(PausePart::kRoots);
  world_.event(CycleEvent::kStopped);
  if (give_up != nullptr && give_up() != 0) {
    world_.event(CycleEvent::kBeforeResume);
    world_.resume();
    world_.event(CycleEvent::kResumed);
    return false;
  }
  alloc::g_collections.Store(report.number, platform::memory_order_relaxed);  // a count
  stop_wanted_.Store(false, platform::memory_order_relaxed);  // a hint; written under lock_
  cycle_pacer_.BeginStop();

  world_.event(CycleEvent::kMarkStart);
  report.minor = may_be_minor;
  Mark(tunables, give_up_cycle, stack_pointer, &clock, &report);
  report.overrun = report.beside && early;
  const uint64_t born_bytes = report.beside ? cycle_pacer_.NoteCycleBytes() : 0;
  clock.Enter(PausePart::kWeak);
  short_links_.ClearUnreachable(marker_);
  toggle_refs_.ForgetUnreachable(marker_);
  report.finalizable = finalizers_.QueueUnreachable(&marker_, world_.warn_cycle);
  short_links_.ForgetDangling(marker_);
  long_links_.ClearUnreachable(marker_);
  long_links_.ForgetDangling(marker_);
  if (world_.inspect != nullptr) world_.inspect(marker_, roots_, tunables.mark);
  if (tunables.verify && MayTrack(tunables)) NoteOldWords(marker_);
  world_.event(CycleEvent::kMarkEnd);
  report.markers = pool_.last_workers();
  report.steals = marker_.statistics().steals;

  clock.Enter(PausePart::kSweep);
  world_.event(CycleEvent::kSweepStart);
  const uint8_t dead = marker_.white();
  marker_.End();
  alloc::g_epoch = marker_.black();
  alloc::g_young ^= alloc::kYoungMarks;
  alloc::g_quiet_mark = MayTrack(tunables) ? alloc::g_young : alloc::g_epoch;
  alloc::g_new_mark.Store(alloc::g_quiet_mark,
                          platform::memory_order_relaxed);  // the world is stopped
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeaps::at(i).RestoreRunsStopped();
    ThreadHeaps::at(i).DropListsWorldStopped();
  }
  unpadded_counts_ = tunables.mark.all_interior_pointers;
  // Who collects because memory is short, or on demand, wants to find it swept.
  const bool beside = (tunables.sweep_beside || report.beside) && !report.minor &&
                      cause == Cause::kAllocation && !g_any_disclaim;
  const SweepTotals swept = beside ? BeginSweepBesideWorldStopped(dead) : Sweep(dead);
  pacer_.Configure(tunables.pacer);
  const uint64_t resident_bytes = resident_at_sweep_ = alloc::ResidentBytes();
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
  PacerInput found = {swept.live_scanned_bytes,
                      swept.live_pointer_free_bytes,
                      UnpaddedBytes(swept),
                      roots_.bytes(),
                      FreeBytes(swept),
                      resident_bytes,
                      ThreadHeaps::active(),
                      (since_last - most_since_last) * 8 > since_last,
                      platform::NowNs() - clock.begin_ns(),
                      clock.begin_ns() - cycle_pacer_.last_end_ns(),
                      report.beside,
                      born_bytes};
  // What a minor collection leaves is not known to be live: the allowance stays that of the last
  // full one.
  if (report.minor) found.TakeLiveFrom(pacer_.found());
  pacer_.StartCycle(found);
  report.live_objects = swept.live_objects;
  report.resident_bytes = resident_bytes;
  const uint64_t young_bytes = allocated - allocated_at_last_;
  live_before_ = last_.live_bytes + young_bytes;
  NoteLive(&report, swept.live_bytes());
  allocated_at_last_ = allocated;
  clock.Enter(PausePart::kDirty);
  EndGeneration(tunables, report, young_bytes, !beside, clock);
  clock.Enter(PausePart::kSweep);
  world_.event(CycleEvent::kSweepEnd);

  world_.event(CycleEvent::kBeforeResume);
  clock.Enter(PausePart::kResume);
  world_.resume();
  report.pause = clock.End();
  cycle_pacer_.NoteStop(!report.beside && !report.minor, report.pause, report.markers,
                        scanned_bytes_, clock.end_ns(), tunables.mark_beside);
  last_ = report;
  ++totals_.collections;
  totals_.pauses.Add(report.pause);
  if (report.pause.all_ns > totals_.longest_pause.all_ns) totals_.longest_pause = report.pause;
  totals_.longest_parts.Raise(report.pause);
  totals_.beside += report.beside ? 1 : 0;
  totals_.overruns += report.overrun ? 1 : 0;
  totals_.swept_beside += beside ? 1 : 0;
  totals_.minors += report.minor ? 1 : 0;
  totals_.minor_ns += report.minor ? report.pause.all_ns : 0;
  totals_.freed_bytes += report.freed_bytes;
  world_.event(CycleEvent::kResumed);
  // At once, since the program pays for each page that it finds armed.
  for (int i = 0; i < kDisarmsAtOnce && cycle_.DisarmSome(); ++i) {
  }
  if (g_any_disclaim) sweeper_.Disclaim();
  if (sweeper_.IsBeside() && driver_.running()) driver_.Wake();
  if (!sweeper_.IsBeside() && pacer_.HasLastingSurplus()) ReturnFreeMemory();
  world_.event(CycleEvent::kEnd);
  return true;
}

void Collector::MoveRegistered(const alloc::ObjectRef& object, Addr to, size_t bytes) {
  const uint8_t registered = alloc::g_space.info[object.page].Registered();  // on its page
  if ((registered & kFinalized) != 0) finalizers_.Move(object, to, bytes);
  for (Links* links : {&short_links_, &long_links_}) {
    if ((registered & kHoldsLink) != 0) links->MoveHeld(object, to, bytes);
    if ((registered & kLinkTarget) != 0) links->ClearThoseTo(object);
  }
  if ((registered & kToggled) != 0) toggle_refs_.Move(object.base, to);
}

void Collector::ForEachObject(void (*f)(const alloc::ObjectRef& object, void* context),
                              void* context) {
  cycle_.AwaitSlice();
  while (!world_.stop()) {  // it waits itself before it gives up
  }
  // What threads hold and have not handed out must not look like objects.
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).HideRunsWorldStopped();
  alloc::ForEachSlot([f, context](const alloc::ObjectRef& object) {
    if (alloc::IsAllocated(*object.mark())) f(object, context);
  });
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).RestoreRunsStopped();
  world_.resume();
}

void Collector::ReturnFreeMemory() {
  for (const alloc::Side side : {alloc::Side::kScanned, alloc::Side::kPointerFree}) {
    ThreadHeaps::FlushFreePages(side);
    alloc::SpaceOf(side).DiscardFree();
  }
}

void Collector::Mark(const Tunables& tunables, bool give_up_cycle, Addr stack_pointer,
                     PauseClock* clock, CycleReport* report) {
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).HideRunsWorldStopped();
  clock->Enter(PausePart::kDirty);
  report->minor = report->minor && cycle_.BeginMinorWorldStopped(tunables.mark);
  report->beside = !report->minor && cycle_.GoOnWorldStopped(give_up_cycle);
  clock->Enter(PausePart::kRoots);
  if (!report->minor && !report->beside) marker_.Begin(tunables.mark);
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
  if (report->minor || report->beside) {
    clock->Enter(PausePart::kDirty);
    cycle_.MarkPendingWorldStopped();
  }
  if (!report->minor) {
    scanned_bytes_ = cycle_.NoteScanned();
    alloc::g_huge_bytes.Store(0, platform::memory_order_relaxed);  // the world is stopped
  }
  if (tunables.verify) {
    VerifyMarks(marker_, tunables.mark, roots_, {report->minor || report->beside, report->minor});
  }
}

// --- Generational mode ---

bool Collector::MayBeMinor(Cause cause, const Tunables& tunables) const {
  // Settings that decide which words are pointers concern old objects, too.
  return cause == Cause::kAllocation && IsMinorNext() && cycle_.Remembers() && MayTrack(tunables) &&
         cycle_.state() == CycleState::kIdle &&
         tunables.mark.all_interior_pointers == last_config_.all_interior_pointers &&
         tunables.mark.pad_objects == last_config_.pad_objects;
}

bool Collector::MayTrack(const Tunables& tunables) const {
  return tunables.generational != GenerationalMode::kOff && cycle_.CanRemember() && !g_any_disclaim;
}

void Collector::EndGeneration(const Tunables& tunables, const CycleReport& report,
                              uint64_t young_bytes, bool swept, const PauseClock& clock) {
  // Beside the program, marking takes the time of a background thread.
  constexpr uint64_t kScannedBytesPerNs = 1;
  Generations::Outcome outcome = {platform::NowNs() - clock.begin_ns(), young_bytes,
                                  report.freed_bytes, report.live_bytes};
  generations_.Configure(tunables.generational, tunables.most_minors);
  if (report.minor) {
    outcome.cost_ns += cycle_.fault_ns();
    generations_.NoteMinor(outcome);
  } else {
    if (report.beside) outcome.cost_ns = scanned_bytes_ / kScannedBytesPerNs;
    generations_.NoteFull(outcome, static_cast<uint64_t>(pacer_.allowance()));
  }
  last_config_ = tunables.mark;
  if (generations_.WantsMinor() && MayTrack(tunables) && !marker_.kept_by_hand()) {
    cycle_.RememberWorldStopped(swept);
  }
  // A hint to others, as the next: the world is stopped.
  minor_next_.Store(cycle_.Remembers(), platform::memory_order_relaxed);
  if (cycle_.Remembers()) return;
  // What threads hold already stays young, which a full collection takes for white, too.
  alloc::g_quiet_mark = alloc::g_epoch;
  alloc::g_new_mark.Store(alloc::g_quiet_mark, platform::memory_order_relaxed);
}

void Collector::SweepJob(void* collector, int worker) {
  auto* self = static_cast<Collector*>(collector);
  self->sweeper_.Run(&self->sweep_totals_[worker]);
}

SweepTotals Collector::Sweep(uint8_t dead) {
  for (SweepTotals& totals : sweep_totals_) totals = {};
  sweeper_.Begin(dead);
  pool_.Begin(SweepJob, this);
  if (sweeper_.pages() >= kParallelSweepFromPages) {
    while (pool_.WakeOne()) {
    }
  }
  SweepJob(this, 0);
  pool_.Finish();
  SweepTotals swept;
  for (const SweepTotals& totals : sweep_totals_) swept.Add(totals);
  return swept;
}

uint64_t Collector::UnpaddedBytes(const SweepTotals& swept) const {
  return unpadded_counts_ ? swept.live_granules * alloc::kGranuleBytes : 0;
}

uint64_t Collector::FreeBytes(const SweepTotals& swept) const {
  const uint64_t used_bytes = swept.used_pages << alloc::kPageShift;
  return resident_at_sweep_ > used_bytes ? resident_at_sweep_ - used_bytes : 0;
}

void Collector::NoteLive(CycleReport* report, uint64_t live_bytes) const {
  report->live_bytes = live_bytes;
  report->freed_bytes = live_before_ > live_bytes ? live_before_ - live_bytes : 0;
}

// --- Beside the program ---

// Returns what is known before the pages are looked at: the marker has counted objects and scanned
// bytes, pointer-free objects are taken to be as they were, and pages that are not free now to be
// in use.
SweepTotals Collector::BeginSweepBesideWorldStopped(uint8_t dead) {
  sweeper_.BeginBesideWorldStopped(dead);
  const MarkStatistics marked = marker_.statistics();
  SweepTotals guess;
  guess.live_objects = marked.objects;
  guess.live_scanned_bytes = scanned_bytes_;
  guess.live_pointer_free_bytes = pacer_.found().live_pointer_free_bytes;
  guess.live_granules = pacer_.found().unpadded_bytes / alloc::kGranuleBytes;
  guess.used_pages = alloc::ResidentBytes() >> alloc::kPageShift;
  for (const alloc::Side side : {alloc::Side::kScanned, alloc::Side::kPointerFree}) {
    const size_t free = ThreadHeaps::ResidentFreePages(side);
    guess.used_pages -= free < guess.used_pages ? free : guess.used_pages;
  }
  return guess;
}

bool Collector::SweepSome() { return g_collector.sweeper_.Step(); }

bool Collector::SweepRest() {
  bool any = false;
  for (bool more = sweeper_.IsBeside(); more; any |= more) {
    platform::CriticalSection section;
    more = sweeper_.Step();
  }
  return any;
}

void Collector::StepJob(void* collector, int) { static_cast<Collector*>(collector)->SweepRest(); }

void Collector::FinishSweep() {
  if (!sweeper_.IsBeside() || sweeper_.IsDone()) return;
  pool_.Begin(StepJob, this);
  if (sweeper_.pages() >= kParallelSweepFromPages) {
    while (pool_.WakeOne()) {
    }
  }
  StepJob(this, 0);
  pool_.Finish();
}

void Collector::EndSweep() {
  GLEANER_CHECK(sweeper_.IsDone(), "a sweep beside the program ends before all is swept");
  sweeper_.EndBeside();
  SweepTotals swept;
  if (!sweeper_.TotalsOfSteps(&swept)) return;  // the estimate has to do
  pacer_.Amend(swept.live_scanned_bytes, swept.live_pointer_free_bytes, UnpaddedBytes(swept),
               FreeBytes(swept));
  totals_.freed_bytes -= last_.freed_bytes;
  NoteLive(&last_, swept.live_bytes());
  last_.live_objects = swept.live_objects;
  totals_.freed_bytes += last_.freed_bytes;
}

void Collector::TryEndSweep() {
  const platform::HandlersWait no_handlers;
  // If the lock is taken, somebody collects and ends the sweep, or the next report does.
  if (!lock_.TryAcquire()) return;
  if (sweeper_.IsBeside() && sweeper_.IsDone()) {
    EndSweep();
    if (pacer_.HasLastingSurplus()) ReturnFreeMemory();
  }
  lock_.Release();
}

void Collector::ValidateDisplacement(size_t displacement) {
  if (g_valid_displacement[displacement] != 0) return;
  g_valid_displacement[displacement] = 1;
  // Such pointers may have been passed over.
  if (cycle_.IsUnderWay() && !cycle_.config().all_interior_pointers) cycle_.Abandon();
  cycle_.Forget();
}

// --- Cycles beside the program ---

constexpr int kStepsAtOnce = 64;  // of the sweep: some 150 us
// What each worker scans between two looks of the driver at how things are: 1 ms, or 8 ms when all
// workers mark, since waking them takes a while.
constexpr uint64_t kDriverSliceBytes = 2 * kMiB;
constexpr uint64_t kPressingSliceBytes = 16 * kMiB;
// Threads hold back so long at most at a time. If the cycle is pressing, they do so for five times
// as long as they have run since; if it is closing, all that time, as they do from the beginning in
// a cycle that is pressing and short.
constexpr uint64_t kHoldBackNs = 3'000'000;
constexpr uint64_t kShortCycleNs = 50'000'000;
constexpr uint64_t kLeastHoldBackNs = 100'000;
constexpr uint64_t kYieldNs = 20'000;
// Threads report after so many bytes at the latest: in a cycle, so that the share of each is small;
// near its end, so that they run for tens of microseconds between the times they hold back.
constexpr size_t kCycleReportBytes = 128 * kKiB;
constexpr size_t kClosingReportBytes = 4 * kKiB;

// When the calling thread last went on after it had held back.
constinit __thread uint64_t t_went_on_ns = 0;

bool Collector::TryStartCycle() {
  if (!cycle_pacer_.IsDue(IsMinorNext())) return false;
  if (!cycle_pacer_.IsWanted() && cycle_pacer_.IsStopShort()) return false;
  if (sweeper_.IsBeside()) {
    if (pacer_.allocated() >= pacer_.allowance()) FinishSweep();
    if (!sweeper_.IsDone()) return false;
    EndSweep();
  }
  Tunables tunables;
  world_.read_tunables(&tunables);
  if (!cycle_pacer_.MayBegin(tunables)) return false;
  cycle_pacer_.Begin(tunables);
  const bool has_driver = tunables.driver && driver_.Start(DriveStep, this);
  minor_next_.Store(false, platform::memory_order_relaxed);  // a hint to others
  if (has_driver) pool_.StartHelpers();
  const ptrdiff_t allocated = cycle_pacer_.started_at();
  cycle_.Start(tunables.mark, allocated > 0 ? static_cast<uint64_t>(allocated) : 0, has_driver,
               tunables.pause_target_ns);
  const bool closes = cycle_pacer_.IsPressingAndShorterThan(kShortCycleNs);
  if (closes) cycle_.Raise(Cycle::Urgency::kClosing);
  pacer_.ReportAfter(closes ? kClosingReportBytes : kCycleReportBytes);
  stop_wanted_.Store(false, platform::memory_order_relaxed);  // as above
  if (has_driver) driver_.Wake();
  return true;
}

// The markers have this processor meanwhile.
void Collector::HoldBack(Addr stack_pointer) {
  const Cycle::Urgency urgency = cycle_.urgency();
  if (urgency == Cycle::Urgency::kNone) return;
  uint64_t wait_ns = kHoldBackNs;
  if (urgency == Cycle::Urgency::kPressing) {
    const uint64_t ran_ns = platform::NowNs() - t_went_on_ns;
    if (ran_ns < wait_ns / 5) wait_ns = ran_ns * 5;
    if (wait_ns < kLeastHoldBackNs) return;
  }
  cycle_.HoldBack(stack_pointer, wait_ns);
  t_went_on_ns = platform::NowNs();
}

bool Collector::AdvanceWithDriver(Addr stack_pointer) {
  if (stop_wanted_.Load(platform::memory_order_relaxed)) return true;  // a hint
  if (cycle_.IsUnderWay()) {
    if (IsOverrun()) return true;
    HoldBack(stack_pointer);
    return stop_wanted_.Load(platform::memory_order_relaxed);  // a hint
  }
  if (!cycle_pacer_.IsDue(IsMinorNext())) return false;
  const platform::HandlersWait no_handlers;
  if (!lock_.TryAcquire()) return false;
  if (cycle_.state() == CycleState::kIdle) TryStartCycle();
  lock_.Release();
  return false;
}

bool Collector::Drive() {
  lock_.Acquire();
  bool more = true;
  bool yield = false;
  if (!cycle_.IsUnderWay() && cycle_.DisarmSome()) {
    // Before the sweep, since the program allocates on.
  } else if (sweeper_.IsBeside()) {
    for (int i = 0; i < kStepsAtOnce && more; ++i) more = sweeper_.Step();
    if (sweeper_.IsDone()) {
      EndSweep();
      if (pacer_.HasLastingSurplus()) {
        lock_.Release();  // system calls that take milliseconds
        ReturnFreeMemory();
        return true;
      }
    }
  } else {
    if (cycle_.state() == CycleState::kMarking &&
        (cycle_pacer_.IsPressing() || cycle_pacer_.IsBehind())) {
      cycle_.Raise(Cycle::Urgency::kPressing);
    }
    if (pacer_.allocated() >= pacer_.allowance()) cycle_.Raise(Cycle::Urgency::kClosing);
    const Cycle::Next next = cycle_.Advance(0);
    const Cycle::Urgency urgency = cycle_.urgency();
    const bool closing = urgency == Cycle::Urgency::kClosing;
    if (closing) pacer_.ReportAfter(kClosingReportBytes);
    switch (next) {
      case Cycle::Next::kAgain:
        break;
      case Cycle::Next::kMark:
        marker_.SetWorkersBeside(
            urgency != Cycle::Urgency::kNone ? pool_.size() : cycle_pacer_.background_markers());
        lock_.Release();
        cycle_.Mark(closing                                ? kNeverPause
                    : urgency == Cycle::Urgency::kPressing ? kPressingSliceBytes
                                                           : kDriverSliceBytes);
        return true;
      case Cycle::Next::kStop:
        stop_wanted_.Store(true, platform::memory_order_relaxed);  // a hint to others
        cycle_.LetGo();                                            // one of them collects
        more = false;
        break;
      case Cycle::Next::kNothing:
        more = cycle_.IsUnderWay();  // a mutator has a slice
        yield = more;
        break;
    }
  }
  // Who waits for the lock has it next.
  if ((lock_.Release() || yield) && more) platform::SleepNs(kYieldNs);
  return more;
}

bool Collector::Advance(uint64_t bytes, Addr stack_pointer) {
  if (driver_.running()) return AdvanceWithDriver(stack_pointer);
  if (sweeper_.IsBeside() && !sweeper_.IsDone()) {
    // So that it is over long before the next cycle.
    for (size_t steps = 4 + sweeper_.pages() / 4096; steps != 0; --steps) {
      platform::CriticalSection section;
      if (!sweeper_.Step()) break;
    }
  }
  const platform::HandlersWait no_handlers;
  // If the lock is taken, somebody collects, or will be asked again.
  if (!lock_.TryAcquire()) return false;
  bool collect = false;
  if (cycle_.IsUnderWay() && IsOverrun()) {
    collect = true;
  } else if (cycle_.state() != CycleState::kIdle || (TryStartCycle() && !driver_.running())) {
    // With the option for tests, one step.
    const uint64_t most_ns = cycle_pacer_.given_slice_bytes() != 0 ? 0 : 300000;  // and a slice
    const uint64_t begin_ns = platform::NowNs();
    Cycle::Next next;
    do {
      next = cycle_.Advance(stack_pointer);
    } while (next == Cycle::Next::kAgain && platform::NowNs() - begin_ns < most_ns);
    if (next == Cycle::Next::kMark) {
      platform::CriticalSection section;
      const uint64_t slice = cycle_pacer_.SliceBytes(bytes);
      lock_.Release();
      cycle_.Mark(slice);
      return false;
    }
    collect = next == Cycle::Next::kStop;
  }
  lock_.Release();
  return collect;
}

void Collector::ResetAfterFork(bool alone) {
  lock_.ResetAfterFork();
  cycle_pacer_.ResetAfterFork();
  cycle_.ResetAfterFork();
  minor_next_.Store(false, platform::memory_order_relaxed);  // a single thread is left
  driver_.ResetAfterFork(alone);
  pool_.ResetAfterFork(alone);
  sweeper_.ResetAfterFork();
}

}  // namespace gleaner::gc
