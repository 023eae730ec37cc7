#include "runtime/collect/tracking.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "gc/collector.h"
#include "observe/trace.h"
#include "platform/costs/machine_costs.h"
#include "platform/loader/loaded_objects.h"
#include "platform/mprotect/system_calls.h"
#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/os/process.h"
#include "runtime/collect/barrier.h"
#include "runtime/collect/listeners.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"
#include "runtime/process/variables.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

using gc::g_collector;
using platform::TrackingKind;

namespace {

// In the order of the names of the option mode.
enum Mode : uint32_t { kAutomatic, kStop, kConcurrent, kGenerational };
// In the order of the names of the option write_tracking.
constexpr TrackingKind kNamed[] = {TrackingKind::kNone,  // auto
                                   TrackingKind::kUserfaultfd, TrackingKind::kSoftDirty,
                                   TrackingKind::kProtection, TrackingKind::kCards};

// The mechanisms that may be tried, best first.
struct Candidates {
  TrackingKind kind[3];
  size_t count = 0;

  void Add(TrackingKind k) { kind[count++] = k; }
};

// Whether what was refused may be granted later: descriptors, memory.
bool IsTransient(const platform::Refusal& refusal) {
  return refusal.error == EMFILE || refusal.error == ENFILE || refusal.error == ENOMEM ||
         refusal.error == EAGAIN;
}

// Why mechanisms do not work.
struct Reasons {
  char text[160] = "";        // "userfaultfd: PAGEMAP_SCAN (errno 1); mprotect: ..."
  bool is_transient = false;  // one of them

  void Clear() { *this = {}; }
  void Add(TrackingKind kind, const platform::Refusal& refusal) {
    is_transient |= IsTransient(refusal);
    const size_t length = strlen(text);
    char* end = text + length;
    const size_t room = sizeof text - length;
    const char* separator = length == 0 ? "" : "; ";
    const char* name = platform::TraitsOf(kind).name;
    if (refusal.error != 0) {
      snprintf(end, room, "%s%s: %s (errno %d)", separator, name, refusal.what, refusal.error);
    } else {
      snprintf(end, room, "%s%s: %s", separator, name, refusal.what);
    }
  }
};

// --- Guarded by the collector lock. ---

constinit Modes g_wanted = {};
// Where the modes come from.
enum class Source : uint8_t {
  kNobody,     // none has been turned on, or the collector is to try again
  kCollector,  // the collector has turned them on, or has tried to
  kProgram,    // the program has asked for them
};
constinit Source g_source = Source::kNobody;
// Some thread is in TurnOn, which gives the lock up in between. A fork by another thread meanwhile
// leaves it true in the child, where no thread is in TurnOn.
constinit bool g_turning_on = false;
// For each mechanism that was lost: what the system refused.
constinit platform::Refusal g_lost[platform::kTrackingKinds] = {};
// Of the better mechanisms than that in use, and, if none is in use, of all.
constinit Reasons g_reasons = {};
// The collector trace of this process has a record of the modes.
constinit bool g_modes_are_traced = false;

// After an attempt of the collector's own that failed for what may pass: the pauses of all
// collections after which it tries again.
constinit uint64_t g_next_try_ns = 0;

// --- Any thread: hints without the lock. ---

constinit platform::Hint<TrackingKind> g_in_use{TrackingKind::kNone};
constinit platform::Hint<bool> g_is_generational{false};
constinit platform::Hint<bool> g_is_programs_choice{false};

// For modes that the program asks for, or (`automatic`) that the collector turns on itself.
Candidates CandidatesWanted(bool automatic) {
  Candidates candidates;
  if (const TrackingKind named = kNamed[g_options.write_tracking]; named != TrackingKind::kNone) {
    candidates.Add(named);
    return candidates;
  }
  if (automatic) {
    for (const TrackingKind kind : platform::kUnnoticed) candidates.Add(kind);
    return candidates;
  }
  if (g_manual_vdb_allowed != 0) candidates.Add(TrackingKind::kCards);
  for (const TrackingKind kind : platform::kBestFirst) candidates.Add(kind);
  return candidates;
}

// Whether the tracker in use does not do for what the program asks for.
bool MustReplaceCollectorsChoice() {
  const gc::HeapWrites& writes = g_collector.writes();
  return g_source == Source::kProgram && g_wanted.concurrent && writes.IsTracking() &&
         !gc::HeapWrites::CanServeCycles(writes.tracker().kind()) &&
         kNamed[g_options.write_tracking] == TrackingKind::kNone;
}

// The mechanism in use, or else the first candidate that works. `reasons`: why those before it do
// not; unchanged if no candidate was tried. `costs` (unless null) as for Works. pre: the
// collector lock is held.
TrackingKind Choose(bool automatic, Reasons* reasons, platform::TrackingCosts* costs = nullptr) {
  const gc::HeapWrites& writes = g_collector.writes();
  if (writes.IsTracking() && !MustReplaceCollectorsChoice()) return writes.tracker().kind();
  if (writes.HasLostTracker()) return TrackingKind::kNone;
  const Candidates candidates = CandidatesWanted(automatic);
  reasons->Clear();
  if (automatic && platform::HasAnyFilter()) {
    snprintf(reasons->text, sizeof reasons->text, "%s", platform::kFilterRefusal.what);
    return TrackingKind::kNone;
  }
  for (size_t i = 0; i < candidates.count; ++i) {
    const TrackingKind kind = candidates.kind[i];
    platform::Refusal why = g_lost[static_cast<size_t>(kind)];
    if (kind == TrackingKind::kProtection && !platform::SystemCallsAreFound() &&
        !platform::LoaderCanBeAsked()) {
      why = {"a thread that is gone may have the loader's lock", 0};
    }
    if (why.what == nullptr && platform::WriteTracking::Works(kind, &why, costs)) {
      return kind;
    }
    reasons->Add(kind, why);
  }
  return TrackingKind::kNone;
}

// pre: the collector lock is held.
void PublishModes() {
  const gc::HeapWrites& writes = g_collector.writes();
  const bool is_generational = g_wanted.generational && writes.ServesMinors();
  const bool any = writes.ServesCycles() || is_generational;
  g_in_use.Set(any ? writes.tracker().kind() : TrackingKind::kNone);
  g_is_generational.Set(is_generational);
  g_is_programs_choice.Set(g_source == Source::kProgram);
  kListeners.modes_changed(
      {writes.ServesCycles(), is_generational},
      platform::TraitsOf(any ? writes.tracker().kind() : TrackingKind::kNone).name, g_reasons.text);
}

// Turns the wanted modes on with this mechanism. Returns those that failed, with the reason in
// g_reasons. pre: the collector lock is held.
Modes Open(TrackingKind kind) {
  if (kind == TrackingKind::kNone) return g_wanted;
  gc::HeapWrites& writes = g_collector.writes();
  // Another thread has opened a tracker since the choice, and it is lost: see ReplaceLostTracker.
  if (writes.HasLostTracker()) return {};
  if (MustReplaceCollectorsChoice()) writes.CloseTracker();
  const bool was_closed = !writes.IsTracking();
  const bool automatic = g_source == Source::kCollector;
  writes.RespectFilters(automatic);
  const bool concurrent =
      g_wanted.concurrent && (!automatic || gc::HeapWrites::CanServeCycles(kind));
  Modes failed;
  failed.concurrent = concurrent && !writes.ServesCycles() && !g_collector.cycle().Enable(kind);
  if (failed.concurrent) g_reasons.Add(kind, writes.refusal());
  failed.generational =
      g_wanted.generational && !writes.ServesMinors() && !writes.OpenForMinors(kind);
  if (failed.generational) g_reasons.Add(kind, writes.refusal());
  // Threads that blocked SIGSEGV before the handler was installed unblock it in a stop.
  if (was_closed && writes.IsTracking() && kind == TrackingKind::kProtection &&
      Threads::count() > 1) {
    Threads::Stop();
    Threads::Resume();
  }
  // Tell the program's barriers where the cards are, if cards are the mechanism.
  const platform::WriteTracking& tracker = writes.tracker();
  if (writes.IsTracking() && tracker.kind() == TrackingKind::kCards) {
    UseCards(tracker.card_table(), tracker.card_mask());
  }
  return failed;
}

const char* NameOf(const Modes& modes) {
  return modes.concurrent && modes.generational ? "concurrent or generational"
         : modes.concurrent                     ? "concurrent"
                                                : "generational";
}

// Prints what failed, once for each mode until it works again. pre: the collector lock is held.
void Tell(const Modes& failed) {
  static constinit Modes told = {};
  const bool is_asked = g_source == Source::kProgram;
  const Modes news = {is_asked && failed.concurrent && !told.concurrent,
                      is_asked && failed.generational && !told.generational};
  if (is_asked) told = failed;
  if (news.concurrent || news.generational) {
    Complain("no %s collections: writes to memory cannot be tracked (%s)", NameOf(news),
             g_reasons.text);
  } else if (g_reasons.text[0] != 0 && TrackingInUse() != TrackingKind::kNone &&
             (g_options.print_stats != 0 || g_options.print_verbose_stats)) {
    Log("gleaner: writes to memory are tracked by %s (%s)\n",
        platform::TraitsOf(TrackingInUse()).name, g_reasons.text);
  }
}

// What the collector has not done because of a filter may be done if the program asks for it. pre:
// the collector lock is held.
void StopRespectingFilters() {
  gc::HeapWrites& writes = g_collector.writes();
  if (writes.HasLostTracker() && writes.refusal().what == platform::kFilterRefusal.what &&
      g_collector.cycle().state() == gc::CycleState::kIdle) {
    writes.CloseTracker();
  }
  writes.RespectFilters(false);
  for (platform::Refusal& lost : g_lost) {
    if (lost.what == platform::kFilterRefusal.what) lost = {};
  }
}

// The collector has turned nothing on, for a reason that may pass: it tries again when collections
// have taken twice as long, so that all attempts together cost little. pre: the collector lock is
// held.
void TryAgainLater() {
  g_source = Source::kNobody;
  g_wanted = {};
  g_next_try_ns = 2 * g_collector.totals().pauses.all_ns;
  for (platform::Refusal& lost : g_lost) {
    if (IsTransient(lost)) lost = {};
  }
}

// When the cost of a first write is measured again. Guarded by the collector lock.
constinit uint64_t g_next_measurement_ns = 0;

// A measurement takes less than 0.5 ms of the program's time, 1/4000 of what is between two. pre:
// the collector lock is held.
void SetCosts(const platform::TrackingCosts& costs) {
  constexpr uint64_t kRestNs = 2'000'000'000;
  g_next_measurement_ns = platform::NowNs() + kRestNs;
  platform::g_machine_costs.SetTracking(costs.first_write_ns, costs.arm_ns);
  if (costs.first_write_ns != 0 && (g_options.print_stats != 0 || g_options.print_verbose_stats)) {
    Log("gleaner: a first write to tracked memory takes %u ns\n",
        platform::g_machine_costs.first_write_ns());
  }
}

// Turns g_wanted on by the best mechanism that works. pre: g_turning_on, which it resets.
void TurnOnWanted() {
  // A handler that jumps away must not leave the lock taken.
  const platform::HandlersWait no_handlers;
  const platform::UncancellableSection section;
  for (;;) {
    TrackingKind kind;
    bool loader_can_be_asked;
    bool automatic;
    platform::TrackingCosts costs = {platform::g_machine_costs.first_write_ns(),
                                     platform::g_machine_costs.arm_ns()};
    {
      platform::LockGuard guard(g_collector.lock());
      if (g_source == Source::kNobody) return;  // another thread was faster: TryAgainLater
      automatic = g_source == Source::kCollector;
      kind = Choose(automatic, &g_reasons, &costs);
      loader_can_be_asked = platform::LoaderCanBeAsked();
    }
    // Done before any page is protected, and without the collector lock: the loader's lock ranks
    // before it.
    if (kind == TrackingKind::kProtection) {
      platform::InterposeSystemCalls(loader_can_be_asked);
    } else if (kind != TrackingKind::kNone && loader_can_be_asked && !automatic) {
      platform::FindSystemCalls();  // a forked child that loses the tracker cannot look them up
    }
    platform::LockGuard guard(g_collector.lock());
    if (g_source == Source::kNobody) return;  // TryAgainLater
    const Modes failed = Open(kind);
    const gc::HeapWrites& writes = g_collector.writes();
    SetCosts(costs);
    if ((failed.concurrent || failed.generational) && kind != TrackingKind::kNone &&
        !writes.IsTracking() && !writes.HasLostTracker()) {
      // The mechanism works on a few pages but is refused for the whole heap: try the next one.
      g_lost[static_cast<size_t>(kind)] = writes.refusal();
      continue;
    }
    PublishModes();
    g_turning_on = false;
    Tell(failed);
    if (kind == TrackingKind::kNone && g_source == Source::kCollector && !writes.IsTracking() &&
        !writes.HasLostTracker() && g_reasons.is_transient) {
      TryAgainLater();
    }
    return;
  }
}

// Returns when no other thread is in a step that has found no filter (platform/os/filters.h).
//
// Does not wait where it might wait for itself: the thread has a lock, or its handler has
// interrupted the library. Nor for ever: the holder of the lock may run program code that waits for
// this thread, and so may a stop, if this thread has blocked its signal. While it waits it can be
// stopped as anywhere. Between the attempts the program's handlers run, with no lock taken.
void AwaitSteps() {
  constexpr uint64_t kHandlersWaitNs = 1'000'000;
  constexpr int kMaxAttempts = 1000;
  if (platform::IsInSection()) return;
  for (int i = 0; i < kMaxAttempts; ++i) {
    const platform::HandlersWait no_handlers;
    const platform::UncancellableSection section;
    if (!g_collector.lock().AcquireWithin(kHandlersWaitNs)) continue;
    g_collector.lock().Release();
    return;
  }
}

}  // namespace

void HeedFilters() {
  // Without a mark of its memory a child of vfork would wait, and this process for the child.
  if (platform::OwnMemory()) platform::SetAwaitSteps(AwaitSteps);
}

void TurnOn(const Modes& modes) {
  if (g_malloc_support.never_wait) {
    return Complain("no %s collections: not in a malloc that collects", NameOf(modes));
  }
  {
    platform::LockGuard guard(g_collector.lock());
    // What the collector has turned on itself the program has not asked for.
    if (g_source == Source::kCollector) {
      g_wanted = {};
      StopRespectingFilters();
    }
    g_source = Source::kProgram;
    g_turning_on = true;
    g_wanted.concurrent |= modes.concurrent;
    g_wanted.generational |= modes.generational;
  }
  TurnOnWanted();
}

void TurnOnByOptions() {
  const Modes modes = {g_options.concurrent || g_options.mode == kConcurrent,
                       g_options.generational != 0 || g_options.mode == kGenerational};
  if (modes.concurrent || modes.generational) TurnOn(modes);
}

bool IsAutomatic() {
  return !IsProgramsChoice() && g_options.mode == kAutomatic && !g_malloc_support.never_wait;
}

bool ShouldTurnOnAutomatically() {
  const uint64_t paused_ns = g_collector.totals().pauses.all_ns;
  return g_source == Source::kNobody && IsAutomatic() && paused_ns >= g_next_try_ns &&
         paused_ns + g_collector.ExpectedStopNs() >= uint64_t{g_options.auto_after} * 1000;
}

void TurnOnAutomatically() {
  {
    platform::LockGuard guard(g_collector.lock());
    if (!ShouldTurnOnAutomatically()) return;  // another thread was faster
    g_source = Source::kCollector;
    g_turning_on = true;
    g_wanted = {.concurrent = true, .generational = true};
  }
  TurnOnWanted();
}

// Of the mechanisms that the collector chooses itself, a second tracker by userfaultfd disturbs
// nothing. One by soft-dirty bits would clear those of the first.
bool ShouldMeasureAgain() {
  const gc::HeapWrites& writes = g_collector.writes();
  return IsAutomatic() && writes.IsTracking() &&
         writes.tracker().kind() == TrackingKind::kUserfaultfd &&
         platform::NowNs() >= g_next_measurement_ns;
}

void MeasureAgain() {
  const platform::HandlersWait no_handlers;
  const platform::UncancellableSection section;
  platform::LockGuard guard(g_collector.lock());
  if (!ShouldMeasureAgain() || platform::HasAnyFilter()) return;
  platform::TrackingCosts costs;
  if (platform::WriteTracking::Works(TrackingKind::kUserfaultfd, nullptr, &costs)) SetCosts(costs);
}

bool IsConcurrent() { return g_collector.writes().ServesCycles(); }

bool IsProgramsChoice() { return g_is_programs_choice.Get(); }

bool IsIncremental() { return IsConcurrent() && IsProgramsChoice(); }

Modes ModesInUse() { return {IsConcurrent(), g_is_generational.Get()}; }

TrackingKind TrackingInUse() { return g_in_use.Get(); }

TrackingKind TrackingToUse() {
  platform::LockGuard guard(g_collector.lock());
  Reasons unused;
  return Choose(false, &unused);
}

bool CanTrack(TrackingKind kind) {
  platform::LockGuard guard(g_collector.lock());
  const gc::HeapWrites& writes = g_collector.writes();
  if (writes.IsTracking() && writes.tracker().kind() == kind) return true;
  return platform::WriteTracking::Works(kind);
}

void CopyReason(char* text, size_t capacity) {
  platform::LockGuard guard(g_collector.lock());
  snprintf(text, capacity, "%s", g_reasons.text);
}

void TraceModesLocked() {
  if (!platform::HasTrace()) return;
  constexpr size_t kReasonWords = 12;
  constexpr size_t kWords = 5 + kReasonWords;
  static uint64_t traced[kWords];  // guarded by the collector lock
  const Modes modes = ModesInUse();
  uint64_t w[kWords] = {static_cast<uint64_t>(TrackingInUse()), modes.concurrent,
                        modes.generational, IsAutomatic(), g_pause_goal_ns.Get()};
  memcpy(w + 5, g_reasons.text, strnlen(g_reasons.text, kReasonWords * sizeof w[0]));
  if (g_modes_are_traced && memcmp(w, traced, sizeof w) == 0) return;
  memcpy(traced, w, sizeof w);
  g_modes_are_traced = true;
  platform::EmitTrace(platform::TraceEvent::kTracking, platform::NowNs(),
                      {w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
                       w[12], w[13], w[14], w[15], w[16]});
}

void ForgetTracedModes() { g_modes_are_traced = false; }

bool NeedsTracker() { return g_collector.writes().HasLostTracker() || g_turning_on; }

void ReplaceLostTracker() {
  {
    platform::LockGuard guard(g_collector.lock());
    gc::HeapWrites& writes = g_collector.writes();
    const TrackingKind kind = writes.tracker().kind();
    // Nothing to do if the loss was reported before. In the midst of a cycle, a later collection
    // comes back here.
    platform::Refusal& lost = g_lost[static_cast<size_t>(kind)];
    if (!NeedsTracker()) return;
    if (writes.HasLostTracker()) {
      if (lost.what != nullptr || g_collector.cycle().state() != gc::CycleState::kIdle) return;
      const bool is_barred = writes.refusal().what == platform::kFilterRefusal.what;
      lost = writes.refusal();
      g_reasons.Clear();
      g_reasons.Add(kind, lost);
      // Of mprotect the tracker stays open, since threads may be in system calls with pinned pages,
      // and no mechanism comes after it. Under a filter none may be tried, nor descriptors closed.
      if (kind == TrackingKind::kProtection || (is_barred && g_source == Source::kCollector)) {
        PublishModes();
        return Tell(g_wanted);
      }
      if (is_barred) lost = {};  // the program has asked for the mode since
      writes.CloseTracker();
      g_turning_on = true;
    }
  }
  TurnOnWanted();
}

}  // namespace gleaner::runtime
