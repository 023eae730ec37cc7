// A thread's pages of small slots when nothing is collected, and how slots return to their pages.
// docs/reference/malloc.md has the model and the invariants.
//
// All of a heap is guarded by its lock, which its own thread takes, too: it takes slots in batches.
// Pages of a heap are in the scanned space of the reservation, where spans grow upwards; here the
// space has no other meaning.
#pragma once

#include "alloc/thread_heap.h"
#include "malloc/magazines.h"
#include "malloc/spans.h"

namespace gleaner::malloc_proxy {

using alloc::kClassCount;

// The mark byte of a slot that the program has or that is in a magazine.
inline constexpr uint8_t kSlotOut = 1;

enum class Place : uint8_t {
  kFull = 0,  // on no list: less than an eighth is free
  kPartial,   // on its heap's list of partial pages
  kCurrent,   // its heap takes slots from it
};

// Data of a page of slots in addition to its PageInfo. Guarded by the lock of the heap that owns
// it.
struct SlotPage {
  PageNumber next;  // in the list of partial pages
  PageNumber previous;
  // Index of the heap that owns the page. Changes under the lock of the old owner; read without a
  // lock to find which lock to take.
  platform::Atomic<uint16_t> owner;
  // Slots whose mark byte is 0 [inv.slot-free]. Changes under the lock of the page's heap; Count
  // reads it without, for figures.
  platform::Hint<uint16_t> free;
  Place place;
};
static_assert(sizeof(SlotPage) == 16);

// Maximum of free pages that a heap keeps; further ones return to the page space.
inline constexpr PageNumber kMaxFreePages = (2 * kMiB) >> alloc::kPageShift;

class SlotHeap {
 public:
  // pre: in zeroed memory.
  explicit SlotHeap(alloc::ThreadHeap* pages);

  // Takes up to `want` slots and stores them at `out`, the lowest address of a run last. Returns
  // their number, 0 if there is no memory. Any thread.
  size_t Take(size_t size_class, void** out, size_t want);

  // The magazines of the heap's thread (cache.h). Owner thread only; zero at first.
  ThreadMagazines magazines;

 private:
  friend class SlotHeaps;

  struct ClassPages {
    PageNumber current;  // kNoPage if there is none
    uint32_t search;     // slots of `current` from here on have been searched
    PageNumber partial;  // head of the list of partial pages
  };

  // All below: under lock_.
  bool NextPage(size_t size_class);
  void Format(PageNumber page, size_t size_class);
  size_t TakeFromCurrent(ClassPages& pages, size_t size_class, void** out, size_t want);
  void StopUsing(ClassPages& pages);
  // Lists or frees a page that is not a current page, by its free slots [inv.slot-place].
  void Settle(PageNumber page);
  void Link(PageNumber page);
  void Unlink(PageNumber page);
  size_t GiveBackSome(void** slots, size_t count, size_t size_class, bool by_owner,
                      BlockError* error);

  platform::Lock lock_{platform::LockRank::kSlots};
  alloc::ThreadHeap* const pages_;
  // Whether no thread owns the heap. Written under lock_.
  platform::Hint<bool> abandoned_{false};
  ClassPages classes_[kClassCount];

  // Guarded by the lock of the list of heaps: the list of heaps with free pages that were
  // abandoned.
  SlotHeap* next_kept_ = nullptr;
  PageNumber kept_pages_ = 0;  // free pages when it was abandoned
  bool is_kept_ = false;
};

// All slot heaps: one for each thread heap, with the same index. Heap 0 belongs to no thread and
// serves threads that have no heap. Any thread may call all functions but those for a fork.
class SlotHeaps {
 public:
  // After alloc::ThreadHeaps::Init.
  [[nodiscard]] static bool Init();

  // A heap for the calling thread: an abandoned one or a new one. Null if metadata memory is
  // refused.
  static SlotHeap* Acquire();
  // Called when the thread that owns the heap ends. pre: its magazines are empty.
  static void Abandon(SlotHeap* heap);
  static SlotHeap& shared();

  // Returns `count` slots of one class to their pages, whichever heaps own these. Reorders `slots`.
  // `self` is the calling thread's heap, or null. On an error `*wrong` is the wrong slot, and some
  // slots are not returned.
  static BlockError GiveBack(size_t size_class, void** slots, size_t count, const SlotHeap* self,
                             void** wrong);

  // Whether a slot begins at `p`. pre: p lies in the heap.
  static bool IsSlot(const void* p);

  struct Figures {
    size_t small_pages = 0;
    size_t free_slots = 0;  // in small_pages
    size_t free_slot_bytes = 0;
    size_t free_pages = 0;  // free pages of thread heaps
  };
  // A snapshot while other threads go on.
  static Figures Count();

  // Take and release the locks of all heaps for a fork.
  static void LockForFork();
  static void UnlockAfterFork();
  // In the child, after the unlock: abandons all heaps but the caller's.
  static void AbandonOthers(const SlotHeap* survivor);

 private:
  friend class SlotHeap;

  static size_t count();
  static SlotHeap* Create(alloc::ThreadHeap* pages);
  static void AbandonLocked(SlotHeap* heap);
  static void KeepFreePages(SlotHeap* heap);
  static PageNumber StealPartial(size_t size_class, const SlotHeap* thief);
};

}  // namespace gleaner::malloc_proxy
