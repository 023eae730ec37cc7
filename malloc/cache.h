// A thread's magazines and the paths through them: the functions that the malloc family calls. Any
// thread may call all of them, also one without a heap.
#pragma once

#include <array>

#include "malloc/process.h"
#include "malloc/slot_heap.h"

namespace gleaner::malloc_proxy {

// The call that a pointer was passed to, for messages.
enum class Call : uint8_t { kFree, kRealloc, kUsableSize };

// The slow paths.
GLEANER_NOINLINE void* AllocateSlow(size_t bytes);
GLEANER_NOINLINE void FreeSlow(void* p);

// A block of at least `bytes` if its magazine has one, else null.
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

// Puts the block into its magazine. False, and nothing is changed, if that is not possible here.
// `base` is the thread pointer plus the distance from t_magazines to the magazines to use.
GLEANER_ALWAYS_INLINE bool TryPush(Addr base, void* p) {
  const alloc::AddressSpace& space = alloc::g_space;
  const Addr offset = AddressOf(p) - space.base;
  const size_t page_number = offset >> alloc::kPageShift;
  // Relaxed: a thread that may free the block has seen its page committed.
  if (GLEANER_UNLIKELY(page_number >= space.fast_free_end.Load(platform::memory_order_relaxed))) {
    return false;
  }
  const alloc::PageInfo& page = space.info[page_number];
  // The descriptor's word begins with `reciprocal`. Three cases, with the offset o in the page:
  // - A page of slots: it is the reciprocal r of the slot size, and o * r modulo 2^32 is below r if
  //   and only if o is a multiple of that size. Proof: r = (2^32 + e) / size, 0 < e <= size. For
  //   o = q * size + s the product is q * e + s * r modulo 2^32. For s = 0 it is at most q * e <=
  //   2^14 < r. Else it is at least r, and less than 2^32, as s * r <= 2^32 + e - r.
  // - The first page of another block: it is the block's number of pages, and only o = 0 passes.
  // - Other pages: it is 0, or a value from an earlier block, and then the page names the magazine
  //   of kLargeClass, which is full.
  const uint32_t product = static_cast<uint32_t>(offset) % alloc::kPageBytes * page.reciprocal;
  asm("" ::: "memory");  // reading the reciprocal again takes one instruction less than keeping it
  if (GLEANER_UNLIKELY(product >= page.reciprocal)) return false;
  Magazine& magazine = *PointerAt<Magazine>(base + static_cast<Addr>(page.magazine));
  void** const top = magazine.top;
  // The last two comparisons detect the commonest double frees. There is a word below the bottom.
  if (GLEANER_UNLIKELY(top == magazine.limit || top[-1] == p || top[-2] == p)) return false;
  *top = p;
  magazine.top = top + 1;
  return true;
}

// Frees a block; passes a foreign block to the next allocator. No effect for null.
GLEANER_ALWAYS_INLINE void Free(void* p) {
  if (GLEANER_UNLIKELY(!TryPush(platform::CurrentThreadPointer(), p))) FreeSlow(p);
}

// Allocates at a multiple of `alignment`, a power of two. Result as for Allocate.
void* AllocateAligned(size_t bytes, size_t alignment);
// Allocates memory that reads as zero. Result as for Allocate.
void* AllocateZeroed(size_t bytes);
// realloc, except that bytes == 0 gives a block of the smallest size.
void* Reallocate(void* p, size_t bytes);
// Usable bytes of a block; 0 for null.
size_t UsableBytes(void* p, Call call = Call::kUsableSize);

// The calling thread's heap.
class ThreadCache {
 public:
  // Once, at the start of the process's malloc.
  static void Init();
  // Null if the thread has no heap.
  static SlotHeap* Heap();
  // Returns all blocks in the calling thread's magazines to their pages or to the shelf.
  static void Flush();
};

}  // namespace gleaner::malloc_proxy
