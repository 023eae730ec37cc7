// Collections that a thread of the program starts, and the finalizers that run after them.
#pragma once

#include "gc/collector.h"
#include "runtime/threads/blocking.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

// Collects, then runs finalizers or calls the notifier, as the client's variables say. The caller
// holds no lock. False if no collection was made: collection is disabled or cannot start here,
// `give_up` returned nonzero, or another thread collected meanwhile.
bool Collect(gc::Cause cause, int (*give_up)() = nullptr);
// Collect for a caller that has saved its registers on the stack (platform::WithRegistersOnStack).
// Its stack is scanned from `stack_pointer` upwards.
bool CollectFrom(Addr stack_pointer, gc::Cause cause, int (*give_up)() = nullptr);

// Whether the calling thread is on a stack that is known to have too little left for a collection,
// as threads with the least that the system grants are. Collections run on another stack then; what
// else needs much of a stack and is not urgent is left to other threads. A few loads.
bool HasLittleStack(const Thread* self, Addr stack_pointer);

// Collects for a runtime that serves malloc, also where the client has disabled collection. The
// caller's stack is scanned from `stack_pointer` upwards. False if no collection was made: another
// thread keeps the collector lock, a thread does not stop, or the roots cannot be read. pre: the
// calling thread is attached, outside callbacks of the collector.
[[nodiscard]] bool CollectForMallocFrom(Addr stack_pointer);

// Makes one step of a concurrent collection; starts one if it is due or `start` is true. Returns
// whether one is under way afterwards. Without concurrent mode it makes a stop-parallel collection
// if one is due and `start` is false, and returns false.
bool CollectALittle(bool start);

// Runs all finalizers that are ready, on the calling thread; returns how many. The caller does not
// hold the collector lock.
int InvokeFinalizers();

// Takes the collector lock, unless the calling thread has it already: after GC_alloc_lock, or in a
// callback of the collector.
class CollectorLockGuard {
 public:
  CollectorLockGuard();
  ~CollectorLockGuard();
  CollectorLockGuard(const CollectorLockGuard&) = delete;
  CollectorLockGuard& operator=(const CollectorLockGuard&) = delete;

 private:
  const bool taken_;
};

// Returns f(), which changes what the heap has noted of the program's objects, so that no stop and
// no flip comes within f's critical sections. For a thread that has a heap they are waited for. One
// that is not registered is not; it holds the collector lock meanwhile, as it does in libgc.
template <class F>
auto AsMutator(F f) {
  if (GLEANER_LIKELY(HasHeap())) return f();
  const CollectorLockGuard guard;
  return f();
}

// ForgetRegistered removes what is registered for the object that begins at `object` (finalizer,
// links, toggle reference: gc/finish/finalize.h). MoveRegistered moves it to the `bytes` at `to`,
// where the object's contents have been copied. No effect if no object begins at `object`. Both
// take the collector lock (CollectorLockGuard) if anything may be registered.
void ForgetRegistered(const void* object);
void MoveRegistered(const void* object, const void* to, size_t bytes);

}  // namespace gleaner::runtime
