#include "runtime/collect/hooks.h"

#include "alloc/hooks.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "platform/os/clock.h"
#include "platform/os/stalls.h"
#include "runtime/collect/collect.h"
#include "runtime/collect/listeners.h"
#include "runtime/collect/tracking.h"
#include "runtime/process/runtime_state.h"
#include "runtime/process/variables.h"
#include "runtime/threads/threads.h"

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
  if (HasLittleStack(self, AddressOf(__builtin_frame_address(0))))
    return g_collector.MayLeaveToCycle();
  RepairIfUnprepared();
  if (!g_collector.MayAdvance()) return g_collector.MayLeaveToCycle();
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
  // Another thread may have collected since.
  if (call.collect && g_collector.collections() == seen) {
    Collect(Cause::kAllocation, g_stop_func);
  }
  return call.collect || g_collector.MayLeaveToCycle();
}

namespace {

void OnAllocated(ptrdiff_t bytes) {
  Thread* self = Threads::Current();
  if (self != nullptr && bytes > 0) self->bytes_since_cleared += static_cast<size_t>(bytes);
  kListeners.allocated(self == nullptr ||
                       !HasLittleStack(self, AddressOf(__builtin_frame_address(0))));
  g_collector.EndSweepIfDone();
  const uint64_t seen = g_collector.collections();
  const bool due = g_collector.pacer().OnAllocated(bytes, alloc::ResidentBytes());
  if (IsConcurrent() && PollConcurrent(bytes)) return;
  if (!due) {
    // Lowered at each report, so that the heap does not grow back into memory that was just
    // returned to make room elsewhere.
    const gc::Pacer& pacer = g_collector.pacer();
    const size_t resident = alloc::ResidentBytes();
    if (AutomaticCollectionAllowed() && pacer.ShouldCollectToGrow(resident)) {
      alloc::LimitGrowth(pacer.NotBelowWanted(resident));
    }
    return;
  }
  // Another thread may have collected while this one waited for the end of a cycle.
  if (!AutomaticCollectionAllowed() || g_collector.collections() != seen) return;
  if (IsConcurrent() && !platform::IsInSection() && g_collector.DecideAgain() &&
      PollConcurrent(0)) {
    return;
  }
  Collect(Cause::kAllocation, g_stop_func);
}

// Makes room for `bytes` if only the program's heap limit is in the way: returns free pages that
// the request cannot use to the system. Whether it did.
bool MakeRoomInLimit(size_t bytes, size_t min_share) {
  const size_t limit = alloc::HeapLimit();
  return limit != 0 && bytes <= limit && alloc::ResidentBytes() + bytes > limit &&
         alloc::ThreadHeaps::ReleaseToMakeRoom(bytes, min_share) != 0;
}

uint64_t AllocatedAndFreed(const Thread& thread) {
  return thread.heap->allocated_bytes + thread.heap->freed_bytes;
}

// Whether the calling thread may collect for a request that the heap has no room for. In a run of
// failed requests, the next one to collect has a number half as large again as the last that did.
// So a program that goes on after NULL is not held up. A program that drops data piece by piece
// until the request succeeds drops little more than it has to. Two other requests collect: one for
// at most half of the smallest that failed, and one after as much time as the last collections
// took, which at most doubles the program's run time.
bool MayCollectForRequest(size_t bytes) {
  Thread* self = Threads::Current();
  if (self == nullptr) return true;
  FailedRequests& failed = self->failed_requests;
  if (AllocatedAndFreed(*self) != failed.allocated_and_freed) failed = {};
  ++failed.in_a_row;
  if (failed.in_a_row < failed.next && bytes > failed.min_bytes / 2 &&
      platform::NowNs() - failed.last_ns < failed.collecting_ns) {
    return false;
  }
  failed.next = failed.in_a_row + (failed.in_a_row + 1) / 2;
  return true;
}

void RecordFailedRequest(size_t bytes, uint64_t collecting_ns) {
  Thread* self = Threads::Current();
  if (self == nullptr) return;
  FailedRequests& failed = self->failed_requests;
  if (bytes < failed.min_bytes) failed.min_bytes = bytes;
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
    RecordFailedRequest(bytes, attempts->collecting_ns);
    return false;
  }
  if (GC_dont_gc != 0 || (attempts->failed == 0 && !MayCollectForRequest(bytes))) return false;
  const uint64_t begin = platform::NowNs();
  Collect(attempts->failed == 0 ? Cause::kExhausted : Cause::kExplicit);
  attempts->collecting_ns += platform::NowNs() - begin;
  ++attempts->failed;
  return true;
}

// From when on memory is given back again rather than that the heap grows. Any thread.
constinit platform::Hint<uint64_t> g_next_trade_ns{0};

// Gives about `bytes` of free memory back, as ReleaseToMakeRoom. It has to be touched anew when a
// request fits it, and that is to take an eighth of the time at most: where requests come faster,
// the heap grows until they fit, but not beyond the memory limit.
bool Trade(size_t bytes, size_t min_share) {
  constexpr double kRest = 8;
  const gc::Pacer& pacer = g_collector.pacer();
  const uint64_t now = platform::NowNs();
  // Of two threads that trade at once the later one decides.
  if (now < g_next_trade_ns.Get() && !pacer.PassesLimit(alloc::ResidentBytes() + bytes)) {
    return false;
  }
  const size_t traded = alloc::ThreadHeaps::ReleaseToMakeRoom(bytes, min_share);
  if (traded == 0) return false;
  const double touch_ns = pacer.touch_ns_per_byte() * static_cast<double>(traded);
  g_next_trade_ns.Set(now + static_cast<uint64_t>(kRest * touch_ns));
  return true;
}

void OnGrowth(size_t bytes, const alloc::Attempts& attempts) {
  bytes = AlignUp(bytes, alloc::kPageBytes);
  const size_t grown = alloc::ResidentBytes() + bytes;
  if (grown <= alloc::GrowthLimit()) return;  // the limit has moved
  if (g_collector.SweepRest() || attempts.IsOutOfDate()) return;
  if (AutomaticCollectionAllowed() && g_collector.pacer().PaysToCollectFor(bytes) &&
      !platform::IsInSection() &&
      (Collect(Cause::kAllocation, g_stop_func) || attempts.IsOutOfDate())) {
    return;
  }
  bool collect = AutomaticCollectionAllowed() && g_collector.pacer().ShouldCollectToGrow(grown);
  // With concurrent collections the heap grows rather than that a thread pauses.
  if (collect && IsConcurrent() && (platform::IsInSection() || g_collector.HurryCycle())) {
    collect = false;
  }
  // Within the allowance free pages are mostly reused soon: return some only if a quarter of the
  // heap is free; beyond it, an eighth.
  if (Trade(bytes, collect ? 8 : 4)) return;
  if (collect && (attempts.IsOutOfDate() || Collect(Cause::kAllocation, g_stop_func))) {
    return;  // the collection has set a new limit
  }
  alloc::LimitGrowth(g_collector.pacer().MayGrowTo(alloc::ResidentBytes() + bytes));
}

}  // namespace

void InstallHooks() {
  alloc::g_hooks = {OnAllocated, OnExhausted, OnGrowth, gc::Collector::SweepSome,
                    kListeners.sampled};
}

void CollectForFinalizers() {
  if (!platform::IsInSection() && g_collector.HurryCycle() && PollConcurrent(0)) return;
  if (AutomaticCollectionAllowed()) Collect(Cause::kAllocation, g_stop_func);
}

}  // namespace gleaner::runtime
