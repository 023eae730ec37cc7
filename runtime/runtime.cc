#include "runtime/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "alloc/hooks.h"
#include "alloc/object.h"
#include "alloc/page_space.h"
#include "platform/clock.h"
#include "platform/loaded_objects.h"
#include "platform/mappings.h"
#include "platform/memory.h"
#include "platform/process.h"
#include "platform/stalls.h"
#include "platform/standard_error.h"
#include "platform/unwinding.h"
#include "runtime/arenas.h"
#include "runtime/dump.h"
#include "runtime/findings.h"
#include "runtime/latency.h"
#include "runtime/limits.h"
#include "runtime/run_record.h"
#include "runtime/statistics.h"
#include "runtime/tracking.h"
#include "runtime/variables.h"

namespace gleaner::runtime {

constinit MallocSupport g_malloc_support;

using gc::Cause;
using gc::CycleEvent;
using gc::g_collector;

namespace {

enum class InitState : uint32_t { kNot, kRunning, kDone };
constinit platform::Atomic<uint32_t> g_init_state{static_cast<uint32_t>(InitState::kNot)};

// The client set a limit before Init: the option does not replace it.
constinit bool g_max_heap_set = false;

// Collection number up to which the client's notifier was called.
constinit platform::Atomic<uint64_t> g_notified{0};

// Why a thread that wants a collection cannot have one.
enum class Hindrance : uint8_t { kCallback, kLock, kHandler };

// Said once of each.
void ComplainOf(Hindrance hindrance) {
  static constexpr const char* kPlaces[] = {
      "in a callback of a collection, which holds the allocation lock",
      "by a thread that holds the allocation lock (GC_alloc_lock, GC_call_with_alloc_lock, "
      "GC_stop_world_external)",
      "in a signal handler that has interrupted the library, or after a jump out of it"};
  static constinit platform::Atomic<uint32_t> told[3] = {};
  const auto which = static_cast<size_t>(hindrance);
  // Relaxed: only a message.
  if (told[which].Exchange(1, platform::memory_order_relaxed) != 0) return;
  Complain("GC_malloc, GC_gcollect or the like was called %s: no collection can start there",
           kPlaces[which]);
}

// Puts right the child of a fork that was not prepared. pre: no call is interrupted in it.
void RefreshStaleChild();
// There is such a child. Of its only thread.
constinit bool g_child_is_stale = false;
void RefreshIfStale() {
  if (GLEANER_UNLIKELY(g_child_is_stale)) RefreshStaleChild();
}

// --- The collector's view of the process (gc::World) ---

bool StopWorld() {
  if (g_child_is_stale) Threads::ResetAfterFork();  // the one thread is in a call that goes on
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

// What the process has resident besides the heap, looked up from time to time: reading the file
// costs as much as a tiny collection. Guarded by the collector lock.
uint64_t ProcessBytes() {
  static constinit uint64_t bytes = 0;
  const uint64_t collections = g_collector.collections();
  if ((collections & (collections - 1)) == 0 || collections % 64 == 0) {
    const uint64_t all = platform::ResidentProcessBytes();
    const uint64_t heap = alloc::ResidentBytes();
    bytes = all > heap ? all - heap : 0;
  }
  return bytes;
}

void ReadTunables(gc::Tunables* tunables) {
  tunables->mark.all_interior_pointers = GC_all_interior_pointers != 0;
  tunables->mark.pad_objects = g_options.pad_objects;
  tunables->mark.past_the_end = !g_malloc_support.strict_roots;
  tunables->mark.balance = g_options.mark_balance;
  tunables->mark.split = g_options.mark_split;
  tunables->mark.termination = static_cast<gc::TerminationMethod>(g_options.termination);
  tunables->pacer.free_space_divisor = GC_free_space_divisor;
  const auto least = static_cast<size_t>(g_options.min_allowance);
  tunables->pacer.min_allowance_bytes = g_min_bytes_allocd > least ? g_min_bytes_allocd : least;
  tunables->pacer.initial_heap_bytes = static_cast<size_t>(g_options.initial_heap);
  tunables->pacer.max_heap_bytes = alloc::HeapLimit();
  tunables->pacer.process_bytes = ProcessBytes();
  tunables->pacer.stress_bytes = static_cast<size_t>(g_options.collect_every);
  tunables->verify = g_options.mark_verify;
  tunables->mark_beside = IsConcurrent() && GC_find_leak == 0;
  tunables->slice_bytes = g_options.cycle_slice;
  tunables->rate = g_rate;
  tunables->short_pause_ns = g_options.cycle_slice == 0 ? g_options.short_pause * 1000 : 0;
  tunables->pause_target_ns =
      GC_time_limit == GC_TIME_UNLIMITED ? 0 : GC_time_limit * 1'000'000 + g_time_limit_ns;
  // A procedure of the program's that decides which segments are roots runs on its own threads.
  tunables->driver =
      g_options.cycle_thread && g_options.cycle_slice == 0 && g_has_static_roots == nullptr;
  const int all = g_collector.pool().size();
  const int share = g_options.background_markers != 0
                        ? static_cast<int>(g_options.background_markers)
                        : (all + 3) / 4;
  tunables->background_markers = share < all ? share : all;
  const bool generational = g_options.generational != 0 && GC_find_leak == 0;
  tunables->generational = generational ? static_cast<gc::GenerationalMode>(g_options.generational)
                                        : gc::GenerationalMode::kOff;
  tunables->pacer.early = IsConcurrent() || generational;
  tunables->most_minors = static_cast<uint64_t>(GC_full_freq < 0 ? 0 : GC_full_freq);
  tunables->sweep_beside = g_options.sweep_beside && !g_malloc_support.never_wait;
}

void Notify(GC_EventType event) {
  if (g_on_collection_event != nullptr) g_on_collection_event(event);
}

// What the client's GC_on_heap_resize was told last. Guarded by the collector lock.
constinit size_t g_announced_heap_bytes = 0;

// What the collector did last, for the message of a fatal error.
constinit platform::Atomic<int> g_last_event{-1};

void DescribePhase(const char* reason) {
  static const char* const names[] = {
      "start",    "before the stop", "stopped",         "marking", "marked",
      "sweeping", "swept",           "before resuming", "resumed", "end"};
  const int event = g_last_event.Load(platform::memory_order_relaxed);  // a hint for the reader
  Complain("thread %d; collections so far: %llu; the collector's last event: %s",
           platform::CurrentThreadId(), static_cast<unsigned long long>(g_collector.collections()),
           event < 0 ? "none" : names[event]);
  TellOfAbort(reason);
  if (!g_options.loop_on_abort) return;
  Complain("waiting for a debugger, process %d (GC_LOOP_ON_ABORT)", getpid());
  for (;;) pause();
}

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

void OnEvent(CycleEvent event) {
  g_last_event.Store(static_cast<int>(event), platform::memory_order_relaxed);  // as above
  switch (event) {
    case CycleEvent::kStart:
      if (g_start_callback != nullptr) g_start_callback();
      return Notify(GC_EVENT_START);
    case CycleEvent::kBeforeStop:
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
      NoteCollection();
      return Notify(GC_EVENT_RECLAIM_END);
    case CycleEvent::kBeforeResume:
      return Notify(GC_EVENT_PRE_START_WORLD);
    case CycleEvent::kResumed:
      return Notify(GC_EVENT_POST_START_WORLD);
    case CycleEvent::kEnd:
      break;
  }
  NoteCollectionInRunRecord();
  const size_t heap = HeapBytes();
  if (GC_on_heap_resize != nullptr && heap != g_announced_heap_bytes) GC_on_heap_resize(heap);
  g_announced_heap_bytes = heap;
  Notify(GC_EVENT_END);
  if (g_options.print_address_map) PrintFile("/proc/self/maps");
  if (g_options.dump_regularly) DumpState(nullptr);
  if (g_options.print_stats == 0 && !g_options.print_verbose_stats) return;
  const gc::CycleReport& r = g_collector.last();
  char parts[gc::kPauseParts * 32];
  size_t length = 0;
  for (int i = 0; i < gc::kPauseParts; ++i) {
    length += static_cast<size_t>(
        snprintf(parts + length, sizeof parts - length, "%s%s %.3f", i == 0 ? "" : ", ",
                 NameOf(static_cast<gc::PausePart>(i)), Ms(r.pause.part_ns[i])));
    if (length >= sizeof parts) length = sizeof parts - 1;
  }
  Log("gleaner: gc %llu (%s): live %.3f MB in %llu objects, freed %.3f MB, heap %.3f MB, pause "
      "%.3f ms (%s), %d marker%s, %llu finalizable%s\n",
      static_cast<unsigned long long>(r.number), NameOf(r.cause),
      static_cast<double>(r.live_bytes) / 1e6, static_cast<unsigned long long>(r.live_objects),
      static_cast<double>(r.freed_bytes) / 1e6, static_cast<double>(r.resident_bytes) / 1e6,
      Ms(r.pause.all_ns), parts, r.markers, r.markers == 1 ? "" : "s",
      static_cast<unsigned long long>(r.finalizable),
      r.minor     ? ", minor"
      : r.overrun ? ", overrun"
      : r.beside  ? ", marked beside the program"
                  : "");
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
  Findings::InspectWorldStopped(marker, roots, config);
  if (g_malloc_support.inspect != nullptr) g_malloc_support.inspect(marker);
}

constexpr gc::World kWorld = {StopWorld,
                              ResumeWorld,
                              AddRoots,
                              ReadTunables,
                              OnEvent,
                              WarnCycle,
                              ToggleFunction,
                              InspectWorldStopped,
                              Threads::BeginHandshakes,
                              Threads::Handshake,
                              Threads::CopyRoots};

// --- The allocator's hooks ---

bool AutomaticCollectionAllowed() { return GC_dont_gc == 0 && g_disable_automatic == 0; }

// A poll with collections beside the program: false if it has to be decided as without.
bool PollBeside(ptrdiff_t bytes) {
  const Thread* self = Threads::Current();
  if (self == nullptr || self->under_lock != 0 || platform::IsInSection() ||
      !AutomaticCollectionAllowed()) {
    return false;
  }
  RefreshIfStale();
  struct Call {
    uint64_t bytes;
    bool collect;
  } call{bytes > 0 ? static_cast<uint64_t>(bytes) : 0, false};
  const uint64_t seen = g_collector.collections();
  {
    const platform::UncancellableSection section;
    platform::StallScope stall(platform::StallCause::kAssist);
    platform::WithRegistersOnStack(
        [](Addr stack_pointer, void* context) {
          auto* of_poll = static_cast<Call*>(context);
          of_poll->collect = g_collector.Advance(of_poll->bytes, stack_pointer);
        },
        &call);
  }
  // Another thread may have come to the same conclusion before.
  if (call.collect && g_collector.collections() == seen) {
    Collect(Cause::kAllocation, g_stop_func);
  }
  return call.collect ||
         (g_collector.CanMarkBeside() && !g_collector.IsMinorNext() && !g_collector.IsOverrun());
}

void OnAllocated(ptrdiff_t bytes) {
  if (Thread* self = Threads::Current(); self != nullptr && bytes > 0) {
    self->bytes_since_cleared += static_cast<size_t>(bytes);
  }
  NoteAllocationInRunRecord();
  g_collector.EndSweepIfDone();
  const uint64_t seen = g_collector.collections();
  const bool due = g_collector.pacer().OnAllocated(bytes, alloc::ResidentBytes());
  if (IsConcurrent() && PollBeside(bytes)) return;
  if (!due) {
    // At each report anew: what has been traded for memory elsewhere is not to be had once more.
    if (AutomaticCollectionAllowed() && g_collector.pacer().IsShareUsed()) {
      alloc::LimitGrowth(g_collector.pacer().NotBelowWanted(alloc::ResidentBytes()));
    }
    return;
  }
  // Another thread may have collected while this one waited for a cycle's end.
  if (AutomaticCollectionAllowed() && g_collector.collections() == seen) {
    Collect(Cause::kAllocation, g_stop_func);
  }
}

// Whether the program's limit alone is in the way, and pages that are free where `bytes` are of no
// use to them have gone back to the system.
bool MakeRoomInLimit(size_t bytes, size_t least_share) {
  const size_t limit = alloc::HeapLimit();
  return limit != 0 && bytes <= limit && alloc::ResidentBytes() + bytes > limit &&
         alloc::ThreadHeaps::TradeFreePages(bytes, least_share);
}

uint64_t AllocatedAndFreed(const Thread& thread) {
  return thread.heap->allocated_bytes + thread.heap->freed_bytes;
}

// Whether the calling thread may collect for a request that the heap has no room for. Of requests
// that fail in a row, the n-th is the next for which it does if n is half as large again as the
// last such number. So a program that goes on after NULL is not held up, and one that drops what it
// can spare, piece by piece, until the request succeeds, drops hardly more than it has to. Others
// that collect: a request for half of the least that failed, and any after as long a time as the
// last collections took, which at most doubles a run's time.
bool MayCollectForRequest(size_t bytes) {
  Thread* self = Threads::Current();
  if (self == nullptr) return true;
  FailedRequests& failed = self->failed_requests;
  if (AllocatedAndFreed(*self) != failed.allocated_and_freed) failed = {};
  ++failed.in_a_row;
  if (failed.in_a_row < failed.next && bytes > failed.least_bytes / 2 &&
      platform::NowNs() - failed.last_ns < failed.collecting_ns) {
    return false;
  }
  failed.next = failed.in_a_row + (failed.in_a_row + 1) / 2;
  return true;
}

void NoteFailedRequest(size_t bytes, uint64_t collecting_ns) {
  Thread* self = Threads::Current();
  if (self == nullptr) return;
  FailedRequests& failed = self->failed_requests;
  if (bytes < failed.least_bytes) failed.least_bytes = bytes;
  failed.allocated_and_freed = AllocatedAndFreed(*self);
  failed.collecting_ns = collecting_ns;
  failed.last_ns = platform::NowNs();
}

bool OnExhausted(size_t bytes, alloc::Attempts* attempts) {
  if (g_collector.SweepRest() || attempts->IsOutOfDate()) return true;
  bytes = AlignUp(bytes, alloc::kPageBytes);
  if (MakeRoomInLimit(bytes, attempts->failed == 0 ? 8 : SIZE_MAX >> alloc::kPageShift))
    return true;
  if (attempts->failed > 1) {
    NoteFailedRequest(bytes, attempts->collecting_ns);
    return false;
  }
  if (GC_dont_gc != 0 || (attempts->failed == 0 && !MayCollectForRequest(bytes))) return false;
  const uint64_t begin = platform::NowNs();
  Collect(attempts->failed == 0 ? Cause::kExhausted : Cause::kExplicit);
  attempts->collecting_ns += platform::NowNs() - begin;
  ++attempts->failed;
  return true;
}

void OnGrowth(size_t bytes, const alloc::Attempts& attempts) {
  bytes = AlignUp(bytes, alloc::kPageBytes);
  if (alloc::ResidentBytes() + bytes <= alloc::GrowthLimit()) return;  // it has moved meanwhile
  if (g_collector.SweepRest() || attempts.IsOutOfDate()) return;
  bool collect = AutomaticCollectionAllowed() && g_collector.pacer().IsShareUsed();
  if (collect && IsConcurrent() && !g_collector.IsMinorNext() && !g_collector.IsOverrun()) {
    // Rather a larger heap than a pause.
    if (!g_collector.cycle().IsUnderWay()) g_collector.WantCycle();
    collect = false;
  }
  // Most of what is free finds its use before long, so that it must be more within the share.
  if (alloc::ThreadHeaps::TradeFreePages(bytes, collect ? 8 : 4)) return;
  if (collect && (attempts.IsOutOfDate() || Collect(Cause::kAllocation, g_stop_func))) {
    return;  // the collection has moved the limit
  }
  alloc::LimitGrowth(g_collector.pacer().MayGrowTo(alloc::ResidentBytes() + bytes));
}

// --- Finalizers ---

// Finalizers, and the notifier, run in the state of cancellation that the program has set.
void AfterCollection() {
  platform::NoticeAddressSpaceLimit();
  {
    const platform::UncancellableSection section;
    Findings::Report();
  }
  size_t ready;
  bool needs_tracker;
  {
    platform::LockGuard guard(g_collector.lock());
    ready = g_collector.finalizers().ready();
    needs_tracker = NeedsTracker();
  }
  if (needs_tracker) ReplaceLostTracker();
  if (ready == 0) return;
  if (GC_finalize_on_demand == 0) {
    Thread* self = Threads::Current();
    // A finalizer that allocates does not run other finalizers on top of itself.
    if (self != nullptr && !self->running_finalizers) InvokeFinalizers();
    return;
  }
  const uint64_t now = g_collector.collections();
  if (GC_finalizer_notifier != nullptr &&
      g_notified.Exchange(now, platform::memory_order_seq_cst) != now) {
    GC_finalizer_notifier();
  }
}

struct CollectCall {
  Cause cause;
  int (*give_up)();
  uint64_t seen = g_collector.collections();  // before the call
  bool is_over = false;                       // else the lock was not to be had
  bool done = false;
};

// How long an allocation that would fail otherwise waits for a collection of another thread's.
constexpr uint64_t kMostWaitNs = 200'000'000;
constexpr uint64_t kWaitNs = 200'000;

// The collector's question whether to give up: before the stop and, with the world stopped, before
// marking.
int HasNoRoots() {
  return platform::WorldIsStopped() && g_malloc_support.find_roots != nullptr &&
         !g_malloc_support.find_roots();
}

// A collection takes some 8 KiB of stack. An alternate stack of a handler may have less below its
// frames; its allocations leave the collection to a call elsewhere.
constexpr size_t kCollectionStackBytes = 32 * kKiB;

bool IsOnSmallAlternateStack(Addr stack_pointer) {
  return platform::AlternateStackEnd(stack_pointer) != 0 &&
         platform::AlternateStackEnd(stack_pointer - kCollectionStackBytes) == 0;
}

// pre: the collector lock is held.
void CollectForMallocLocked(Thread* self, Addr stack_pointer, CollectCall* call) {
  ++self->under_lock;
  self->stack_pointer = stack_pointer;  // the search for roots takes one without for ended
  call->done = g_collector.CollectLocked(call->cause, stack_pointer, HasNoRoots);
  if (g_malloc_support.collected != nullptr) g_malloc_support.collected(call->done);
  --self->under_lock;
}

void CollectForMalloc(Thread* self, Addr stack_pointer, CollectCall* call) {
  if (IsOnSmallAlternateStack(stack_pointer)) return;
  platform::Atomic<uint32_t> sleep{0};  // nobody wakes us
  for (uint64_t waited_ns = 0;; waited_ns += kWaitNs) {
    {
      const platform::HandlersWait no_handlers;
      if (g_collector.lock().TryAcquire()) {
        CollectForMallocLocked(self, stack_pointer, call);
        g_collector.lock().Release();
        return;
      }
    }
    if (call->cause == Cause::kAllocation || waited_ns >= kMostWaitNs) return;
    platform::FutexWaitFor(&sleep, 0, kWaitNs);
    if (call->cause != Cause::kExplicit && g_collector.collections() != call->seen) return;
  }
}

// Most likely another thread is about to stop us. Asleep on the lock we would have to be woken by a
// signal; blocked we count as stopped. Not for long: who has the lock may run code of the program's
// that waits for a handler on this thread. pre: handlers wait.
void AwaitCollectorLock(Thread* self, Addr stack_pointer) {
  constexpr uint64_t kHandlersWaitNs = 1'000'000;
  platform::EnterBlocking(self, stack_pointer);
  if (g_collector.lock().AcquireWithin(kHandlersWaitNs)) g_collector.lock().Release();
  platform::LeaveBlocking(self);
}

// Collects, or waits for the lock for a while. The program's handlers wait meanwhile.
void TryToCollect(Addr stack_pointer, CollectCall* call) {
  Thread* self = Threads::Current();
  platform::Lock& lock = g_collector.lock();
  const auto is_up_to_date = [call] {
    return call->cause != Cause::kExplicit && g_collector.collections() != call->seen;
  };
  if (lock.IsHeld()) AwaitCollectorLock(self, stack_pointer);
  if (is_up_to_date()) {
    call->is_over = true;
    return;
  }
  if (!lock.TryAcquire()) return;
  call->is_over = true;
  if (!is_up_to_date()) {
    ++self->under_lock;  // in the callbacks that the collection makes
    self->in_collection = true;
    call->done = g_collector.CollectLocked(call->cause, stack_pointer, call->give_up);
    self->in_collection = false;
    --self->under_lock;
  }
  lock.Release();
}

struct BlockingCall {
  void* (*f)(void*);
  void* data;
  void* result;
};

// Without a heap from the instant on at which the thread is blocked. A handler that comes between
// the two and allocates takes the heap back (EndBlocking), and with it the preparation.
void BeginBlocking(Addr stack_pointer) {
  Thread* self = Threads::Current();
  uint32_t running;
  do {
    running = self->state.Load(platform::memory_order_seq_cst);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // against handlers, same thread
    alloc::t_heap = &alloc::g_no_heap;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // likewise
  } while (!platform::TryEnterBlocking(self, stack_pointer, running));
}

GLEANER_DEFINE_UNWOUND(gleaner_blocking_unwound) { EndBlocking(); }

// Back in the section, all of whose stack counts down to this frame.
GLEANER_DEFINE_UNWOUND(gleaner_active_unwound) {
  if (HasHeap()) BeginBlocking(AddressOf(__builtin_frame_address(0)));
}

void BlockWithRegisters(Addr stack_pointer, void* context) {
  GLEANER_WHEN_UNWOUND(gleaner_blocking_unwound);
  auto* call = static_cast<BlockingCall*>(context);
  BeginBlocking(stack_pointer);
  call->result = call->f(call->data);
  EndBlocking();
}

GLEANER_NOINLINE void* CallActive(void* (*f)(void*), void* data) {
  GLEANER_WHEN_UNWOUND(gleaner_active_unwound);
  const Addr stack_pointer = Threads::Current()->stack_pointer;
  EndBlocking();
  void* result = f(data);
  if (HasHeap()) BeginBlocking(stack_pointer);
  return result;
}

// Objects that were given up after the last collection.
void FindLastLeaks() {
  if (GC_find_leak != 0) Collect(Cause::kExplicit);
}

void LogLatency() { PrintLatency(Stream::kLog); }

// Programs that write past the end of their objects, which libgc's padding hides.
bool IsKnownToOverrun(const char* program) { return strcmp(program, "g2c") == 0; }

constexpr size_t kLeastHeap = 16 * kMiB;
constexpr char kNoAddressSpace[] = "the system refuses 16 MiB of address space";

// What there is not enough memory or address space for; null if it is done.
const char* InitOnce() {
  g_fatal_context = DescribePhase;
  platform::KeepLoaded();
  NoteStandardError();
  FindLimitFunctions();
  ReadOptions();
  if (g_options.log_file != nullptr) {
    const int fd = platform::OpenLogFile(g_options.log_file);
    if (fd < 0) {
      Complain("cannot write the log file %s: errno %d", g_options.log_file, errno);
    } else {
      SetLogFd(fd);
      if (!g_options.only_log_to_file) PrintAllToLog();
    }
  }
  StartTestDevices();
  enum SpareBytes : int { kAuto, kOn };
  if (g_options.spare_bytes == kOn ||
      (g_options.spare_bytes == kAuto && IsKnownToOverrun(program_invocation_short_name))) {
    alloc::WidenSizeClasses();
  }
  bool ok =
      alloc::g_space.Init(static_cast<size_t>(g_options.reserve), kLeastHeap, g_options.huge_pages);
  ok = ok && alloc::InitPageSpaces(static_cast<alloc::FitPolicy>(g_options.tree_fit));
  ok = ok && alloc::ThreadHeaps::Init(static_cast<alloc::Policy>(g_options.policy), g_options.k);
  ok = ok && Threads::Init();
  if (!ok) return kNoAddressSpace;
  if (!g_max_heap_set) alloc::SetHeapLimit(static_cast<size_t>(g_options.max_heap));
  GC_least_plausible_heap_addr = PointerAt<void>(alloc::g_space.base);
  GC_greatest_plausible_heap_addr = PointerAt<void>(alloc::g_space.base + alloc::g_space.bytes);
  ApplyOptionsToVariables();
  const int markers = g_options.markers != 0  ? static_cast<int>(g_options.markers)
                      : g_markers_wanted != 0 ? g_markers_wanted
                      : g_options.processors != 0
                          ? static_cast<int>(g_options.processors < 64 ? g_options.processors : 64)
                          : platform::UsableCpuCount();
  if (!g_collector.Init(kWorld, markers)) return "no memory for the collector's tables";
  GC_parallel = g_collector.pool().size() - 1;
  platform::InstallStopHandler();
  Thread* self = Threads::Register();
  if (self == nullptr) return "no memory to register the first thread";
  alloc::g_hooks = {OnAllocated, OnExhausted, OnGrowth, gc::Collector::SweepSome};
  AttachRunRecord();
  if (atexit(FindLastLeaks) != 0)
    Complain("no memory for an exit handler: the last leaks are missed");
  if (g_options.print_stats >= 2 && atexit(LogLatency) != 0)
    Complain("no memory for an exit handler: pauses and stalls are not printed");
  self->is_main = platform::CurrentThreadId() == getpid();
  if (self->is_main) {
    if (GC_stackbottom == nullptr) GC_stackbottom = PointerAt<char>(self->stack_bottom);
  }
  if (g_handle_fork != 0) {
    const bool installed = InstallForkHandlers();
    if (!installed && g_handle_fork > 0) Complain("no memory for fork handlers: fork() is unsafe");
    g_handle_fork = installed ? 1 : -1;  // GC_atfork_* do nothing if 1
  }
  if (const Modes modes = {g_options.concurrent, g_options.generational != 0};
      modes.concurrent || modes.generational) {
    TurnOn(modes);
  }
  if (g_options.dump_regularly) DumpState(nullptr);
  return nullptr;
}

}  // namespace

bool IsInitialised() {
  // Acquire: pairs with the release store at the end of Init.
  return g_init_state.Load(platform::memory_order_acquire) ==
         static_cast<uint32_t>(InitState::kDone);
}

bool IsInitialisationCalled() {
  return g_init_state.Load(platform::memory_order_relaxed) !=  // a hint
         static_cast<uint32_t>(InitState::kNot);
}

namespace {
void AnnounceInit() {
  // Release: everything set up is visible to whoever sees kDone.
  g_init_state.Store(static_cast<uint32_t>(InitState::kDone), platform::memory_order_release);
  platform::FutexWakeAll(&g_init_state);
}
}  // namespace

void Init() {
  if (IsInitialised()) return;
  const platform::UncancellableSection section;
  uint32_t state = static_cast<uint32_t>(InitState::kNot);
  if (!g_init_state.CompareExchange(state, static_cast<uint32_t>(InitState::kRunning),
                                    platform::memory_order_seq_cst)) {
    // Another thread is at it.
    while (!IsInitialised())
      platform::FutexWait(&g_init_state, static_cast<uint32_t>(InitState::kRunning));
    return;
  }
  const char* refused = InitOnce();
  // The tables have had theirs.
  if (refused == nullptr && !alloc::AddressSpace::CanCommit(kLeastHeap)) refused = kNoAddressSpace;
  if (refused != nullptr) Fatal("cannot start: %s", refused);
  AnnounceInit();
}

bool TryInit() {
  // Relaxed: nobody else starts it.
  g_init_state.Store(static_cast<uint32_t>(InitState::kRunning), platform::memory_order_relaxed);
  if (InitOnce() != nullptr) {
    alloc::g_space.Release();
    return false;
  }
  AnnounceInit();
  return true;
}

bool AttachThread() {
  if (GLEANER_LIKELY(Threads::Current() != nullptr)) return true;
  Init();
  return Threads::Current() != nullptr || Threads::Register() != nullptr;
}

bool AttachToHeap() {
  if (GLEANER_LIKELY(HasHeap())) return true;
  EndBlocking();
  return AttachThread();
}

void NotePressure(size_t bytes) {
  if (bytes > kGiB) bytes = kGiB;  // sums stay in range
  if (!g_collector.pacer().OnPressure(static_cast<ptrdiff_t>(bytes))) return;
  if (IsConcurrent()) {
    g_collector.WantCycle();
    if (PollBeside(0)) return;
  }
  if (AutomaticCollectionAllowed()) Collect(Cause::kAllocation, g_stop_func);
}

bool CollectForMallocFrom(Addr stack_pointer) {
  if (platform::IsInSection()) return false;
  RefreshIfStale();
  CollectCall call{Cause::kExplicit, nullptr};
  CollectForMalloc(Threads::Current(), stack_pointer, &call);
  return call.done;
}

GLEANER_NOINLINE void ClearDeadStack(size_t bytes) {
  void* dead = __builtin_alloca(bytes);
  memset(dead, 0, bytes);
  asm volatile("" : : "r"(dead) : "memory");  // or the store would be dead, too
}

// A conservative collector suffers from dead pointers in the stack: a frame that is pushed over an
// area used before, and does not write all of it, revives what it finds there. So now and then the
// part below the stack pointer is cleared: a quarter as many bytes as were allocated since, each of
// which has been cleared, too, and at most so much at a time. The program may have switched to a
// stack that is an array on this one, and live frames lie below that array.
constexpr size_t kClearedStackBytes = 16 * kKiB;
constexpr size_t kBytesPerClearedByte = 4;

GLEANER_NOINLINE void ClearDeadStackIfDue() {
  Thread* self = Threads::Current();
  if (self == nullptr || self->bytes_since_cleared < kBytesPerClearedByte * kClearedStackBytes) {
    return;
  }
  self->bytes_since_cleared = 0;
  const Addr here = AddressOf(__builtin_frame_address(0));
  const platform::Range stack = self->fiber != nullptr ? self->fiber->stack : self->stack;
  const bool is_own =
      self->fiber != nullptr ? stack.Contains(here) : Threads::IsOnOwnStack(self, here);
  if (!is_own) return;  // a stack of the program's own
  if (here - stack.begin <= 2 * kClearedStackBytes || platform::AlternateStackEnd(here) != 0) {
    return;
  }
  Addr low = here - kClearedStackBytes;
  if (self->is_main && self->fiber == nullptr && low < self->stack_mapped_from) {
    // The first thread's stack is mapped as far as it was used, and below lies nothing to clear.
    low = self->stack_mapped_from = platform::LowestMapped({low, here});
  }
  constexpr size_t kOwnFramesBytes = 1 * kKiB;  // between here and where clearing begins
  if (here - low > kOwnFramesBytes) ClearDeadStack(here - low - kOwnFramesBytes);
}

void SetMaxHeap(size_t bytes) {
  g_max_heap_set = true;
  alloc::SetHeapLimit(bytes);
}

bool CollectFrom(Addr stack_pointer, Cause cause, int (*give_up)()) {
  if (GC_dont_gc != 0) return false;
  if (!AttachToHeap()) return false;
  if (const Thread* self = Threads::Current(); self->under_lock != 0) {
    ComplainOf(self->in_collection ? Hindrance::kCallback : Hindrance::kLock);
    return false;
  }
  if (platform::IsInSection()) {
    ComplainOf(Hindrance::kHandler);
    return false;
  }
  RefreshIfStale();
  CollectCall call{cause, give_up};
  {
    platform::StallScope stall(platform::StallCause::kWait);
    if (g_malloc_support.never_wait) {
      const platform::UncancellableSection section;
      CollectForMalloc(Threads::Current(), stack_pointer, &call);
    }
    // The program's handlers run between the attempts, and when all is over: one that jumps or
    // forks finds nothing half done.
    while (!g_malloc_support.never_wait && !call.is_over) {
      const platform::HandlersWait no_handlers;
      const platform::UncancellableSection section;
      TryToCollect(stack_pointer, &call);
    }
    if (call.done) platform::RaiseStallCause(platform::StallCause::kPause);
  }
  if (call.done) {
    platform::StallInterruption finalizers_are_the_programs;
    AfterCollection();
  }
  return call.done;
}

bool Collect(Cause cause, int (*give_up)()) {
  CollectCall call{cause, give_up};
  platform::WithRegistersOnStack(
      [](Addr stack_pointer, void* context) {
        auto* wanted = static_cast<CollectCall*>(context);
        wanted->done = CollectFrom(stack_pointer, wanted->cause, wanted->give_up);
      },
      &call);
  return call.done;
}

bool CollectALittle(bool start) {
  if (!IsConcurrent()) {
    const gc::Pacer& pacer = g_collector.pacer();
    if (!start && pacer.allocated() >= pacer.allowance()) Collect(Cause::kAllocation);
    return false;
  }
  if (!AttachToHeap()) return false;
  if (start) g_collector.WantCycle();
  PollBeside(0);
  return g_collector.cycle().IsUnderWay();
}

namespace {
// A finalizer that does not return has ended the call that ran it.
GLEANER_DEFINE_UNWOUND(gleaner_finalizer_unwound) {
  if (Thread* self = Threads::Current(); self != nullptr) self->running_finalizers = false;
}

GLEANER_NOINLINE void CallFinalizer(const gc::Finalizers::Ready& ready) {
  GLEANER_WHEN_UNWOUND(gleaner_finalizer_unwound);
  ready.function(ready.object, ready.data);
  asm volatile("" ::: "memory");  // no tail call: the frame must outlive the call
}
}  // namespace

int InvokeFinalizers() {
  Thread* self = Threads::Current();
  const bool nested = self != nullptr && self->running_finalizers;
  if (self != nullptr) self->running_finalizers = true;
  int count = 0;
  for (;;) {
    gc::Finalizers::Ready ready;
    {
      platform::LockGuard guard(g_collector.lock());
      if (!g_collector.finalizers().Take(&ready)) break;
    }
    CallFinalizer(ready);
    ++count;
  }
  if (self != nullptr) self->running_finalizers = nested;
  return count;
}

CollectorLockGuard::CollectorLockGuard()
    : taken_(Threads::Current() == nullptr || Threads::Current()->under_lock == 0) {
  if (taken_) g_collector.lock().Acquire();
}
CollectorLockGuard::~CollectorLockGuard() {
  if (taken_) g_collector.lock().Release();
}

void ForgetRegistered(const void* object) { MoveRegistered(object, nullptr, 0); }

void MoveRegistered(const void* object, const void* to, size_t bytes) {
  if (GLEANER_LIKELY(!gc::MayBeRegistered(AddressOf(object)))) return;
  CollectorLockGuard guard;
  alloc::ObjectRef found;
  if (!alloc::FindObject(AddressOf(object), &found) || found.base != AddressOf(object)) return;
  g_collector.MoveRegistered(found, AddressOf(to), bytes);
}

void EndBlocking() {
  Thread* self = Threads::Current();
  if (self == nullptr || HasHeap()) return;
  if (self->IsBlocked()) platform::LeaveBlocking(self);
  alloc::t_heap = self->heap;
  platform::ChangeRunning(self);
}

void* DoBlocking(void* (*f)(void*), void* data) {
  const Thread* self = Threads::Current();
  if (self == nullptr) return f(data);
  BlockingCall call{f, data, nullptr};
  const auto block = [](void* of_call) -> void* {
    platform::WithRegistersOnStack(BlockWithRegisters, of_call);
    return nullptr;
  };
  // Inside such a section already, or after a jump out of one, the frames between count, too.
  if (self->IsBlocked()) {
    CallActive(block, &call);
  } else {
    block(&call);
  }
  return call.result;
}

void* CallWithGcActive(void* (*f)(void*), void* data) {
  const Thread* self = Threads::Current();
  // Called outside a blocking section, it is a plain call.
  if (self == nullptr || !self->IsBlocked()) return f(data);
  return CallActive(f, data);
}

// --- Fork ---
//
// Before the fork the forking thread takes every lock that guards shared structures, in rank order,
// so no other thread is inside one of them when the process is copied. A thread heap's free lists
// are the exception: their owners may be inside, and the child rebuilds them
// (ThreadHeaps::ResetAfterFork). In the child only the forking thread exists; the others' heaps are
// abandoned, and their stacks no longer count as roots.
//
// A signal handler that has interrupted the library may fork, too. Then no lock is taken: it may be
// the thread's own, or that of a thread which waits for this one to stop. In the child the
// interrupted call goes on, and what the other threads have left is put right before the next
// collection. If one of them was inside the library as well, the collector's own included, the
// child can do no more than what is async-signal-safe, as POSIX has it.

namespace {

// The calling thread has taken the locks. In the child, the one thread that has.
constinit __thread bool t_fork_is_prepared = false;

}  // namespace

void PrepareFork() {
  if (!IsInitialised() || platform::IsInSection()) return;
  t_fork_is_prepared = true;
  g_collector.lock().Acquire();
  g_collector.cycle().AwaitSlice();
  if (!g_malloc_support.never_wait) Threads::PrepareFork();  // else it never asks the loader
  Threads::lock().Acquire();
  alloc::ThreadHeaps::LockForFork();
  alloc::SpaceOf(alloc::Side::kScanned).LockForFork();
  alloc::SpaceOf(alloc::Side::kPointerFree).LockForFork();
}

void ParentAfterFork() {
  if (!t_fork_is_prepared) return;
  t_fork_is_prepared = false;
  alloc::SpaceOf(alloc::Side::kPointerFree).UnlockAfterFork();
  alloc::SpaceOf(alloc::Side::kScanned).UnlockAfterFork();
  alloc::ThreadHeaps::UnlockAfterFork();
  Threads::lock().Release();
  g_collector.lock().Release();
}

void ChildAfterFork() {
  if (!IsInitialised()) return;
  // Whoever may have asked the thread to stop is gone.
  platform::ResetStopAfterFork();
  if (!t_fork_is_prepared) {
    g_child_is_stale = true;
    return;
  }
  alloc::AddressSpaceResetLockAfterFork();
  alloc::MetaResetLockAfterFork();
  ResetPrintingAfterFork();
  ParentAfterFork();
  // A thread that is gone may have held a lock of the program's malloc, and starting a helper
  // thread needs that: then the child marks serially. (Helpers never hold such a lock.)
  g_collector.ResetAfterFork(Threads::count() <= 1);
  Threads::ResetAfterFork();
  Thread* self = Threads::Current();
  alloc::ThreadHeaps::ResetAfterFork(self != nullptr ? self->heap : nullptr);
}

namespace {

// What is locked here is so by threads that are gone.
void RefreshStaleChild() {
  g_child_is_stale = false;
  g_collector.ResetAfterFork(false);
  Threads::ResetAfterFork();
  PrepareFork();
  ChildAfterFork();
}

// 1: GC_ initialisation has found that the handlers below are to do all there is to do.
bool HandlesCollector() { return IsInitialised() && g_handle_fork == 1; }

constinit __thread bool t_arenas_are_locked = false;

void BeforeFork() {
  if (HandlesCollector()) PrepareFork();
  t_arenas_are_locked = t_fork_is_prepared || !platform::IsInSection();
  if (t_arenas_are_locked) Arenas::LockForFork();
}
void UnlockArenasAfterFork() {
  if (t_arenas_are_locked) Arenas::UnlockAfterFork();
  t_arenas_are_locked = false;
}
void AfterForkInParent() {
  UnlockArenasAfterFork();
  if (HandlesCollector()) ParentAfterFork();
}
void AfterForkInChild() {
  platform::ResetReservationsAfterFork();
  UnlockArenasAfterFork();
  if (HandlesCollector()) ChildAfterFork();
}

constinit platform::Atomic<bool> g_fork_handlers_installed{false};

}  // namespace

bool InstallForkHandlers() {
  if (g_fork_handlers_installed.Exchange(true, platform::memory_order_seq_cst)) return true;
  if (pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild) == 0) return true;
  g_fork_handlers_installed.Store(false, platform::memory_order_seq_cst);
  return false;
}

// --- Memory ---

void* OutOfMemory(size_t bytes) {
  errno = ENOMEM;
  return GC_oom_fn != nullptr ? GC_oom_fn(bytes) : nullptr;
}

void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment, bool ignore_off_page) {
  void* p =
      AttachToHeap() ? alloc::AllocateObject(kind, bytes, alignment, ignore_off_page) : nullptr;
  ClearDeadStackIfDue();  // here and not where bytes are counted: between lie frames of our own
  return p != nullptr ? p : OutOfMemory(bytes);
}

}  // namespace gleaner::runtime
