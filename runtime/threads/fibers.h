// The coroutine stacks that the program has registered (gleaner.h, docs/reference/extensions.md).
//
// The stack that a thread is on is found from its stack pointer, never from what it announced
// [inv.fiber-stack]. So a stop between the announcement of a switch and the switch itself loses no
// roots. The stack still in use is scanned from the stack pointer, and the stack about to be
// entered from where it was left last. Both are right until the instant of the switch.
//
//   state kFree -> kFresh                     Create, under the threads lock
//   kFresh, kSuspended -> kRunning            the thread that switches to it, by compare-exchange
//   kRunning -> kSuspended                    the thread that leaves it
//   kRunning -> kAbandoned                    the end of its thread, or a fork in another thread
//   kFresh, kSuspended, kAbandoned -> kFree   Destroy, under the threads lock
#pragma once

#include "gc/mark/roots.h"
#include "platform/os/atomic.h"
#include "platform/threads/thread.h"

namespace gleaner::runtime {

struct Thread;

enum class FiberState : uint32_t { kFree, kFresh, kSuspended, kRunning, kAbandoned };

}  // namespace gleaner::runtime

// The fiber as gleaner.h names it. Records are recycled and never unmapped. A stale handle is
// recognised as long as no new fiber uses its record.
struct alignas(64) gleaner_fiber {
  // Constant while registered.
  gleaner::platform::Range stack;
  gleaner::platform::Atomic<gleaner::runtime::FiberState> state;
  // Lowest address in use when the fiber was left last. Written by the thread that leaves it, in a
  // critical section, before that thread stores kSuspended.
  gleaner::Addr stack_pointer;
  // Memory outside the stack where the program saves registers; may be empty. Guarded by the
  // threads lock.
  gleaner::platform::Range context;
  // Start of the live part of the stack in the collection under way. Written by the collecting
  // thread with the world stopped.
  gleaner::Addr live;
  gleaner_fiber* next_free;  // guarded by the threads lock
};

namespace gleaner::runtime {

using Fiber = ::gleaner_fiber;

// Call order: Create, then Switch any number of times, then Destroy, which any thread may call.
// Calls out of order return an error.
class Fibers {
 public:
  // Results are errno values; 0 is success.

  // Registers a stack. ENOMEM, or EEXIST if it overlaps another fiber's stack or a thread's.
  static int Create(platform::Range stack, Fiber** result);
  // Removes a fiber. EINVAL: no fiber. EBUSY: a thread runs on it or is switching to it.
  static int Destroy(Fiber* fiber);
  // EINVAL: no fiber.
  static int SetContext(Fiber* fiber, platform::Range context);

  // Whether the handle is that of a registered fiber. Any thread, without locks.
  static bool IsRegistered(const Fiber* fiber);

  // Announces that the calling thread `self` is about to continue on `to`; null is its own stack.
  // The stack that it leaves is scanned from `stack_pointer` upwards while it is suspended. EINVAL:
  // `to` is no fiber, or the thread is not on the stack it last switched to. EBUSY: this or another
  // thread runs on `to`, or `to` is null and the thread is on its own stack. ESRCH: `to` is
  // abandoned.
  static int Switch(Thread* self, Fiber* to, Addr stack_pointer);

  // The thread ends as a mutator: its fiber becomes kAbandoned. pre: the threads lock is held.
  static void AbandonLocked(Thread* thread);
  // In a forked child: abandons the fibers of all threads but `survivor`, which may be null.
  static void ResetAfterFork(const Thread* survivor);

  // --- For handshakes; under the threads lock. ---
  // The fiber whose stack the address is in; null if there is none.
  static Fiber* FindLocked(Addr address);
  // Copies the stacks of suspended and fresh fibers, about `bytes` of them, from index *index on,
  // and advances *index. False if there were no fibers left. A thread may switch to such a fiber
  // meanwhile: the copied words are only hints.
  static bool CopySuspendedLocked(size_t* index, size_t bytes, gc::RootBuffer* words);

  // Sets `live` of each fiber as if it were suspended; the threads' stack pointers correct it.
  static void BeginRootsWorldStopped();
  static Fiber* FindWorldStopped(Addr address) { return FindLocked(address); }
  static void AddRootsWorldStopped(gc::RootTasks* roots);
};

}  // namespace gleaner::runtime
