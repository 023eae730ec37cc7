// The coroutine stacks that the program has registered (gleaner.h, docs/fibers.md).
//
// Which stack a thread is on is asked of its stack pointer, never of what it announced
// [inv.fiber-stack]. So a stop between the announcement of a switch and the switch itself loses
// nothing: the stack that is still in use counts from the stack pointer, the one to be entered from
// where it was left last, and both of these are true until the instant of the switch.
//
//   state kFree -> kFresh                Create, under the threads lock
//   kFresh, kSuspended -> kRunning       who switches to it, by compare-exchange
//   kRunning -> kSuspended               the thread that leaves it
//   kRunning -> kAbandoned               the end of its thread, or a fork in another one
//   kFresh, kSuspended, kAbandoned -> kFree   Destroy, under the threads lock
#pragma once

#include "gc/roots.h"
#include "platform/atomic.h"
#include "platform/thread.h"

namespace gleaner::runtime {

struct Thread;

enum class FiberState : uint32_t { kFree, kFresh, kSuspended, kRunning, kAbandoned };

}  // namespace gleaner::runtime

// The fiber as gleaner.h names it. Records are recycled and never unmapped, so a stale handle can
// be recognised as long as no new fiber has got its record.
struct alignas(64) gleaner_fiber {
  // Constant while registered.
  gleaner::platform::Range stack;
  gleaner::platform::Atomic<gleaner::runtime::FiberState> state;
  // Lowest address in use, as of the last time the fiber was left. Written by the thread that
  // leaves it, in a critical section, before it stores kSuspended.
  gleaner::Addr stack_pointer;
  // Memory outside the stack where the program saves registers; may be empty. Guarded by the
  // threads lock.
  gleaner::platform::Range context;
  // The collector's: what counts as live in the collection under way begins here.
  gleaner::Addr live;
  gleaner_fiber* next_free;  // guarded by the threads lock
};

namespace gleaner::runtime {

using Fiber = ::gleaner_fiber;

class Fibers {
 public:
  // Results of the calls, as errno values; 0 is success.
  // pre for Create and Destroy: the calling thread is registered.

  // Registers a stack. ENOMEM, or EEXIST if it overlaps another fiber's or a thread's.
  static int Create(platform::Range stack, Fiber** result);
  // EINVAL: no fiber; EBUSY: it is running.
  static int Destroy(Fiber* fiber);
  // EINVAL: no fiber.
  static int SetContext(Fiber* fiber, platform::Range context);

  // Whether the handle is that of a registered fiber. Any thread, without locks.
  static bool IsRegistered(const Fiber* fiber);

  // The thread `self`, which is the caller, is about to continue on `to`; null is its own stack.
  // The stack that it is on counts from `stack_pointer` on while it is suspended. EINVAL: `to` is
  // no fiber, or the thread is not on the stack it last switched to. EBUSY: `to` is running, by
  // this thread or another one, or null and the thread is on its own stack. ESRCH: abandoned.
  static int Switch(Thread* self, Fiber* to, Addr stack_pointer);

  // The thread is no mutator any more: nobody can go on with the fiber it is on. Under the threads
  // lock.
  static void AbandonLocked(Thread* thread);
  // In a forked child: the same for all threads but `survivor`, which may be null.
  static void ResetAfterFork(const Thread* survivor);

  // --- For handshakes; under the threads lock. ---
  // The fiber whose stack the address is in; null if there is none.
  static Fiber* FindLocked(Addr address);
  // Copies the stacks of fibers from *index on that nobody is on, some `bytes` of them. False if
  // there were none left. Who switches to one meanwhile does no harm: words are hints here.
  static bool CopySuspendedLocked(size_t* index, size_t bytes, gc::RootBuffer* words);

  // --- For the roots, with the world stopped, in this order. ---
  // Takes each fiber for suspended.
  static void BeginRootsWorldStopped();
  static Fiber* FindWorldStopped(Addr address) { return FindLocked(address); }
  static void AddRootsWorldStopped(gc::RootTasks* roots);
};

}  // namespace gleaner::runtime
