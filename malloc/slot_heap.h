// A thread's pages of small slots when nothing is collected, and giving slots back to the pages
// they belong to. docs/malloc_proxy.md has the model and the invariants.
//
// All of a heap is guarded by its lock: also what its own thread does, which takes slots by the
// batch. Pages of a heap are on the scanned space of the reservation, where spans grow upwards; the
// side means nothing else here.
#pragma once

#include "alloc/thread_heap.h"
#include "malloc/magazines.h"
#include "malloc/spans.h"

namespace gleaner::malloc_proxy {

using alloc::kClassCount;

// The mark byte of a slot that is the program's or waits in a magazine.
inline constexpr uint8_t kSlotOut = 1;

enum class Place : uint8_t {
  kFull = 0,  // on no list: less than an eighth is free
  kPartial,   // on its heap's list of partial pages
  kCurrent,   // its heap takes slots from it
};

// What a page of slots has beside its PageInfo. Guarded by the lock of the heap that owns it.
struct SlotPage {
  PageNumber next;  // the list of partial pages
  PageNumber previous;
  // Index of the heap. Changes under the lock of the heap that it leaves; read without a lock to
  // find out which one to take.
  platform::Atomic<uint16_t> owner;
  // Slots whose mark byte is 0 [inv.slot-free]. An atomic for the figures, which take no lock.
  platform::Atomic<uint16_t> free;
  Place place;
};
static_assert(sizeof(SlotPage) == 16);

// Free pages that a heap keeps; more than these go to the page space.
inline constexpr PageNumber kMaxFreePages = (2 * kMiB) >> alloc::kPageShift;

class SlotHeap {
 public:
  // pre: in zeroed memory.
  explicit SlotHeap(alloc::ThreadHeap* pages);

  // Takes up to `want` slots and puts them where `out` points, the lowest address last; returns how
  // many, 0 if memory cannot be had. Any thread.
  size_t Take(size_t size_class, void** out, size_t want);

  // For the magazines of the heap's thread (cache.h).
  ThreadMagazines magazines;  // zero at first, as the memory is

 private:
  friend class SlotHeaps;

  struct ClassPages {
    PageNumber current;  // kNoPage if there is none
    uint32_t search;     // slots of it from here on have been looked at
    PageNumber partial;  // head of the list
  };

  // All below: under lock_.
  bool NextPage(size_t size_class);
  void Format(PageNumber page, size_t size_class);
  size_t TakeFromCurrent(ClassPages& pages, size_t size_class, void** out, size_t want);
  void StopUsing(ClassPages& pages);
  // Puts a page that is nobody's current one where its free slots say [inv.slot-place].
  void Settle(PageNumber page);
  void Link(PageNumber page);
  void Unlink(PageNumber page);
  size_t GiveBackSome(void** slots, size_t count, size_t size_class, bool by_owner,
                      BlockError* error);

  platform::Lock lock_{platform::LockRank::kSlots};
  alloc::ThreadHeap* const pages_;
  // Whether no thread owns the heap. Written under lock_; read without as a hint.
  platform::Atomic<bool> abandoned_{false};
  ClassPages classes_[kClassCount];
};

// All slot heaps; as many as thread heaps, with the same indices. Heap 0 belongs to no thread and
// serves those that have none.
class SlotHeaps {
 public:
  // After alloc::ThreadHeaps::Init.
  [[nodiscard]] static bool Init();

  // A heap for a thread that starts, perhaps one that another thread left. Null if metadata memory
  // is refused.
  static SlotHeap* Acquire();
  // The thread that owned the heap ends. Its magazines are empty.
  static void Abandon(SlotHeap* heap);
  static SlotHeap& shared();

  // Gives `count` slots of one class back to their pages, whichever heaps own them. The order in
  // `slots` is lost. `self` is the calling thread's heap, or null. On an error `*wrong` is the
  // slot, and what follows it is not given back.
  static BlockError GiveBack(size_t size_class, void** slots, size_t count, const SlotHeap* self,
                             void** wrong);

  // Whether the page, which has slots, has one that begins at `p`.
  static bool IsSlot(const void* p);

  struct Figures {
    size_t small_pages = 0;
    size_t free_slots = 0;  // in them
    size_t free_slot_bytes = 0;
    size_t free_pages = 0;  // of thread heaps
  };
  // A snapshot while other threads go on.
  static Figures Count();

  // The locks of all heaps, for a fork.
  static void LockForFork();
  static void UnlockAfterFork();
  // In the child, after the unlock: abandons all heaps but the caller's.
  static void AbandonOthers(const SlotHeap* survivor);

 private:
  friend class SlotHeap;

  static size_t count();
  static SlotHeap* Create(alloc::ThreadHeap* pages);
  static void AbandonLocked(SlotHeap* heap);
  static PageNumber StealPartial(size_t size_class, const SlotHeap* thief);
};

}  // namespace gleaner::malloc_proxy
