// The fast path of GC_malloc that programs compile in (include/gleaner/gc/gc_bump.h).
#include "alloc/thread_heap.h"
#include "gc/gc_bump.h"
#include "platform/threads/thread.h"
#include "runtime/start/start.h"

extern "C" {
ptrdiff_t gleaner_bumps_at_1 = 0;

// GC_malloc and GC_malloc_atomic of this library, under names that no other object can take
// (runtime/api/allocation.cc).
__attribute__((visibility("hidden"))) void* gleaner_own_malloc(size_t);
__attribute__((visibility("hidden"))) void* gleaner_own_malloc_atomic(size_t);
}

namespace gleaner::runtime {
namespace {

using alloc::Bump;
using alloc::Kind;

// Layout 1 [inv.bump-layout]. A heap that needs another one gets a word of another name.
static_assert(sizeof(Bump) == sizeof(gleaner_bump) &&
              offsetof(Bump, cur) == offsetof(gleaner_bump, cur) &&
              offsetof(Bump, limit) == offsetof(gleaner_bump, limit));
static_assert(alloc::kClassCount == GLEANER_BUMP_ROW);
static_assert(static_cast<size_t>(Kind::kAtomic) == 0 && static_cast<size_t>(Kind::kNormal) == 1);

// Whether a heap begins with its bumps, and each size has the slots that the program takes it to
// have.
bool IsLayoutOne() {
  if (AddressOf(&alloc::g_no_heap) != AddressOf(&alloc::g_no_heap.bumps)) return false;
  for (size_t granules = 1; granules <= GLEANER_BUMP_GRANULES; ++granules) {
    const size_t bytes = granules * alloc::kGranuleBytes;
    if (alloc::SizeClassOf(bytes) != granules - 1) return false;
    if (alloc::kSlotBytes[granules - 1] != bytes) return false;
  }
  return true;
}

}  // namespace

void OfferInlineAllocation() {
  if (!IsLayoutOne()) return;
  // Calls may reach another object's functions.
  if (&GC_malloc != &gleaner_own_malloc || &GC_malloc_atomic != &gleaner_own_malloc_atomic) return;
  // The variable is in static thread-local storage, at the same distance in all threads.
  const Addr distance = AddressOf(&alloc::t_heap) - platform::CurrentThreadPointer();
  // Relaxed: a thread that reads the old word calls GC_malloc. The new word leads to what only the
  // thread itself writes.
  __atomic_store_n(&gleaner_bumps_at_1, static_cast<ptrdiff_t>(distance), __ATOMIC_RELAXED);
}

}  // namespace gleaner::runtime
