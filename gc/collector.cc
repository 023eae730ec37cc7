#include "gc/collector.h"

#include <initializer_list>

#include "alloc/page_space.h"
#include "alloc/thread_heap.h"
#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "gc/finish/heap_samples.h"
#include "gc/inspect/verify.h"
#include "observe/events.h"
#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/threads/fault_signal.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

using alloc::ThreadHeap;
using alloc::ThreadHeaps;

constinit Collector g_collector;

namespace {

// Below this size, waking a second marker takes longer than the work.
constexpr size_t kHelpersFromBytes = 2 * kMiB;

// The sink that the program's root procedure pushes into.
struct RootSink : MarkSink {
  RootSink(RootTasks* r, Marker* m) : MarkSink{PushObject, PushRange}, roots(r), marker(m) {}
  static void PushObject(MarkSink* self, Addr word) {
    Marker* marker = static_cast<RootSink*>(self)->marker;
    marker->SetMarkedExplicitly();
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
    case Cause::kInspection:
      return "inspection";
  }
  return "?";
}

bool Collector::Init(const World& world, int max_markers) {
  world_ = world;
  pool_.SetSize(max_markers);
  writes_.Init(&pool_);
  cycle_.Init(&world_.handshakes, &marker_);
  if (!roots_.Init() || !registered_.finalizers.Init() || !marker_.Init(&pool_, pool_.size()))
    return false;
  Tunables tunables;
  world_.read_tunables(&tunables);
  pacer_.Configure(tunables.pacer);
  return true;
}

bool Collector::Collect(Cause cause, Addr stack_pointer, int (*give_up)()) {
  const uint64_t seen = collections();
  platform::LockGuard guard(lock_);
  if (!IsAskedFor(cause) && collections() != seen) return false;
  return CollectLocked(cause, stack_pointer, give_up);
}

// Pieces that the collecting thread disarms, some 1 ms; the driver disarms the rest.
constexpr int kDisarmsAtOnce = 8;

bool Collector::CollectLocked(Cause cause, Addr stack_pointer, int (*give_up)()) {
  if (give_up != nullptr && give_up() != 0) return false;
  cycle_.AwaitSlice();
  FinishSweep();
  Collection collection = Prepare(cause);
  world_.event(CycleEvent::kStart);
  if (const auto ask = world_.toggle_function(); ask != nullptr)
    registered_.toggle_refs.Update(ask);
  world_.event(CycleEvent::kBeforeStop);
  if (collection.tunables.processor_clocks) {
    collection.begin_processor_ns = platform::ProcessorNs();
    collection.begin_thread_ns = platform::ThreadNs();
  }
  PauseClock clock;
  if (!StopUnlessGivenUp(give_up, &clock)) return false;
  alloc::g_collections.Set(collection.report.number);
  stop_wanted_.Set(false);
  schedule_.BeginStop();

  world_.event(CycleEvent::kMarkStart);
  Mark(&collection, stack_pointer, &clock);
  clock.Enter(PausePart::kWeak);
  ActOnUnreachable(&collection);
  world_.event(CycleEvent::kMarkEnd);

  clock.Enter(PausePart::kSweep);
  if (collection.begin_thread_ns != 0) collection.sweep_thread_ns = platform::ThreadNs();
  world_.event(CycleEvent::kSweepStart);
  const uint8_t dead = marker_.white();
  ChangeColours(collection.tunables);
  // A caller that collects explicitly or because memory is exhausted needs the heap swept.
  collection.sweeps_concurrently =
      (collection.tunables.concurrent_sweep || collection.report.concurrent) &&
      !collection.report.minor && collection.report.cause == Cause::kAllocation &&
      !g_any_disclaim && !alloc::g_free_counts_lack;
  const SweepTotals swept =
      collection.sweeps_concurrently ? BeginConcurrentSweepWorldStopped(dead) : Sweep(dead);
  PaceNext(swept, clock, &collection);
  clock.Enter(PausePart::kDirty);
  EndGeneration(collection, clock);
  clock.Enter(PausePart::kSweep);
  world_.event(CycleEvent::kSweepEnd);

  world_.event(CycleEvent::kBeforeResume);
  clock.Enter(PausePart::kResume);
  world_.resume();
  collection.report.pause = clock.End();
  collection.report.end_ns = clock.end_ns();
  LearnFromStop(collection, clock.end_ns());
  last_ = collection.report;
  totals_.Add(last_, collection.sweeps_concurrently);
  if (platform::IsTracing()) TraceCollection(clock);
  world_.event(CycleEvent::kResumed);
  AfterResume();
  world_.event(CycleEvent::kEnd);
  return true;
}

GLEANER_COLD void Collector::TraceCollection(const PauseClock& clock) const {
  using platform::TraceEvent;
  const CycleReport& report = last_;
  platform::EmitTrace(TraceEvent::kPause, clock.begin_ns(), {report.pause.all_ns, report.number});
  platform::EmitTrace(
      TraceEvent::kCollection, clock.end_ns(),
      {report.number, static_cast<uint64_t>(report.cause), static_cast<uint64_t>(KindOf(report)),
       static_cast<uint64_t>(report.reason), report.pause.all_ns, report.expected_ns,
       report.live_bytes, report.live_objects, report.freed_bytes, report.resident_bytes,
       platform::TracedLimit(static_cast<uint64_t>(pacer_.allowance())),
       static_cast<uint64_t>(report.markers), report.steals, report.finalizable});
}

Collector::Collection Collector::Prepare(Cause cause) {
  Collection collection;
  Tunables& tunables = collection.tunables;
  // A filter of system calls may have come since the last collection.
  writes_.LoseTrackerIfBarred();
  world_.read_tunables(&tunables);
  // A collection that is asked for has to free objects that have died since the cycle began.
  collection.discards_cycle = IsAskedFor(cause) || !tunables.concurrent_mark;
  collection.report.minor = MayBeMinor(cause, tunables);
  // The settings cannot change during a cycle.
  if (!collection.discards_cycle && cycle_.IsUnderWay()) tunables.mark = cycle_.config();
  collection.is_early = cycle_.state() != CycleState::kReady;
  if (alloc::ResidentBytes() >= kHelpersFromBytes && !platform::HasFilter()) pool_.StartHelpers();
  CycleReport& report = collection.report;
  report.cause = cause;
  report.number = collections() + 1;
  collection.reason = schedule_.decision().reason;
  collection.price = schedule_.decision().price;
  report.expected_ns = cycle_pacer_.ExpectedStopNs();
  if (tunables.concurrent_mark) {
    const Measurements found = Measure(tunables);
    collection.cycle_was_possible = IsCycleGood(tunables, found);
  }
  return collection;
}

bool Collector::StopUnlessGivenUp(int (*give_up)(), PauseClock* clock) {
  if (!world_.stop()) return false;
  if (sweeper_.IsConcurrent()) EndSweep();  // no mutator is in a step any more
  clock->Enter(PausePart::kRoots);
  world_.event(CycleEvent::kStopped);
  if (give_up == nullptr || give_up() == 0) return true;
  world_.event(CycleEvent::kBeforeResume);
  world_.resume();
  world_.event(CycleEvent::kResumed);
  return false;
}

void Collector::ActOnUnreachable(Collection* collection) {
  collection->report.finalizable = registered_.DecideWorldStopped(&marker_, world_.warn_cycle);
  if (alloc::g_sample_mean_bytes != 0) g_heap_samples.ForgetUnreachable(marker_);
  const Tunables& tunables = collection->tunables;
  if (world_.inspect != nullptr) world_.inspect(marker_, roots_, tunables.mark);
  if (tunables.verify && MayTrack(tunables)) RecordOldWords(marker_);
  collection->report.markers = pool_.last_workers();
  collection->report.steals = marker_.statistics().steals;
}

void Collector::ChangeColours(const Tunables& tunables) {
  marker_.End();
  alloc::g_epoch = marker_.black();
  alloc::g_young ^= alloc::kYoungMarks;
  alloc::g_idle_allocation_colour = MayTrack(tunables) ? alloc::g_young : alloc::g_epoch;
  alloc::g_allocation_colour.Store(alloc::g_idle_allocation_colour,
                                   platform::memory_order_relaxed);  // the world is stopped
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeaps::at(i).ReviveRunsStopped();
    ThreadHeaps::at(i).DropListsWorldStopped();
  }
}

void Collector::PaceNext(const SweepTotals& swept, const PauseClock& clock,
                         Collection* collection) {
  // Which kind comes next is decided later, or at the end of this stop.
  PacerConfig config = collection->tunables.pacer;
  if (collection->tunables.automatic) {
    const bool is_stop_long = collection->report.expected_ns >= PauseGoalNs(collection->tunables);
    config.early &= collection->report.concurrent || IsForConcurrent(collection->reason) ||
                    (collection->cycle_was_possible && is_stop_long);
  }
  pacer_.Configure(config);
  resident_at_sweep_ = alloc::ResidentBytes();
  uint64_t allocated = 0;
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) {
    const ThreadHeap& heap = ThreadHeaps::at(i);
    allocated += heap.allocated_bytes - heap.freed_bytes;
  }
  CycleReport& report = collection->report;
  // More may have been freed than allocated.
  collection->young_bytes = allocated > allocated_at_last_ ? allocated - allocated_at_last_ : 0;
  PacerInput found = {swept.live_scanned_bytes,
                      swept.live_pointer_free_bytes,
                      FreeBytes(swept),
                      resident_at_sweep_,
                      ThreadHeaps::active(),
                      collection->bytes_in_cycle,
                      0,
                      report.minor,
                      registered_.finalizers.registered(),
                      report.finalizable,
                      FullStopNs(*collection),
                      PeriodOf(*collection, clock)};
  // Old objects are not known to live after a minor collection, so the allowance stays that of the
  // last full one.
  if (report.minor) {
    const uint64_t before =
        pacer_.found().live_scanned_bytes + pacer_.found().live_pointer_free_bytes;
    if (swept.live_bytes() > before) found.kept_bytes = swept.live_bytes() - before;
    found.TakeLiveFrom(pacer_.found());
  }
  pacer_.StartCycle(found);
  budget_.Run(found.period.run_processor_ns);
  report.live_objects = swept.live_objects;
  report.resident_bytes = resident_at_sweep_;
  live_before_ = last_.live_bytes + (allocated - allocated_at_last_);
  SetLive(&report, swept.live_bytes());
  allocated_at_last_ = allocated;
}

bool Collector::WeighFinalizable(size_t weight, bool (*process_bytes)(uint64_t*)) {
  const size_t finalizable = registered_.finalizers.registered();
  const auto ran_ns = [this] { return platform::NowNs() - cycle_pacer_.last_end_ns(); };
  if (pacer_.WeighFinalizable(finalizable, weight, ran_ns)) return true;
  uint64_t bytes;
  return weight != 0 && pacer_.IsLookDue(finalizable) && process_bytes(&bytes) &&
         pacer_.WeighProcessBytes(finalizable, bytes, ran_ns());
}

uint64_t Collector::FullStopNs(const Collection& collection) const {
  const CycleReport& report = collection.report;
  // This thread's own clock does not count the time in which it waits for a processor.
  if (!report.minor && !report.concurrent && report.cause != Cause::kInspection &&
      collection.begin_thread_ns != 0) {
    return platform::ThreadNs() - collection.begin_thread_ns;
  }
  return forecast_.StopNs(forecast_.ScanBytes(0), pool_.size(),
                          resident_at_sweep_ >> alloc::kPageShift);
}

AllowanceLaw::Period Collector::PeriodOf(const Collection& collection,
                                         const PauseClock& clock) const {
  AllowanceLaw::Period period;
  if (collection.report.cause == Cause::kInspection) return period;
  const bool is_first = cycle_pacer_.last_end_ns() == 0;  // also in a forked child
  period.run_ns = is_first ? 0 : clock.begin_ns() - cycle_pacer_.last_end_ns();
  period.run_processor_ns = period.run_ns;
  // The sweep takes time in proportion to what was allocated: that does not depend on how often the
  // heap is collected.
  period.stop_processor_ns = platform::NowNs() - clock.begin_ns() - clock.InPartNs();
  period.allocated_bytes = is_first ? 0 : collection.young_bytes;
  if (!is_first && cycle_pacer_.last_end_processor_ns() != 0 && collection.begin_thread_ns != 0) {
    period.run_processor_ns = collection.begin_processor_ns - cycle_pacer_.last_end_processor_ns();
    period.stop_processor_ns = collection.sweep_thread_ns - collection.begin_thread_ns;
  }
  period.concurrent_processor_ns = writes_.fault_ns();
  if (collection.report.concurrent) {
    period.concurrent_processor_ns += forecast_.MarkNs(marker_.statistics().bytes_scanned, 1);
  }
  // An estimate: the program had some of the time.
  const uint64_t max = period.run_processor_ns / 2;
  if (period.concurrent_processor_ns > max) period.concurrent_processor_ns = max;
  period.run_processor_ns -= period.concurrent_processor_ns;
  return period;
}

void Collector::LearnFromStop(const Collection& collection, uint64_t end_ns) {
  const CycleReport& report = collection.report;
  const Tunables& tunables = collection.tunables;
  if (report.minor) {
    forecast_.LearnFromMinor(collection.young_bytes);
  } else {
    PauseTimes pause = report.pause;
    if (report.cause == Cause::kInspection) pause.all_ns -= pause.of(PausePart::kWeak);
    forecast_.LearnFromFull(
        pause, {scanned_bytes_, collection.young_bytes, resident_at_sweep_ >> alloc::kPageShift,
                marker_.times(), !report.concurrent, !collection.sweeps_concurrently});
  }
  using Kind = CyclePacer::Kind;
  const Kind kind = report.minor || report.cause != Cause::kAllocation ? Kind::kOther
                    : report.concurrent                                ? Kind::kConcurrent
                                                                       : Kind::kStop;
  cycle_pacer_.EndStop(kind, collection.young_bytes, end_ns, tunables.processor_clocks);
}

void Collector::AfterResume() {
  // Disarm now: the program takes a fault for each armed page that it writes.
  for (int i = 0; i < kDisarmsAtOnce && writes_.DisarmSome(); ++i) {
  }
  if (g_any_disclaim) sweeper_.Disclaim();
  if (sweeper_.IsConcurrent() && driver_.running()) driver_.Wake();
  if (!sweeper_.IsConcurrent() && pacer_.ShouldReturnFreeMemory()) ReturnFreeMemory();
}

void CollectorTotals::Add(const CycleReport& report, bool sweeps_concurrently) {
  ++collections;
  if (report.cause == Cause::kInspection) {
    ++inspections;
  } else {
    pauses.Add(report.pause);
    if (report.pause.all_ns > longest_pause.all_ns) longest_pause = report.pause;
    longest_parts.Raise(report.pause);
  }
  concurrent += report.concurrent ? 1 : 0;
  overruns += report.overrun ? 1 : 0;
  concurrent_sweeps += sweeps_concurrently ? 1 : 0;
  minors += report.minor ? 1 : 0;
  minor_ns += report.minor ? report.pause.all_ns : 0;
  freed_bytes += report.freed_bytes;
}

void Collector::ForEachObject(void (*f)(const alloc::ObjectRef& object, void* context),
                              void* context) {
  cycle_.AwaitSlice();
  while (!world_.stop()) {  // stop waits itself before it gives up
  }
  // Slots that threads hold and have not handed out must not look like objects.
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).RetireRunsWorldStopped();
  alloc::ForEachSlot([f, context](const alloc::ObjectRef& object) {
    if (alloc::IsAllocated(*object.mark())) f(object, context);
  });
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).ReviveRunsStopped();
  world_.resume();
}

void Collector::ReturnFreeMemory() {
  const platform::ReturnEvent event;
  size_t bytes = 0;
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    ThreadHeaps::FlushFreePages(space);
    bytes += alloc::PageSpaceOf(space).DiscardFree();
  }
  event.End(bytes);
}

void Collector::TellOfFault(Addr address) {
  const RootTasks& roots = g_collector.roots_;
  for (size_t i = 0; i < roots.size(); ++i) {
    const RootTasks::Task& task = roots.at(i);
    if (task.kind == RootKind::kUncollectablePages || !task.range.Contains(address)) continue;
    Fatal(
        "the program has made memory unreadable that is searched for pointers: %#zx, %s; "
        "GC_exclude_static_roots leaves memory out",
        static_cast<size_t>(address),
        task.kind == RootKind::kStack ? "of a stack" : "in static data or by GC_add_roots");
  }
}

void Collector::Mark(Collection* collection, Addr stack_pointer, PauseClock* clock) {
  const Tunables& tunables = collection->tunables;
  CycleReport* report = &collection->report;
  const size_t heaps = ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) ThreadHeaps::at(i).RetireRunsWorldStopped();
  clock->Enter(PausePart::kDirty);
  report->minor = report->minor && writes_.RecallWorldStopped(
                                       static_cast<double>(forecast_.MarkNs(alloc::kPageBytes, 1)));
  report->concurrent = !report->minor && cycle_.GoOnWorldStopped(collection->discards_cycle);
  if (!report->concurrent) marker_.Begin(tunables.mark, report->minor);
  if (report->minor) {
    marker_.UseRescanSet(&writes_.rescan_set());
    marker_.BeginRescan();
  }
  clock->Enter(PausePart::kRoots);
  roots_.Clear();
  RootSink sink(&roots_, &marker_);
  t_mark_sink = &sink;
  world_.add_roots(&roots_, stack_pointer);
  t_mark_sink = nullptr;
  registered_.finalizers.AddRoots(&roots_);
  roots_.AddUncollectablePages();
  clock->Enter(PausePart::kMark);
  platform::BeginTellingOfFaults(TellOfFault);
  registered_.toggle_refs.MarkStrong(&marker_);
  marker_.MarkFromRoots(&roots_);
  if (report->minor || report->concurrent) {
    clock->Enter(PausePart::kDirty);
    marker_.FinishRescanWorldStopped();
    alloc::FreeDeferredWorldStopped();
  }
  if (!report->minor) {
    scanned_bytes_ = cycle_.EndMarking();
    alloc::g_huge_bytes.Set(0);
  }
  if (tunables.verify) {
    VerifyMarks(marker_, tunables.mark, roots_,
                {report->minor || report->concurrent, report->minor});
  }
  platform::EndTellingOfFaults();
  if (report->minor) {
    report->reason = Reason::kYoungDie;
    report->expected_ns = generations_.ExpectedMinorNs();
  } else if (report->cause == Cause::kAllocation && collection->reason != Reason::kYoungDie &&
             report->concurrent == IsForConcurrent(collection->reason)) {
    report->reason = collection->reason;
    report->price = collection->price;
  }
  report->overrun = report->concurrent && collection->is_early;
  if (report->concurrent) {
    const ptrdiff_t bytes = cycle_pacer_.EndCycle(tunables);
    schedule_.EndCycle(bytes);
    collection->bytes_in_cycle = bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
  }
}

// --- Generational mode ---

bool Collector::MayBeMinor(Cause cause, const Tunables& tunables) const {
  // If a setting that decides which words are pointers has changed, old objects are scanned again.
  return cause == Cause::kAllocation && schedule_.IsMinorNext() && writes_.Remembers() &&
         MayTrack(tunables) && cycle_.state() == CycleState::kIdle &&
         tunables.mark.all_interior_pointers == last_config_.all_interior_pointers &&
         tunables.mark.pad_objects == last_config_.pad_objects;
}

bool Collector::MayTrack(const Tunables& tunables) const {
  return tunables.generational != GenerationalMode::kOff && writes_.ServesMinors() &&
         !g_any_disclaim;
}

void Collector::EndGeneration(const Collection& collection, const PauseClock& clock) {
  const Tunables& tunables = collection.tunables;
  const CycleReport& report = collection.report;
  const uint64_t stopped_ns = platform::NowNs() - clock.begin_ns();
  // In a stop, all that the program keeps busy stands still.
  const double busy = pacer_.processors_busy();
  const auto cost_of = [busy](uint64_t stop_ns) {
    return static_cast<uint64_t>(busy * static_cast<double>(stop_ns));
  };
  Generations::Outcome outcome = {stopped_ns, cost_of(stopped_ns), collection.young_bytes,
                                  report.freed_bytes, report.live_bytes};
  // Where a concurrent cycle could take its place, a minor collection keeps to the pause goal.
  const bool keeps_goal = tunables.automatic && collection.cycle_was_possible;
  generations_.Configure(tunables.generational, tunables.max_minors,
                         keeps_goal ? PauseGoalNs(tunables) : UINT64_MAX,
                         tunables.weighs_cost ? &budget_ : nullptr);
  if (report.minor) {
    outcome.cost_ns += writes_.fault_ns();
    writes_.LearnWritten(pacer_.found().live_scanned_bytes);
    generations_.LearnFromMinor(outcome);
  } else {
    if (report.cause == Cause::kInspection) {
      outcome.stop_ns = report.expected_ns;
      outcome.cost_ns = cost_of(report.expected_ns);
    } else if (report.concurrent) {
      outcome.stop_ns = report.expected_ns;
      outcome.cost_ns = forecast_.MarkNs(scanned_bytes_, 1);
    }
    budget_.AddLoss(writes_.TakeSampleNs());
    // What the program writes is scanned.
    const double written = writes_.ExpectedBytes(pacer_.found().live_scanned_bytes);
    const uint64_t kept =
        outcome.young_bytes > outcome.freed_bytes ? outcome.young_bytes - outcome.freed_bytes : 0;
    outcome.minor_stop_ns = forecast_.StopNs(kept + static_cast<uint64_t>(written), pool_.size(),
                                             resident_at_sweep_ >> alloc::kPageShift);
    double faults = writes_.FaultNs(static_cast<uint64_t>(written));
    if (writes_.KnowsWritten() && writes_.IsTracking() && writes_.CanRest()) {
      const auto max = 2 * static_cast<double>(forecast_.MarkNs(static_cast<uint64_t>(written), 1));
      if (faults > max) faults = max;
    }
    outcome.minor_cost_ns = static_cast<double>(cost_of(outcome.minor_stop_ns)) + faults;
    outcome.are_faults_known = writes_.KnowsWritten();
    outcome.is_sampled = writes_.TakeCounted();
    generations_.LearnFromFull(outcome, static_cast<uint64_t>(pacer_.allowance()));
  }
  last_config_ = tunables.mark;
  // Old objects that die stay until the next full collection.
  if (generations_.WantsMinor() && MayTrack(tunables) && !marker_.kept_explicitly() &&
      !pacer_.IsNearLimit()) {
    writes_.RememberWorldStopped(!collection.sweeps_concurrently);
  } else if (generations_.WantsSample() && MayTrack(tunables)) {
    writes_.SampleWorldStopped(generations_.MaxSampleNs());
  }
  schedule_.PrepareMinor(writes_.Remembers(), tunables.automatic && generations_.ExpectedMinorNs() >
                                                                        PauseGoalNs(tunables));
  if (writes_.Remembers()) return pacer_.CollectEarly();
  // Slots that threads hold already stay young; a full collection takes young for white, too.
  alloc::g_idle_allocation_colour = alloc::g_epoch;
  alloc::g_allocation_colour.Store(alloc::g_idle_allocation_colour,
                                   platform::memory_order_relaxed);  // the world is stopped
}

void Collector::ValidateDisplacement(size_t displacement) {
  if (g_valid_displacement[displacement] != 0) return;
  g_valid_displacement[displacement] = 1;
  // The cycle may have skipped pointers with this displacement.
  if (cycle_.IsUnderWay() && !cycle_.config().all_interior_pointers) cycle_.DiscardMarks();
  writes_.Forget();
}

void Collector::ResetAfterFork(bool alone) {
  lock_.ResetAfterFork();
  cycle_pacer_.ResetAfterFork();
  writes_.ResetAfterFork();
  cycle_.ResetAfterFork();
  schedule_.PrepareMinor(false, false);
  driver_.ResetAfterFork(alone);
  pool_.ResetAfterFork(alone);
  sweeper_.ResetAfterFork();
}

}  // namespace gleaner::gc
