// The reservation and its side tables; every address computation of the heap is here.
//
// Pages that may hold pointers are handed out from the low end upwards, pointer-free ones from the
// high end downwards, so that "is it scanned" is a comparison and either kind may use all there is.
//
//   base                                                                      base + bytes
//    | scanned pages --->  ...........reserved...........  <--- pointer-free |
//                       ^ scanned_end                    ^ pointer_free_begin   (page numbers)
#pragma once

#include "alloc/page.h"

namespace gleaner::alloc {

enum class Space : uint8_t { kScanned = 0, kPointerFree = 1 };
constexpr Space SpaceOf(Kind kind) {
  return IsPointerFree(kind) ? Space::kPointerFree : Space::kScanned;
}

// Side tables and memory become usable in steps of this many pages (4 MiB of heap).
inline constexpr PageNumber kPagesPerChunk = 256;

struct AddressSpace {
  // Constant after Init.
  Addr base = 0;
  size_t bytes = 0;
  PageInfo* info = nullptr;  // zero where nothing is committed, as long as it is kept whole
  PageMeta* meta = nullptr;
  uint8_t* marks = nullptr;
  bool huge_pages = false;
  bool executable = false;  // pages may hold code; set before Init

  // Frontiers of commitment. Written under the commit lock; they only move towards each other.
  platform::Atomic<PageNumber> scanned_end{0};
  platform::Atomic<PageNumber> pointer_free_begin{0};

  // For who gives slots back by their page's descriptor alone: scanned_end again, written with it,
  // or 0 if nobody may do so. `fast_free` is set before Init.
  bool fast_free = false;
  platform::Atomic<size_t> fast_free_end{0};

  // Reserves `max_bytes` of heap, or as much as the system allows, halving on refusal. False if not
  // even `min_bytes` are to be had. 0 stands for four times memory and swap, between 64 GiB and
  // 1 TiB: either space may have all the memory there is, with as much free in between.
  [[nodiscard]] bool Init(size_t max_bytes, size_t min_bytes, bool use_huge_pages);

  // Whether the system would give so much now. Where address space is limited, a reservation does
  // not tell. Where it is not, nothing is asked.
  static bool CanCommit(size_t wanted);

  // Gives all of it back. pre: there are no objects.
  void Release();

  // Commits `pages` more pages of a space (a multiple of kPagesPerChunk). False if the reservation
  // is used up or the system refuses.
  [[nodiscard]] bool CommitMore(Space space, PageNumber pages);

  PageNumber page_count() const { return static_cast<PageNumber>(bytes >> kPageShift); }
  // Whether the address is the heap's, committed or not.
  bool Reserves(Addr a) const { return a - base < bytes; }
  // Whether the address lies in committed pages. Acquire: pairs with CommitMore; the tables of
  // these pages are usable.
  bool Contains(Addr a) const {
    const size_t page = (a - base) >> kPageShift;
    return page < scanned_end.Load(platform::memory_order_acquire) ||
           (page >= pointer_free_begin.Load(platform::memory_order_acquire) &&
            page < bytes >> kPageShift);
  }
  // pre: Contains(a) for the next two.
  PageNumber PageOf(Addr a) const { return static_cast<PageNumber>((a - base) >> kPageShift); }
  static size_t OffsetInPage(Addr a) { return a & (kPageBytes - 1); }

  Addr AddressOfPage(PageNumber page) const { return base + (Addr{page} << kPageShift); }
  uint8_t* MarksOf(PageNumber page) const { return marks + size_t{page} * kMarkBytesPerPage; }
};

extern AddressSpace g_space;

// The committed pages of a space are [FirstCommitted, EndCommitted).
inline PageNumber FirstCommitted(Space space) {
  // Acquire: pairs with CommitMore; the tables up to the frontier are usable.
  return space == Space::kScanned ? 0
                                  : g_space.pointer_free_begin.Load(platform::memory_order_acquire);
}
inline PageNumber EndCommitted(Space space) {
  return space == Space::kScanned
             ? g_space.scanned_end.Load(platform::memory_order_acquire)  // as above
             : g_space.page_count();
}
inline Space SpaceOfPage(PageNumber page) {
  return page < FirstCommitted(Space::kPointerFree) ? Space::kScanned : Space::kPointerFree;
}

// Gives a list of pages, linked by PageMeta::next, `page` as its new first element. Lock-free, any
// thread.
inline void PushAtomic(platform::Atomic<PageNumber>& head, PageNumber page) {
  PageNumber first = head.Load(platform::memory_order_relaxed);  // the exchange below decides
  do {
    g_space.meta[page].next = first;
    // Release: the consumer that acquires the head sees `next` and the page's mark bytes.
  } while (!head.CompareExchange(first, page, platform::memory_order_release));
}

void AddressSpaceResetLockAfterFork();

}  // namespace gleaner::alloc
