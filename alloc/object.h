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

// As FindSlot, but false unless the slot is allocated. The answer may be out of date at once if
// another thread frees.
bool FindObject(Addr a, ObjectRef* out);

enum class FreeResult : uint8_t { kFreed, kForeign, kInterior, kNotAllocated };

// Gives an object back. Any thread. The slot may be handed out again from then on. Polls: it may
// run a step of a cycle, a collection, and the program's finalizers on the caller's stack. No lock
// held, outside critical sections.
FreeResult FreeObject(void* p);
// As FreeObject, but neither counts the bytes nor polls: the collector has counted them already.
// For a caller that holds the collector lock.
FreeResult FreeObjectUncounted(void* p);

// Memory for an object of any size; null when the heap is exhausted even after collecting, or the
// size cannot exist. `alignment` is a power of two. pre: the calling thread has a heap.
void* AllocateObject(Kind kind, size_t bytes, size_t alignment = kGranuleBytes,
                     bool ignore_off_page = false);

// As AllocateObject for a large object whatever its size, with pages of its own, which are put
// where the placement says; `*result` tells what came of it. Where there is one memory node, the
// placement is without effect.
void* AllocatePlaced(Kind kind, size_t bytes, const Placement& placement, PlacementResult* result);

// Records that memory of the object at p, if it is a large one, has been put into place: the page
// space undoes that when the object is freed. pre: the caller keeps the object.
void RecordPlacement(void* p);

// The placement of large objects that the calling thread allocates; null: none of its own. The
// placement must live as long as it is in use.
extern __thread const Placement* t_placement;

// Makes the object `bytes` large without moving it. False if that is not possible.
bool ResizeInPlace(const ObjectRef& object, size_t bytes);

// With the world stopped: gives back a large object's pages.
void FreeLargeWorldStopped(PageNumber head);

// With the world stopped: gives back the pages of the large objects that FreeObject got while a
// cycle marked concurrently. These objects have kept their pages, since a marker may hold a range
// of them and must not find objects of another kind there. Markers may have blackened them since.
// pre: no marker has work left.
void FreeDeferredWorldStopped();

// Bytes of objects of at least kHugeBytes that may hold pointers, allocated since the last full
// collection. Each takes the collector long to scan, and the last collection's figures do not
// include them. The collector sets it to 0 with the world stopped.
constexpr size_t kHugeBytes = 1 * kMiB;
extern platform::Count<uint64_t> g_huge_bytes;

}  // namespace gleaner::alloc
