#include "runtime/threads/fibers.h"

#include <cerrno>

#include "alloc/metadata/meta.h"
#include "platform/os/critical.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

using gc::RootKind;
using platform::Range;

namespace {

// Each fiber needs up to three root tasks, or more if much of its stack is in use (gc::RootTasks).
constexpr size_t kMaxFibers = size_t{1} << 18;
constexpr size_t kMaxFibersWhenBounded = size_t{1} << 14;  // if RLIMIT_AS is set

// Bytes at the end of a fresh stack that are scanned: makecontext and the like put the first
// function's frame there.
constexpr size_t kFreshBytes = 1 * kKiB;

struct Table {
  // Guarded by the threads lock.
  alloc::ReservedArray<Fiber> records;
  alloc::ReservedArray<Fiber*> sorted;  // registered fibers by falling address
  size_t count = 0;                     // of `sorted`
  Fiber* free = nullptr;
  // Records that were ever in use. Readable without the lock: the release in TakeRecord pairs with
  // the acquire in IsRegistered.
  platform::Atomic<size_t> used{0};
};
constinit Table g_table;

// Index of the first fiber whose stack begins at or below the address. Stacks that come from mmap
// have falling addresses, so with this order a new one is usually put at the end.
size_t IndexOf(Addr address) {
  size_t low = 0;
  size_t high = g_table.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (g_table.sorted[middle]->stack.begin > address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool Overlap(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

// pre: the threads lock is held.
bool OverlapsFiber(Range stack) {
  const size_t i = IndexOf(stack.begin);
  // Index i is the nearest fiber that begins at or below, i - 1 the nearest above.
  return (i < g_table.count && Overlap(g_table.sorted[i]->stack, stack)) ||
         (i > 0 && Overlap(g_table.sorted[i - 1]->stack, stack));
}

// pre: the threads lock is held.
bool Reserve() {
  if (g_table.records.max() != 0) return true;
  const bool bounded = platform::AddressSpaceLimit() != SIZE_MAX;
  const size_t max = bounded ? kMaxFibersWhenBounded : kMaxFibers;
  return (g_table.sorted.max() != 0 || g_table.sorted.Reserve(max)) && g_table.records.Reserve(max);
}

// pre: the threads lock is held. Null without memory.
Fiber* TakeRecord() {
  Fiber* fiber = g_table.free;
  if (fiber != nullptr) {
    g_table.free = fiber->next_free;
    return fiber;
  }
  // Relaxed: written under the threads lock, which is held.
  const size_t used = g_table.used.Load(platform::memory_order_relaxed);
  if (!g_table.records.EnsureCommitted(used + 1)) return nullptr;
  g_table.used.Store(used + 1, platform::memory_order_release);  // pairs with IsRegistered
  return &g_table.records[used];
}

// Moves the fiber from `expected` to kRunning. Acquire pairs with the release in Leave: a thread
// that enters the fiber sees what the thread that left it has written.
bool Claim(Fiber* fiber, FiberState expected) {
  return fiber->state.CompareExchange(expected, FiberState::kRunning,
                                      platform::memory_order_acquire);
}

void Leave(Fiber* fiber, Addr stack_pointer) {
  fiber->stack_pointer = stack_pointer > fiber->stack.begin ? stack_pointer : fiber->stack.begin;
  fiber->state.Store(FiberState::kSuspended, platform::memory_order_release);  // pairs with Claim
}

}  // namespace

int Fibers::Create(Range stack, Fiber** result) {
  const Addr here = AddressOf(__builtin_frame_address(0));
  platform::LockGuard guard(Threads::lock());
  if (!Reserve()) return ENOMEM;
  if (OverlapsFiber(stack) || Threads::OverlapsStackLocked(stack, here)) return EEXIST;
  if (!g_table.sorted.EnsureCommitted(g_table.count + 1)) return ENOMEM;
  Fiber* fiber = TakeRecord();
  if (fiber == nullptr) return ENOMEM;
  fiber->stack = stack;
  fiber->context = {};
  fiber->stack_pointer = stack.bytes() > kFreshBytes ? stack.end - kFreshBytes : stack.begin;
  const size_t at = IndexOf(stack.begin);
  for (size_t i = g_table.count; i > at; --i) g_table.sorted[i] = g_table.sorted[i - 1];
  g_table.sorted[at] = fiber;
  ++g_table.count;
  fiber->state.Store(FiberState::kFresh, platform::memory_order_release);  // pairs with Claim
  *result = fiber;
  return 0;
}

int Fibers::Destroy(Fiber* fiber) {
  const Addr here = AddressOf(__builtin_frame_address(0));
  platform::LockGuard guard(Threads::lock());
  if (!IsRegistered(fiber)) return EINVAL;
  if (fiber->stack.Contains(here)) return EBUSY;
  FiberState state = fiber->state.Load(platform::memory_order_acquire);  // pairs with Leave
  // Another thread may switch to it at this moment.
  if (state == FiberState::kRunning ||
      !fiber->state.CompareExchange(state, FiberState::kFree, platform::memory_order_acquire)) {
    return EBUSY;
  }
  const size_t at = IndexOf(fiber->stack.begin);
  --g_table.count;
  for (size_t i = at; i < g_table.count; ++i) g_table.sorted[i] = g_table.sorted[i + 1];
  fiber->next_free = g_table.free;
  g_table.free = fiber;
  return 0;
}

int Fibers::SetContext(Fiber* fiber, Range context) {
  platform::LockGuard guard(Threads::lock());
  if (!IsRegistered(fiber)) return EINVAL;
  fiber->context = context;
  return 0;
}

bool Fibers::IsRegistered(const Fiber* fiber) {
  const size_t used = g_table.used.Load(platform::memory_order_acquire);  // pairs with Create
  const size_t offset = AddressOf(fiber) - AddressOf(g_table.records.data());
  return offset < used * sizeof(Fiber) && offset % sizeof(Fiber) == 0 &&
         fiber->state.Load(platform::memory_order_relaxed) != FiberState::kFree;  // a check only
}

int Fibers::Switch(Thread* self, Fiber* to, Addr stack_pointer) {
  Fiber* from = self->fiber;
  if (from == to) return EBUSY;
  if (from != nullptr && !from->stack.Contains(AddressOf(__builtin_frame_address(0)))) {
    return EINVAL;
  }
  if (to != nullptr && !IsRegistered(to)) return EINVAL;
  // In a critical section, so that the collector sees all of the switch or nothing.
  platform::CriticalSection section;
  if (to != nullptr) {
    const FiberState state = to->state.Load(platform::memory_order_relaxed);  // Claim looks again
    if (state == FiberState::kAbandoned) return ESRCH;
    if (state == FiberState::kRunning || !Claim(to, state)) return EBUSY;
  }
  if (from != nullptr) {
    Leave(from, stack_pointer);
  } else {
    self->own_stack_pointer = stack_pointer > self->stack.begin ? stack_pointer : self->stack.begin;
  }
  self->fiber = to;
  return 0;
}

void Fibers::AbandonLocked(Thread* thread) {
  if (thread->fiber == nullptr) return;
  thread->fiber->state.Store(FiberState::kAbandoned,
                             platform::memory_order_release);  // pairs with Claim
  thread->fiber = nullptr;
}

void Fibers::ResetAfterFork(const Thread* survivor) {
  for (size_t i = 0; i < g_table.count; ++i) {
    Fiber* fiber = g_table.sorted[i];
    // Relaxed: there is no other thread.
    if (fiber->state.Load(platform::memory_order_relaxed) == FiberState::kRunning &&
        (survivor == nullptr || survivor->fiber != fiber)) {
      fiber->state.Store(FiberState::kAbandoned, platform::memory_order_relaxed);
    }
  }
}

void Fibers::BeginRootsWorldStopped() {
  for (size_t i = 0; i < g_table.count; ++i) {
    Fiber* fiber = g_table.sorted[i];
    // Relaxed: the world is stopped.
    const bool dead = fiber->state.Load(platform::memory_order_relaxed) == FiberState::kAbandoned;
    fiber->live = dead ? fiber->stack.end : fiber->stack_pointer;
  }
}

Fiber* Fibers::FindLocked(Addr address) {
  const size_t i = IndexOf(address);
  return i < g_table.count && g_table.sorted[i]->stack.Contains(address) ? g_table.sorted[i]
                                                                         : nullptr;
}

bool Fibers::CopySuspendedLocked(size_t* index, size_t bytes, gc::RootBuffer* words) {
  if (*index >= g_table.count) return false;
  for (size_t copied = 0; *index < g_table.count && copied < bytes; ++*index) {
    const Fiber& fiber = *g_table.sorted[*index];
    const FiberState state = fiber.state.Load(platform::memory_order_acquire);  // pairs with Leave
    if (state != FiberState::kSuspended && state != FiberState::kFresh) continue;
    // Stack pointer of the last switch away from the fiber, or of the next one. Relaxed: a hint.
    const Addr from = __atomic_load_n(&fiber.stack_pointer, __ATOMIC_RELAXED);
    words->Copy(RootKind::kStack, from, fiber.stack.end);
    words->Copy(RootKind::kStack, fiber.context.begin, fiber.context.end);
    copied += fiber.stack.end - from + fiber.context.bytes();
  }
  return true;
}

void Fibers::AddRootsWorldStopped(gc::RootTasks* roots) {
  for (size_t i = 0; i < g_table.count; ++i) {
    const Fiber& fiber = *g_table.sorted[i];
    if (fiber.live >= fiber.stack.end) continue;  // abandoned
    roots->Add(RootKind::kStack, fiber.live, fiber.stack.end);
    roots->Add(RootKind::kStack, fiber.context.begin, fiber.context.end);
  }
}

}  // namespace gleaner::runtime
