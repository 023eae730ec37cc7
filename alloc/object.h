// From an address to the object it lies in, and giving objects back.
#pragma once

#include "alloc/address_space.h"

namespace gleaner::alloc {

struct ObjectRef {
  Addr base;
  size_t bytes;     // usable size
  PageNumber page;  // of the base
  uint32_t slot;    // index of the mark byte in that page
  uint8_t* mark() const { return g_space.MarksOf(page) + slot; }
  Kind kind() const { return g_space.info[page].kind; }
};

// The slot that `a` points into, allocated or not. False for foreign addresses, free pages and the
// waste at the end of a page. Interior pointers resolve to their slot.
bool FindSlot(Addr a, ObjectRef* out);

// The same, allocated slots only. The answer may be out of date at once if another thread frees.
bool FindObject(Addr a, ObjectRef* out);

enum class FreeResult : uint8_t { kFreed, kForeign, kInterior, kNotAllocated };

// Gives an object back, from any thread. Its slot may be handed out again from then on.
FreeResult FreeObject(void* p);
// The same for what the collector has counted as free already, and without a poll: for who holds
// the collector lock.
FreeResult FreeObjectUncounted(void* p);

// Memory for an object of any size; null when the heap is exhausted even after collecting, or the
// size cannot exist. `alignment` is a power of two. pre: the calling thread has a heap.
void* AllocateObject(Kind kind, size_t bytes, size_t alignment = kGranuleBytes,
                     bool ignore_off_page = false);

// Tries to make the object `bytes` large without moving it.
bool ResizeInPlace(const ObjectRef& object, size_t bytes);

// With the world stopped: gives back a large object's pages.
void FreeLargeWorldStopped(PageNumber head);

// The same for those that were given to FreeObject while a cycle marked concurrently. They
// have kept their pages: a marker may have had a range of them in hand, and must not find objects
// of another kind there. Markers may also have blackened them since. pre: no marker has work left.
void FreeDeferredWorldStopped();

// Pages and large objects of uncollectable kinds ever made: while 0, the collector need not look
// for them among its roots.
extern platform::Atomic<uint64_t> g_uncollectable_units;

// Bytes of objects of at least kHugeBytes that may hold pointers, allocated since the last full
// collection: each takes the collector long, and what it found last says nothing of them. A count:
// any thread adds, relaxed, and the collector sets it to 0 with the world stopped.
constexpr size_t kHugeBytes = 1 * kMiB;
extern platform::Atomic<uint64_t> g_huge_bytes;

}  // namespace gleaner::alloc
