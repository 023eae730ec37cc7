// Collections that a thread of the program starts, and the finalizers that run after them.
#pragma once

#include "gc/collector.h"

namespace gleaner::runtime {

// Collects, then runs or announces finalizers as the client's variables say. False if collection is
// disabled, `give_up` said so, or another thread did the work meanwhile.
bool Collect(gc::Cause cause, int (*give_up)() = nullptr);
// The same for a caller that has its registers on the stack: that counts from there on
// (platform::WithRegistersOnStack).
bool CollectFrom(Addr stack_pointer, gc::Cause cause, int (*give_up)() = nullptr);

// For a runtime that serves malloc: collects, whatever the client says of that, with the caller's
// stack counting from `stack_pointer` on. False if threads do not stop, or the roots cannot be
// read. pre: the calling thread is attached, outside callbacks of the collector.
[[nodiscard]] bool CollectForMallocFrom(Addr stack_pointer);

// Starts a concurrent collection if one is due or `start` says so, or goes on with it a
// little. Whether one is under way then.
bool CollectALittle(bool start);

// Runs all finalizers that are ready, on the calling thread; returns how many. Not under the
// collector lock.
int InvokeFinalizers();

// The collector lock for a call that the program may also make where it holds it: after
// GC_alloc_lock, and in callbacks.
class CollectorLockGuard {
 public:
  CollectorLockGuard();
  ~CollectorLockGuard();
  CollectorLockGuard(const CollectorLockGuard&) = delete;
  CollectorLockGuard& operator=(const CollectorLockGuard&) = delete;

 private:
  const bool taken_;
};

// What is registered for the object that begins at `object` goes, or is so for the `bytes` at `to`,
// to which its contents have been copied. Nothing if no object begins there. Takes the lock above,
// if anything may be registered.
void ForgetRegistered(const void* object);
void MoveRegistered(const void* object, const void* to, size_t bytes);

}  // namespace gleaner::runtime
