#include "runtime/hooks.h"

#include "alloc/hooks.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "platform/clock.h"
#include "platform/stalls.h"
#include "runtime/collect.h"
#include "runtime/fork.h"
#include "runtime/run_record.h"
#include "runtime/threads.h"
#include "runtime/tracking.h"
#include "runtime/variables.h"

namespace gleaner::runtime {

using gc::Cause;
using gc::g_collector;

bool AutomaticCollectionAllowed() { return GC_dont_gc == 0 && g_disable_automatic == 0; }

bool PollConcurrent(ptrdiff_t bytes) {
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
  return call.collect || (g_collector.CanMarkConcurrently() && !g_collector.IsMinorNext() &&
                          !g_collector.IsOverrun());
}

namespace {

void OnAllocated(ptrdiff_t bytes) {
  if (Thread* self = Threads::Current(); self != nullptr && bytes > 0) {
    self->bytes_since_cleared += static_cast<size_t>(bytes);
  }
  NoteAllocationInRunRecord();
  g_collector.EndSweepIfDone();
  const uint64_t seen = g_collector.collections();
  const bool due = g_collector.pacer().OnAllocated(bytes, alloc::ResidentBytes());
  if (IsConcurrent() && PollConcurrent(bytes)) return;
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
         alloc::ThreadHeaps::ReleaseToMakeRoom(bytes, least_share);
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
  if (alloc::ThreadHeaps::ReleaseToMakeRoom(bytes, collect ? 8 : 4)) return;
  if (collect && (attempts.IsOutOfDate() || Collect(Cause::kAllocation, g_stop_func))) {
    return;  // the collection has moved the limit
  }
  alloc::LimitGrowth(g_collector.pacer().MayGrowTo(alloc::ResidentBytes() + bytes));
}

}  // namespace

void InstallHooks() {
  alloc::g_hooks = {OnAllocated, OnExhausted, OnGrowth, gc::Collector::SweepSome};
}

void NotePressure(size_t bytes) {
  if (bytes > kGiB) bytes = kGiB;  // sums stay in range
  if (!g_collector.pacer().OnPressure(static_cast<ptrdiff_t>(bytes))) return;
  if (IsConcurrent()) {
    g_collector.WantCycle();
    if (PollConcurrent(0)) return;
  }
  if (AutomaticCollectionAllowed()) Collect(Cause::kAllocation, g_stop_func);
}

}  // namespace gleaner::runtime
