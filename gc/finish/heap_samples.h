// The samples of the heap profile (docs/reference/heap.md): where each sampled object was
// allocated, and whether it is alive.
//
// A sample is noted inside the critical section in which its object is handed out (alloc/hooks.h),
// so a stop finds both or neither. The samples are neither roots nor references. A sample ends
//   - before the program frees the object: PageInfo::registered has kSampled where there may be
//     samples, so a thread that frees an object without one does not come here;
//   - at the end of marking, if the object is white after its finalizer had its chance. That is
//     before any sweep, so no other object can have the address yet.
// So a sample that is there is that of the object at its address [inv.sample-of-object].
//
// All is guarded by the lock of the samples, which is held in critical sections only: with the
// world stopped nobody has it.
#pragma once

#include "alloc/metadata/hash_table.h"
#include "gc/mark/marker.h"
#include "platform/unwind/stack_table.h"

namespace gleaner::gc {

// The objects of one size that one stack allocated.
struct SampleSite {
  platform::StackId stack;
  uint64_t bytes;  // of one object
  uint64_t live;   // objects
  uint64_t all;
};

class HeapSamples {
 public:
  // Records that the object, allocated by this stack, is sampled at this size; with `bytes` 0 that
  // it is not. What was noted of it before is dropped. Any thread.
  void Record(Addr object, size_t bytes, platform::StackId stack);
  // Drops the object's sample if there is one. Any thread.
  void Forget(Addr object);
  // Drops the samples of white objects. World stopped, at the end of marking.
  void ForgetUnreachable(const Marker& marker);

  // What Copy has found.
  struct Found {
    size_t sites = 0;   // how many there are
    uint64_t lost = 0;  // samples that there was no memory for
  };
  // Copies the sites, `capacity` at most.
  Found Copy(SampleSite* sites, size_t capacity);

  void LockForFork() { lock_.Acquire(); }
  void UnlockAfterFork() { lock_.Release(); }
  // In the child of a fork that has not taken the lock, by its only thread: a thread that is gone
  // may have been at work here. From the first call on nothing is noted or forgotten; the second,
  // outside critical sections, drops everything and begins anew.
  void SuspendAfterFork() { is_suspended_ = true; }
  void BeginAnewAfterFork();

 private:
  struct Counts {
    uint64_t live;
    uint64_t all;
  };
  void ForgetLocked(Addr object);

  platform::Lock lock_{platform::LockRank::kSamples};
  // By stack and size, in one word.
  alloc::HashTable<Counts> sites_;
  // From the complement of the object's address to the key of its site.
  alloc::HashTable<uint64_t> live_;
  uint64_t lost_ = 0;
  bool is_suspended_ = false;  // written by the only thread of a process
};

extern HeapSamples g_heap_samples;

}  // namespace gleaner::gc
