// The reservation and its side tables. All address computations of the heap are here.
//
// Pages that may hold pointers are handed out from the low end upwards, pointer-free ones from the
// high end downwards. So one comparison tells whether a page is scanned, and either kind may use
// the whole reservation.
//
//   base                                                                      base + bytes
//    | scanned pages --->  ...........reserved...........  <--- pointer-free |
//                       ^ scanned_end                    ^ pointer_free_begin   (page numbers)
#pragma once

#include "alloc/page.h"
#include "alloc/placement.h"

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
  PageInfo* info = nullptr;  // zero where not committed, while kept whole (platform::KeepWhole)
  PageMeta* meta = nullptr;
  uint8_t* marks = nullptr;
  bool huge_pages = false;
  bool executable = false;  // pages may hold code; set before Init
  // Where pages lie from which nothing else is known; set before Init.
  Placement placement;
  // Null where there is one memory node, and in a heap without a collector: a byte a page, its node
  // (page_node.h).
  uint8_t* nodes = nullptr;
  // Whether threads prefer pages of their node: `nodes` is there, and memory lies where it is
  // touched, by the heap's placement and by the policy of the thread that calls Init.
  bool by_node = false;
  // The nodes over which the tables are spread; empty: they lie where they are touched. Of a
  // process that is bound to some nodes (numactl --membind, GLEANER_NUMA=bind) only these.
  platform::NodeSet table_nodes;

  // The frontiers of commitment. Written under the commit lock; they only move towards each other.
  platform::Atomic<PageNumber> scanned_end{0};
  platform::Atomic<PageNumber> pointer_free_begin{0};

  // A copy of scanned_end for the fast path of malloc's free, which frees slots by their page's
  // descriptor alone; 0 if that path is not allowed. Written together with scanned_end. `fast_free`
  // allows the path; set before Init.
  bool fast_free = false;
  platform::Atomic<size_t> fast_free_end{0};

  // Makes the table of pages' nodes, where there are several. After Init, before threads allocate;
  // without memory for it, all nodes count as one.
  void InitNodes();

  // Reserves `max_bytes` of heap, or, halving on refusal, as much as the system allows. False if it
  // refuses even `min_bytes`. A `max_bytes` of 0 stands for four times memory and swap, between 64
  // GiB and 1 TiB: then either space may take all memory of the machine, with as much free in
  // between. One thread, before any other uses the heap.
  [[nodiscard]] bool Init(size_t max_bytes, size_t min_bytes, bool use_huge_pages);

  // Whether the system would commit `wanted` bytes now. Asked only where address space is limited:
  // there a reservation does not tell. True elsewhere.
  static bool CanCommit(size_t wanted);

  // Gives the reservation and the tables back. pre: there are no objects, and no other thread uses
  // them.
  void Release();

  // Commits `pages` more pages of a space (a multiple of kPagesPerChunk). False if the reservation
  // is used up or the system refuses. Thread-safe: takes the commit lock.
  [[nodiscard]] bool CommitMore(Space space, PageNumber pages);

  // Gives pages the heap's placement, if the system has it for memory that is touched later.
  void ApplyPlacement(PageNumber first, PageNumber pages) const;
  // Whether CommitMore has asked for huge pages there, if they were quick.
  bool WantsHugePages(PageNumber page) const;
  // Whether an object of this size is put into place as a whole, when it is allocated: the only way
  // for kBlockCyclic.
  bool IsPlacedInBlocks(size_t object_bytes) const {
    return placement.pattern == Pattern::kBlockCyclic && object_bytes >= 2 * placement.block_bytes;
  }

  PageNumber page_count() const { return static_cast<PageNumber>(bytes >> kPageShift); }
  // Whether the address lies in the reservation, committed or not.
  bool Reserves(Addr a) const { return a - base < bytes; }
  // Whether the address lies in committed pages. Acquire: pairs with the release in CommitMore, so
  // the tables of these pages are usable.
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
  // Acquire: pairs with the release in CommitMore, so the tables up to the frontier are usable.
  return space == Space::kScanned ? 0
                                  : g_space.pointer_free_begin.Load(platform::memory_order_acquire);
}
inline PageNumber EndCommitted(Space space) {
  return space == Space::kScanned
             ? g_space.scanned_end.Load(platform::memory_order_acquire)  // CommitMore's tables
             : g_space.page_count();
}
inline Space SpaceOfPage(PageNumber page) {
  return page < FirstCommitted(Space::kPointerFree) ? Space::kScanned : Space::kPointerFree;
}

// Walking the pages takes no lock. With the world stopped a walk sees one state of the heap. While
// the world runs, threads change pages during the walk, and pages that are committed meanwhile may
// be left out.
inline size_t CommittedPages(Space space) { return EndCommitted(space) - FirstCommitted(space); }
inline size_t CommittedPages() {
  return CommittedPages(Space::kScanned) + CommittedPages(Space::kPointerFree);
}

// Calls f(page, info) for each committed page of the space, or of both, in ascending order.
template <class F>
void ForEachPage(Space space, const F& f) {
  const PageNumber end = EndCommitted(space);
  for (PageNumber page = FirstCommitted(space); page < end; ++page) f(page, g_space.info[page]);
}
template <class F>
void ForEachPage(const F& f) {
  ForEachPage(Space::kScanned, f);
  ForEachPage(Space::kPointerFree, f);
}

// Pushes `page` to the front of a list of pages linked by PageMeta::next. Lock-free, any thread.
inline void PushAtomic(platform::Atomic<PageNumber>& head, PageNumber page) {
  PageNumber first = head.Load(platform::memory_order_relaxed);  // the exchange decides
  do {
    g_space.meta[page].next = first;
    // Release: a consumer that loads the head with acquire sees `next` and the page's mark bytes.
  } while (!head.CompareExchange(first, page, platform::memory_order_release));
}

void AddressSpaceResetLockAfterFork();

}  // namespace gleaner::alloc
