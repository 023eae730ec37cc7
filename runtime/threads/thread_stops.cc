// Stops of the world and handshakes with single threads, with all roots noted before.
#include "observe/trace.h"
#include "platform/loader/loaded_objects.h"
#include "platform/os/clock.h"
#include "platform/os/readable.h"
#include "runtime/process/variables.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using gc::RootKind;
using platform::Range;

namespace {

struct StopAttempt {
  uint64_t patience_ns;
  bool report;
  bool stopped;
};

void StopThreads(void* context) {
  auto* attempt = static_cast<StopAttempt*>(context);
  g_threads_lock.Acquire();
  ForgetEndedThreads();
  attempt->stopped =
      platform::StopAll(g_registry.records.data(), g_registry.count, platform::t_stop_record,
                        attempt->patience_ns, attempt->report);
  if (!attempt->stopped) g_threads_lock.Release();
}

// Stops no thread if some roots could not be noted: the next attempt may have the memory.
void StopWithLoaderLocked(void* context) {
  RefreshLoadedObjects(nullptr);
  if (!g_registry.is_complete) return;
  StopThreads(context);
}

// How long to wait for all threads to stop before the stop is tried again; doubled for each
// attempt. A thread that has not answered after the longest wait is reported; without the report
// the program would hang silently.
constexpr uint64_t kFirstPatienceNs = 10000000;
constexpr uint64_t kMaxPatienceNs = 256 * kFirstPatienceNs;
constexpr int kAttemptsOfTryStop = 4;  // 150 ms in all, and as much again between them at most

void AwaitNextAttempt(StopAttempt* attempt) {
  // A collector that stops threads by a signal that stays blocked here gets its turn in the end.
  platform::PauseStop(attempt->patience_ns == kMaxPatienceNs);
  // Two collectors in one process may give up for each other's sake; a varying pause lets one be
  // first the next time.
  platform::AwaitWithdrawn(platform::NowNs() % attempt->patience_ns);
  if (attempt->patience_ns < kMaxPatienceNs) attempt->patience_ns *= 2;
}

// Calls stop(context) inside WithLoaderLocked until it has set attempt->stopped. Signals stay
// blocked until EndStop.
void TryUntilStopped(StopAttempt* attempt, void (*stop)(void*), void* context) {
  bool reported = false;
  for (;;) {
    platform::BeginStop();
    platform::WithLoaderLocked(stop, context);
    if (attempt->stopped) break;
    if (!g_registry.is_complete && attempt->patience_ns == kMaxPatienceNs) {
      Fatal("no memory for the list of loaded objects");
    }
    AwaitNextAttempt(attempt);
    reported |= attempt->report;
    attempt->report = attempt->patience_ns == kMaxPatienceNs && !reported;
  }
}

// Makes the handshake of a stopped thread, or of the caller. pre: the threads lock is held.
void Handshake(Thread* thread, gc::RootTasks* scratch, gc::RootBuffer* words) {
  thread->handshake = g_registry.handshake;
  thread->heap->ReviveRunsStopped();
  if (thread->stack_pointer == 0) return;  // it has ended
  scratch->Clear();
  AddThreadRoots(*thread, {scratch, words});
  // The stacks of all other fibers are copied as suspended ones (CopyRoots).
  if (const Fiber* fiber = Fibers::FindLocked(thread->stack_pointer); fiber != nullptr) {
    scratch->Add(RootKind::kStack, thread->stack_pointer, fiber->stack.end);
  }
  for (size_t i = 0; i < scratch->size(); ++i) {
    words->Copy(scratch->at(i).kind, scratch->at(i).range.begin, scratch->at(i).range.end);
  }
}

struct HandshakeAttempt {
  StopAttempt stop;
  Addr stack_pointer;
  gc::RootTasks* scratch;
  gc::RootBuffer* words;
  bool found;
};

// Makes the handshake of one thread that has not had it; only that thread is asked to stop.
void HandshakeWithLoaderLocked(void* context) {
  auto* attempt = static_cast<HandshakeAttempt*>(context);
  RefreshLoadedObjects(nullptr);
  platform::LockGuard guard(g_threads_lock);
  ForgetEndedThreads();
  attempt->stop.stopped = true;
  attempt->found = false;
  for (size_t i = 0; i < g_registry.count && !attempt->found; ++i) {
    platform::StopRecord* record = g_registry.records[i];
    auto* thread = static_cast<Thread*>(record);
    if (thread->handshake == g_registry.handshake) continue;
    attempt->found = true;
    if (thread == Threads::Current()) {
      platform::CriticalSection section;
      thread->stack_pointer = attempt->stack_pointer;
      thread->alternate_stack_end = platform::AlternateStackEnd(attempt->stack_pointer);
      Handshake(thread, attempt->scratch, attempt->words);
    } else if (platform::StopAll(&record, 1, platform::t_stop_record, attempt->stop.patience_ns,
                                 attempt->stop.report)) {
      Handshake(thread, attempt->scratch, attempt->words);
      platform::ResumeAll();
    } else {
      attempt->stop.stopped = false;
    }
  }
}

struct CopyCall {
  gc::RootPosition* position;
  gc::RootBuffer* words;
  bool more;
};

constexpr size_t kCopyBytes = 64 * kKiB;  // in one call

struct StaticRange {
  CopyCall* call;
  size_t begin;  // offset of this range in all ranges together
};

// Copies the next piece if it begins in this range.
void CopyPiece(void* context, Range range) {
  auto* at = static_cast<StaticRange*>(context);
  gc::RootPosition* position = at->call->position;
  const size_t begin = at->begin;
  at->begin += range.bytes();
  if (at->call->more || position->static_bytes < begin || position->static_bytes >= at->begin)
    return;
  const Addr from = range.begin + (position->static_bytes - begin);
  const Addr to = range.end - from > kCopyBytes ? from + kCopyBytes : range.end;
  // The program may have made a part unreadable: of that the final stop tells.
  at->call->words->Copy(RootKind::kData, from, platform::EndOfReadable(from, to));
  position->static_bytes += to - from;
  at->call->more = true;
}

// Copies the next piece of static data.
void CopyStaticWithLoaderLocked(void* context) {
  auto* call = static_cast<CopyCall*>(context);
  RefreshLoadedObjects(nullptr);
  StaticRange at{call, 0};
  call->more = false;
  Threads::ForEachStaticRoot(CopyPiece, &at);
}

// Calls the program's thread-event procedure for each thread that the stop under way has parked.
void AnnounceParked(GC_EventType event) {
  if (g_on_thread_event == nullptr) return;
  for (size_t i = 0; i < g_registry.count; ++i) {
    auto* thread = ThreadAt(i);
    if (thread->IsParked()) {
      g_on_thread_event(event, PointerAt<void>(thread->id));
    }
  }
}

}  // namespace

void Threads::Stop() {
  StopAttempt attempt{kFirstPatienceNs, false, false};
  TryUntilStopped(&attempt, StopWithLoaderLocked, &attempt);
  AnnounceParked(GC_EVENT_THREAD_SUSPENDED);
}

bool Threads::TryStop() {
  StopAttempt attempt{kFirstPatienceNs, false, false};
  for (int i = 0; i < kAttemptsOfTryStop; ++i) {
    platform::BeginStop();
    StopThreads(&attempt);
    if (attempt.stopped) return true;
    AwaitNextAttempt(&attempt);
  }
  return false;
}

void Threads::Resume() {
  AnnounceParked(GC_EVENT_THREAD_UNSUSPENDED);
  platform::ResumeAll();
  g_threads_lock.Release();
  platform::EndStop();
}

void Threads::BeginHandshakes() {
  platform::LockGuard guard(g_threads_lock);
  ++g_registry.handshake;
}

bool Threads::Handshake(Addr stack_pointer, gc::RootTasks* scratch, gc::RootBuffer* words) {
  const platform::TraceSpan span;
  HandshakeAttempt attempt{{kFirstPatienceNs, false, false}, stack_pointer, scratch, words, false};
  TryUntilStopped(&attempt.stop, HandshakeWithLoaderLocked, &attempt);
  platform::EndStop();
  if (attempt.found) span.End(platform::TraceEvent::kHandshake);
  return attempt.found;
}

bool Threads::CopyRoots(gc::RootPosition* position, gc::RootBuffer* words) {
  CopyCall call{position, words, false};
  platform::WithLoaderLocked(CopyStaticWithLoaderLocked, &call);
  if (call.more) return true;
  platform::LockGuard guard(g_threads_lock);
  return Fibers::CopySuspendedLocked(&position->fiber, kCopyBytes, words);
}

}  // namespace gleaner::runtime
