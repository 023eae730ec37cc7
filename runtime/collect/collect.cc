#include "runtime/collect/collect.h"

#include "alloc/object.h"
#include "gc/finish/heap_samples.h"
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/os/stalls.h"
#include "platform/os/unwinding.h"
#include "runtime/collect/hooks.h"
#include "runtime/collect/listeners.h"
#include "runtime/collect/tracking.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/runtime_state.h"
#include "runtime/process/variables.h"
#include "runtime/threads/mutator.h"

namespace gleaner::runtime {

using gc::Cause;
using gc::g_collector;

namespace {

// Number of the collection for which the client's notifier was called last.
constinit platform::Atomic<uint64_t> g_notified{0};

// The reason why a thread that wants a collection cannot have one.
enum class Hindrance : uint8_t { kCallback, kLock, kHandler };

// Prints each message once.
void ComplainOf(Hindrance hindrance) {
  static constexpr const char* kPlaces[] = {
      "in a callback of a collection, which holds the allocation lock",
      ("by a thread that holds the allocation lock (GC_alloc_lock, GC_call_with_alloc_lock, "
       "GC_stop_world_external)"),
      "in a signal handler that has interrupted the library, or after a jump out of it"};
  static constinit platform::Atomic<uint32_t> told[3] = {};
  const auto which = static_cast<size_t>(hindrance);
  // Relaxed: only decides which thread prints.
  if (told[which].Exchange(1, platform::memory_order_relaxed) != 0) return;
  Complain("GC_malloc, GC_gcollect or the like was called %s: no collection can start there",
           kPlaces[which]);
}

// The soft limit, if the last collection was the first one that let it go; else 0. pre: the
// collector lock is held.
uint64_t NewlyMissedLimit() {
  static constinit uint64_t told = 0;
  const gc::Pacer& pacer = g_collector.pacer();
  if (!pacer.MissesLimit() || pacer.soft_limit_bytes() == told) return 0;
  return told = pacer.soft_limit_bytes();
}

// Runs after a collection, without locks. Finalizers and the notifier run in the cancellation state
// that the program has set.
void AfterCollection() {
  if (!platform::HasFilter()) platform::NoticeAddressSpaceLimit();
  const Thread* self = Threads::Current();
  const bool has_room =
      self == nullptr || !HasLittleStack(self, AddressOf(__builtin_frame_address(0)));
  kListeners.collected(has_room);
  size_t ready;
  bool needs_tracker;
  bool should_turn_on;
  bool should_measure;
  uint64_t missed_limit;
  {
    platform::LockGuard guard(g_collector.lock());
    missed_limit = NewlyMissedLimit();
    ready = g_collector.registered().finalizers.ready();
    needs_tracker = NeedsTracker();
    should_turn_on = ShouldTurnOnAutomatically();
    should_measure = ShouldMeasureAgain();
  }
  if (missed_limit != 0) {
    Warn(
        "GC Warning: the memory limit of %lu bytes is not kept: the collections would take more "
        "than half of the time\n",
        missed_limit);
  }
  if (should_turn_on && has_room) TurnOnAutomatically();
  if (needs_tracker && has_room) ReplaceLostTracker();
  if (should_measure && has_room) MeasureAgain();
  if (ready == 0) return;
  if (GC_finalize_on_demand == 0) {
    // A collection inside a finalizer does not run other finalizers on top of it.
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
  uint64_t seen = g_collector.collections();  // collections when the call began
  bool is_over = false;                       // false: the lock could not be taken
  bool done = false;
};

// How long an allocation that would otherwise fail waits for another thread's collection.
constexpr uint64_t kMaxWaitNs = 200'000'000;
constexpr uint64_t kWaitNs = 200'000;

// The give_up function of a malloc's collections; the collector calls it before the stop and, with
// the world stopped, before marking.
int HasNoRoots() {
  return platform::WorldIsStopped() && g_malloc_support.find_roots != nullptr &&
         !g_malloc_support.find_roots();
}

// A collection needs up to 16 KiB of stack, and its callbacks of the program need some.
constexpr size_t kCollectionStackBytes = 32 * kKiB;

// A handler's alternate stack may have less left; allocations on such a stack leave the collection
// to a later call elsewhere.
bool IsOnSmallAlternateStack(Addr stack_pointer) {
  return platform::AlternateStackEnd(stack_pointer) != 0 &&
         platform::AlternateStackEnd(stack_pointer - kCollectionStackBytes) == 0;
}

platform::Range KnownStackOf(const Thread* self, Addr stack_pointer) {
  const Fiber* fiber = self->fiber;
  return fiber != nullptr && fiber->stack.Contains(stack_pointer) ? fiber->stack : self->stack;
}

// The end of the stack on which threads collect that have little left, and those on stacks of the
// program's own, of which nothing is known. 0 without memory. Used, and guarded, by the collector
// lock, which is held from the collection's beginning to its end.
Addr EndOfCollectionStackLocked() {
  constexpr size_t kStackBytes = 256 * kKiB;
  static constinit Addr end = 0;
  if (end != 0) return end;
  const size_t guard_bytes = platform::OsPageBytes();
  void* stack = platform::Reserve(guard_bytes + kStackBytes, guard_bytes);
  if (stack == nullptr) return 0;
  const Addr begin = AddressOf(stack) + guard_bytes;
  if (platform::Commit(PointerAt<void>(begin), kStackBytes)) return end = begin + kStackBytes;
  platform::Release(stack, guard_bytes + kStackBytes);
  return 0;
}

// Makes the call where there is room for it; not at all without memory for that. pre: the collector
// lock is held; the caller is not on a small alternate stack.
void CallWithRoomLocked(const Thread* self, Addr stack_pointer, void (*f)(void*), void* context) {
  const bool is_known = KnownStackOf(self, stack_pointer).Contains(stack_pointer);
  const bool in_place = is_known ? !HasLittleStack(self, stack_pointer)
                                 : platform::AlternateStackEnd(stack_pointer) != 0;
  if (GLEANER_LIKELY(in_place)) return f(context);
  const Addr end = EndOfCollectionStackLocked();
  if (end != 0) platform::CallOnStack(end, f, context);
}

struct LockedCall {
  Thread* self;
  Addr stack_pointer;
  CollectCall* call;
};

// pre: the collector lock is held.
void CollectForMallocLocked(void* of_call) {
  const auto [self, stack_pointer, call] = *static_cast<LockedCall*>(of_call);
  ++self->under_lock;
  self->stack_pointer = stack_pointer;  // find_roots takes 0 to mean that the thread has ended
  call->done = g_collector.CollectLocked(call->cause, stack_pointer, HasNoRoots);
  if (g_malloc_support.collected != nullptr) g_malloc_support.collected(call->done);
  --self->under_lock;
}

// pre: the collector lock is held.
void CollectLocked(void* of_call) {
  const auto [self, stack_pointer, call] = *static_cast<LockedCall*>(of_call);
  ++self->under_lock;  // no collection can start in its callbacks
  self->in_collection = true;
  call->done = g_collector.CollectLocked(call->cause, stack_pointer, call->give_up);
  self->in_collection = false;
  --self->under_lock;
}

// Nothing is collected once the program has a filter of system calls: the roots of a malloc cannot
// be found without calls that such a program need not allow.
void CollectForMalloc(Thread* self, Addr stack_pointer, CollectCall* call) {
  for (uint64_t waited_ns = 0;; waited_ns += kWaitNs) {
    {
      const platform::HandlersWait no_handlers;
      if (g_collector.lock().TryAcquire()) {
        if (!platform::HasFilter() && !IsOnSmallAlternateStack(stack_pointer)) {
          LockedCall locked{self, stack_pointer, call};
          CallWithRoomLocked(self, stack_pointer, CollectForMallocLocked, &locked);
        }
        g_collector.lock().Release();
        return;
      }
    }
    if (call->cause == Cause::kAllocation || waited_ns >= kMaxWaitNs) return;
    platform::FutexSleep(kWaitNs);
    if (!IsAskedFor(call->cause) && g_collector.collections() != call->seen) return;
  }
}

// Waits for the lock as a blocked thread, since the thread that has it is probably about to stop
// this one. A blocked thread counts as stopped; one asleep on the lock would have to be woken by a
// signal. The wait is short: the holder may run program code that waits for a handler on this
// thread. pre: handlers wait.
void AwaitCollectorLock(Thread* self, Addr stack_pointer) {
  constexpr uint64_t kHandlersWaitNs = 1'000'000;
  platform::EnterBlocking(self, stack_pointer);
  if (g_collector.lock().AcquireWithin(kHandlersWaitNs)) g_collector.lock().Release();
  platform::LeaveBlocking(self);
}

// Collects, or waits for the lock for a while. pre: handlers wait.
void TryToCollect(Addr stack_pointer, CollectCall* call) {
  Thread* self = Threads::Current();
  platform::Lock& lock = g_collector.lock();
  const auto is_up_to_date = [call] {
    return !IsAskedFor(call->cause) && g_collector.collections() != call->seen;
  };
  if (lock.IsHeld()) AwaitCollectorLock(self, stack_pointer);
  if (is_up_to_date()) {
    call->is_over = true;
    return;
  }
  if (!lock.TryAcquire()) return;
  call->is_over = true;
  if (!is_up_to_date()) {
    LockedCall locked{self, stack_pointer, call};
    CallWithRoomLocked(self, stack_pointer, CollectLocked, &locked);
  }
  lock.Release();
}

// Runs when the stack is unwound out of a finalizer, which ends the call that ran it.
GLEANER_DEFINE_UNWOUND(gleaner_finalizer_unwound) {
  if (Thread* self = Threads::Current(); self != nullptr) self->running_finalizers = false;
}

GLEANER_NOINLINE void CallFinalizer(const gc::Finalizers::Ready& ready) {
  GLEANER_WHEN_UNWOUND(gleaner_finalizer_unwound);
  ready.function(ready.object, ready.data);
  asm volatile("" ::: "memory");  // no tail call: the frame must outlive the call
}

}  // namespace

bool HasLittleStack(const Thread* self, Addr stack_pointer) {
  const platform::Range stack = KnownStackOf(self, stack_pointer);
  return stack.Contains(stack_pointer) && stack_pointer - stack.begin < kCollectionStackBytes;
}

bool CollectForMallocFrom(Addr stack_pointer) {
  if (platform::IsInSection()) return false;
  RepairIfUnprepared();
  CollectCall call{Cause::kInspection, nullptr};
  CollectForMalloc(Threads::Current(), stack_pointer, &call);
  return call.done;
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
  RepairIfUnprepared();
  CollectCall call{cause, give_up};
  {
    platform::StallScope stall(platform::StallCause::kWait);
    if (g_malloc_support.never_wait) {
      const platform::UncancellableSection section;
      CollectForMalloc(Threads::Current(), stack_pointer, &call);
      call.is_over = true;
    } else if (IsOnSmallAlternateStack(stack_pointer)) {
      call.is_over = true;
    }
    // The program's signal handlers run between the attempts and at the end, when nothing is half
    // done: a handler may jump away or fork.
    while (!call.is_over) {
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
  const gc::Pacer& pacer = g_collector.pacer();
  if (!IsIncremental()) {
    if (start || pacer.allocated() < pacer.allowance()) return false;
    if (!IsConcurrent() || !PollConcurrent(0)) Collect(Cause::kAllocation);
    return false;
  }
  if (!AttachToHeap()) return false;
  if (start) g_collector.WantCycle();
  PollConcurrent(0);
  return g_collector.cycle().IsUnderWay();
}

int InvokeFinalizers() {
  Thread* self = Threads::Current();
  const bool nested = self != nullptr && self->running_finalizers;
  if (self != nullptr) self->running_finalizers = true;
  int count = 0;
  for (;;) {
    gc::Finalizers::Ready ready;
    {
      platform::LockGuard guard(g_collector.lock());
      if (!g_collector.registered().finalizers.Take(&ready)) break;
    }
    CallFinalizer(ready);
    ++count;
  }
  if (self != nullptr) self->running_finalizers = nested;
  return count;
}

CollectorLockGuard::CollectorLockGuard()
    : taken_(Threads::Current() == nullptr || Threads::Current()->under_lock == 0) {
  if (!taken_) return;
  if (!platform::IsInSection()) RepairIfUnprepared();
  g_collector.lock().Acquire();
}
CollectorLockGuard::~CollectorLockGuard() {
  if (taken_) g_collector.lock().Release();
}

void ForgetRegistered(const void* object) { MoveRegistered(object, nullptr, 0); }

void MoveRegistered(const void* object, const void* to, size_t bytes) {
  if (GLEANER_LIKELY(!gc::MayBeRegistered(AddressOf(object)))) return;
  const uint8_t registered =
      alloc::g_space.info[alloc::g_space.PageOf(AddressOf(object))].Registered();  // on its page
  // A copy elsewhere is another object to the heap profile.
  if ((registered & gc::kSampled) != 0) gc::g_heap_samples.Forget(AddressOf(object));
  if ((registered & ~gc::kSampled) == 0) return;
  CollectorLockGuard guard;
  alloc::ObjectRef found;
  if (!alloc::FindObject(AddressOf(object), &found) || found.base != AddressOf(object)) return;
  g_collector.registered().Move(found, AddressOf(to), bytes);
}

}  // namespace gleaner::runtime
