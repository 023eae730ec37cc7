// A thread's magazines, and the paths through them; what the malloc family is made of.
#pragma once

#include <array>

#include "malloc/process.h"
#include "malloc/slot_heap.h"

namespace gleaner::malloc_proxy {

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

// Whether the block waits in its magazine now; if not, it is not looked at any further. `base` is
// the thread pointer, or as far from the magazines to use as that is from t_magazines.
GLEANER_ALWAYS_INLINE bool TryPush(Addr base, void* p) {
  const alloc::AddressSpace& space = alloc::g_space;
  const Addr offset = AddressOf(p) - space.base;
  const size_t page_number = offset >> alloc::kPageShift;
  // Relaxed: who may free the block has seen its page committed.
  if (GLEANER_UNLIKELY(page_number >= space.fast_free_end.Load(platform::memory_order_relaxed))) {
    return false;
  }
  const alloc::PageInfo& page = space.info[page_number];
  // Of a page of slots the word begins with the reciprocal r of their size, and o * r modulo 2^32
  // is below r if and only if o is a multiple of that size. Proof: r = (2^32 + e) / size, 0 < e <=
  // size. For o = q * size + s the product is q * e + s * r modulo 2^32. It is at most q * e <=
  // 2^14 < r for s = 0; else at least r, and less than 2^32, as s * r <= 2^32 + e - r. Of the first
  // page of another block it begins with the block's pages, and only o = 0 passes. Where no block
  // begins it is 0, or what it was when one did, and then the page names the magazine of
  // kLargeClass.
  const uint32_t product = static_cast<uint32_t>(offset) % alloc::kPageBytes * page.reciprocal;
  asm("" ::: "memory");  // to read it again is an instruction less than to keep it
  if (GLEANER_UNLIKELY(product >= page.reciprocal)) return false;
  Magazine& magazine = *PointerAt<Magazine>(base + static_cast<Addr>(page.magazine));
  void** const top = magazine.top;
  // The last comparisons are for the commonest double frees. Below the bottom lies some word.
  if (GLEANER_UNLIKELY(top == magazine.limit || top[-1] == p || top[-2] == p)) return false;
  *top = p;
  magazine.top = top + 1;
  return true;
}

// Gives a block back, a foreign one to the next allocator. Null is nothing.
GLEANER_ALWAYS_INLINE void Free(void* p) {
  if (GLEANER_UNLIKELY(!TryPush(platform::CurrentThreadPointer(), p))) FreeSlow(p);
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
