#include "runtime/collect/world.h"

#include <unistd.h>

#include "alloc/page_space.h"
#include "gc/collector.h"
#include "platform/costs/machine_costs.h"
#include "platform/os/filters.h"
#include "platform/os/process.h"
#include "runtime/collect/listeners.h"
#include "runtime/collect/statistics.h"
#include "runtime/collect/tracking.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/memory_limit.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"
#include "runtime/process/runtime_state.h"
#include "runtime/process/variables.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

using gc::CycleEvent;
using gc::g_collector;

namespace {

// The collector waits a moment whether it sees it in time or not.
constinit platform::Hint<LockHandover> g_handover{LockHandover::kNone};

// Comes before the stop, so that no pause has it in it.
void AwaitHandover() {
  constexpr uint64_t kMomentNs = 50'000;
  constexpr int kMaxMoments = 200;  // a thread may be held up, or have ended by a fork
  const auto is = [](LockHandover handover) { return g_handover.Get() == handover; };
  if (is(LockHandover::kNone)) return;
  for (int i = 0; i < kMaxMoments && is(LockHandover::kBegun); ++i) platform::FutexSleep(kMomentNs);
  platform::FutexSleep(kMomentNs);
  SetLockHandover(LockHandover::kNone);
}

bool StopWorld() {
  // This stop belongs to a call that the fork has interrupted and that goes on in the child.
  if (IsUnpreparedChild()) Threads::ResetAfterFork();
  if (g_malloc_support.never_wait) return Threads::TryStop();
  Threads::Stop();
  return true;
}
void ResumeWorld() { Threads::Resume(); }

void AddRoots(gc::RootTasks* roots, Addr stack_pointer) {
  Thread* self = Threads::Current();
  if (self != nullptr) {
    self->stack_pointer = stack_pointer;
    self->alternate_stack_end = platform::AlternateStackEnd(stack_pointer);
  }
  Threads::AddRoots(roots);
  if (GC_push_other_roots != nullptr) GC_push_other_roots();
  if (g_malloc_support.add_roots != nullptr) g_malloc_support.add_roots(roots);
}

void ReadTunables(gc::Tunables* tunables) {
  tunables->mark.all_interior_pointers = GC_all_interior_pointers != 0;
  tunables->mark.pad_objects = g_options.pad_objects;
  tunables->mark.past_the_end = !g_malloc_support.strict_roots;
  tunables->mark.balance = g_options.mark_balance;
  tunables->mark.split = g_options.mark_split;
  tunables->mark.adapts_markers = g_options.markers == 0 && g_markers_wanted == 0;
  tunables->mark.min_batch = static_cast<size_t>(g_options.mark_batch);
  tunables->mark.termination = static_cast<gc::TerminationMethod>(g_options.termination);
  tunables->pacer.free_space_divisor = GC_free_space_divisor;
  const auto min = static_cast<size_t>(g_options.min_allowance);
  tunables->pacer.min_allowance_bytes = g_min_bytes_allocd > min ? g_min_bytes_allocd : min;
  tunables->pacer.initial_heap_bytes = static_cast<size_t>(g_options.initial_heap);
  tunables->pacer.max_heap_bytes = alloc::HeapLimit();
  tunables->pacer.process_bytes = ProcessBytes();
  tunables->pacer.touch_ns_per_byte = platform::g_machine_costs.first_touch_ns_per_byte();
  tunables->pacer.soft_limit_bytes = MemoryLimitBytes();
  tunables->pacer.stress_bytes = static_cast<size_t>(g_options.collect_every);
  tunables->verify = g_options.mark_verify;
  // A malloc does not learn of filters.
  tunables->processor_clocks = !platform::HasFilter() && !g_malloc_support.never_wait;
  tunables->concurrent_mark = IsConcurrent() && GC_find_leak == 0;
  tunables->slice_bytes = g_options.cycle_slice;
  tunables->rate = g_rate;
  tunables->automatic = IsAutomatic();
  tunables->short_pause_ns = tunables->automatic          ? g_pause_goal_ns.Get()
                             : g_options.cycle_slice == 0 ? g_options.short_pause * 1000
                                                          : 0;
  tunables->pause_target_ns =
      GC_time_limit == GC_TIME_UNLIMITED ? 0 : GC_time_limit * 1'000'000 + g_time_limit_ns;
  tunables->pacer.longest_stop_ns =
      tunables->concurrent_mark ? gc::PauseGoalNs(*tunables) : UINT64_MAX;
  tunables->weighs_cost =
      tunables->automatic && tunables->pause_target_ns == 0 && !g_goal_is_set.Get();
  // The program's procedure that decides which segments are roots must run on its own threads. A
  // program that has asked for one marker may rely on having no threads but its own.
  tunables->driver = g_options.cycle_thread && g_options.cycle_slice == 0 &&
                     g_has_static_roots == nullptr &&
                     !(tunables->automatic && g_collector.pool().size() == 1);
  const int all = g_collector.pool().size();
  const int share = g_options.background_markers != 0
                        ? static_cast<int>(g_options.background_markers)
                        : (all + 3) / 4;
  tunables->background_markers = share < all ? share : all;
  const bool generational = ModesInUse().generational && GC_find_leak == 0;
  tunables->generational = !generational                 ? gc::GenerationalMode::kOff
                           : g_options.generational == 2 ? gc::GenerationalMode::kAlways
                                                         : gc::GenerationalMode::kAdaptive;
  tunables->pacer.early = IsConcurrent() || generational;
  tunables->max_minors = static_cast<uint64_t>(GC_full_freq < 0 ? 0 : GC_full_freq);
  tunables->concurrent_sweep = g_options.concurrent_sweep && !g_malloc_support.never_wait;
}

void Notify(GC_EventType event) {
  if (g_on_collection_event != nullptr) g_on_collection_event(event);
}

// The heap size that the client's GC_on_heap_resize was told last. Guarded by the collector lock.
constinit size_t g_announced_heap_bytes = 0;

// The collector's last event, for the message of a fatal error.
constinit platform::Hint<int> g_last_event{-1};

void OnEvent(CycleEvent event) {
  g_last_event.Set(static_cast<int>(event));
  switch (event) {
    case CycleEvent::kStart:
      kListeners.begins();
      if (g_start_callback != nullptr) g_start_callback();
      return Notify(GC_EVENT_START);
    case CycleEvent::kBeforeStop:
      AwaitHandover();
      return Notify(GC_EVENT_PRE_STOP_WORLD);
    case CycleEvent::kStopped:
      return Notify(GC_EVENT_POST_STOP_WORLD);
    case CycleEvent::kMarkStart:
      GC_gc_no = g_collector.collections();
      return Notify(GC_EVENT_MARK_START);
    case CycleEvent::kMarkEnd:
      return Notify(GC_EVENT_MARK_END);
    case CycleEvent::kSweepStart:
      return Notify(GC_EVENT_RECLAIM_START);
    case CycleEvent::kSweepEnd:
      alloc::LimitGrowth(g_collector.pacer().MayGrowTo(alloc::ResidentBytes()));
      RecordHeapFigures();
      return Notify(GC_EVENT_RECLAIM_END);
    case CycleEvent::kBeforeResume:
      return Notify(GC_EVENT_PRE_START_WORLD);
    case CycleEvent::kResumed:
      return Notify(GC_EVENT_POST_START_WORLD);
    case CycleEvent::kEnd:
      break;
  }
  kListeners.ended();
  const size_t heap = HeapBytes();
  if (GC_on_heap_resize != nullptr && heap != g_announced_heap_bytes) GC_on_heap_resize(heap);
  g_announced_heap_bytes = heap;
  Notify(GC_EVENT_END);
  kListeners.told();
}

void WarnCycle(Addr object) {
  Warn("GC Warning: Finalization cycle involving %p\n", static_cast<GC_word>(object));
}

gc::ToggleStatus AskToggle(void* object) {
  switch (g_toggleref_func(object)) {
    case GC_TOGGLE_REF_STRONG:
      return gc::ToggleStatus::kStrong;
    case GC_TOGGLE_REF_WEAK:
      return gc::ToggleStatus::kWeak;
    default:
      return gc::ToggleStatus::kDrop;
  }
}
gc::ToggleStatus (*ToggleFunction())(void*) {
  return g_toggleref_func != nullptr ? AskToggle : nullptr;
}

void InspectWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                         const gc::MarkConfig& config) {
  kListeners.inspect(marker, roots, config);
  if (g_malloc_support.inspect != nullptr) g_malloc_support.inspect(marker);
}

}  // namespace

void SetLockHandover(LockHandover handover) { g_handover.Set(handover); }

void DescribePhase(const char* reason) {
  static const char* const names[] = {
      "start",    "before the stop", "stopped",         "marking", "marked",
      "sweeping", "swept",           "before resuming", "resumed", "end"};
  const int event = g_last_event.Get();
  Complain("thread %d; collections so far: %llu; the collector's last event: %s",
           platform::CurrentThreadId(), AsNumber(g_collector.collections()),
           event < 0 ? "none" : names[event]);
  TellOfAbort(reason);
  if (!g_options.loop_on_abort) return;
  Complain("waiting for a debugger, process %d (GC_LOOP_ON_ABORT)", getpid());
  for (;;) pause();
}

constinit const gc::World kWorld = {
    StopWorld,
    ResumeWorld,
    AddRoots,
    ReadTunables,
    OnEvent,
    WarnCycle,
    ToggleFunction,
    InspectWorldStopped,
    {Threads::BeginHandshakes, Threads::Handshake, Threads::CopyRoots}};
}  // namespace gleaner::runtime
