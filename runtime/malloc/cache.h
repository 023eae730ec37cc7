// A thread's magazines, and the paths through them; what the malloc family is made of.
#pragma once

#include <array>

#include "runtime/malloc/process.h"
#include "runtime/malloc/slot_heap.h"

namespace gleaner::malloc_proxy {

// Owner thread only.
extern __thread Magazines t_magazines;

// The call a pointer came with, for messages.
enum class Call : uint8_t { kFree, kRealloc, kUsableSize };

// The slow paths.
GLEANER_NOINLINE void* AllocateSlow(size_t bytes);
GLEANER_NOINLINE void FreeSlow(void* p);

// A block of at least `bytes` if one is at hand, else null.
GLEANER_ALWAYS_INLINE void* TryPop(Magazines& magazines, size_t bytes) {
  size_t size_class;
  if (GLEANER_LIKELY(bytes <= alloc::kMaxSmallBytes)) {
    size_class = alloc::SizeClassOf(bytes);
  } else {
    if (bytes > kMaxMediumBytes) return nullptr;
    size_class = MediumClassOf(bytes);
  }
  Magazine& magazine = magazines.of[size_class];
  void** const top = magazine.top;
  void* const p = top[-1];
  if (GLEANER_LIKELY(p != nullptr)) magazine.top = top - 1;
  return p;
}
GLEANER_ALWAYS_INLINE void* TryMagazine(size_t bytes) { return TryPop(t_magazines, bytes); }

// A block of at least `bytes`, at a multiple of 16; null, and errno is ENOMEM, if there is none.
GLEANER_ALWAYS_INLINE void* Allocate(size_t bytes) {
  void* p = TryMagazine(bytes);
  return GLEANER_LIKELY(p != nullptr) ? p : AllocateSlow(bytes);
}

// kSmall or kLarge: the page has a size class.
constexpr bool HasBlocks(alloc::PageState state) {
  static_assert(static_cast<int>(alloc::PageState::kSmall) == 2 &&
                static_cast<int>(alloc::PageState::kLarge) == 3);
  return (static_cast<unsigned>(state) | 1u) == 3;
}

// Whether the block waits in its magazine now; if not, it is not looked at any further.
GLEANER_ALWAYS_INLINE bool TryPush(Magazines& magazines, void* p) {
  // One comparison for three: a foreign address, null and one that is no multiple of 16, whose low
  // bits the rotation brings up.
  const Addr offset = AddressOf(p) - g_bounds.base;
  const size_t granule = offset >> 4 | offset << 60;
  if (GLEANER_LIKELY(granule < g_bounds.granules)) {
    const alloc::PageInfo& page = g_bounds.pages[granule >> (alloc::kPageShift - 4)];
    if (GLEANER_LIKELY(HasBlocks(page.state))) {
      Magazine& magazine = magazines.of[page.size_class];
      void** const top = magazine.top;
      // The second comparison is for the commonest double free.
      if (GLEANER_LIKELY(top != magazine.limit && top[-1] != p)) {
        *top = p;
        magazine.top = top + 1;
        return true;
      }
    }
  }
  return false;
}

// Gives a block back, a foreign one to the next allocator. Null is nothing.
GLEANER_ALWAYS_INLINE void Free(void* p) {
  if (GLEANER_UNLIKELY(!TryPush(t_magazines, p))) FreeSlow(p);
}

// The same for any alignment that is a power of two.
void* AllocateAligned(size_t bytes, size_t alignment);
// The same with memory that reads as zero.
void* AllocateZeroed(size_t bytes);
// As realloc, but for bytes == 0: a block that small.
void* Reallocate(void* p, size_t bytes);
// Usable bytes of a block; 0 for null.
size_t UsableBytes(void* p, Call call = Call::kUsableSize);

// The calling thread's heap and the end of its life.
class ThreadCache {
 public:
  // Once, at the start.
  static void Init();
  // Null if the thread has none.
  static SlotHeap* Heap();
  // Gives all slots in the calling thread's magazines back to their pages.
  static void Flush();
};

}  // namespace gleaner::malloc_proxy
