// Spans of pages: one best-fit space a space of the reservation (the tree-fit space of SWAlloc,
// over pages instead of bytes).
//
// Invariants:
//   [inv.page-count]  taken + waiting + free pages of a space = committed pages of that space
//   resident pages    = pages with PageInfo::resident, on both sides
#pragma once

#include "alloc/address_space.h"
#include "alloc/fits/tree_fit.h"
#include "alloc/residency.h"
#include "platform/lock.h"

namespace gleaner::alloc {

class PageSpace {
 public:
  // `fit` is an object of its own because it is zero at first, and large: so it costs no
  // initialised data, of which every page that is written would be copied.
  constexpr PageSpace(Space space, TreeFit* fit)
      : space_(space),
        lock_(space == Space::kScanned ? platform::LockRank::kScannedSpace
                                       : platform::LockRank::kPointerFreeSpace),
        fit_(*fit) {}

  [[nodiscard]] bool Init(FitPolicy policy);
  // For a heap without a collector, before the first span is handed out; the scanned space only.
  // The space leaves the pages' descriptors alone then, so that a span costs O(log n) of any
  // length: the states are its user's to keep, and `dirty` and `resident` mean nothing. What is
  // resident and what is zero is known by 2 MiB; a budget of free memory stays resident, and the
  // rest goes back to the system by and by (Residency), while spans are freed or DecaySurplus is
  // called. The heap limit counts pages handed out.
  // False without memory for the tables.
  [[nodiscard]] bool InitResidency(size_t budget_bytes, uint64_t decay_ns);

  // Hands out `count` contiguous pages in state kTaken; kNoPage if neither the space nor the heap
  // limit has room. Thread-safe, O(log n) plus O(count) for the descriptors.
  // `*untouched` says whether none of it is resident.
  PageNumber Allocate(PageNumber count, bool* untouched = nullptr);
  // Gives back a span as it was allocated. Its contents stay resident, or are dropped. Thread-safe.
  enum class Contents : uint8_t { kStay, kDropped };
  void Free(PageNumber first, Contents contents = Contents::kStay);
  // Grows or shrinks a span in place; false if the neighbour is not free.
  bool Resize(PageNumber first, PageNumber count);
  // Length and first page of the span that a page with a valid PageMeta::block belongs to.
  PageNumber SpanPages(PageNumber page);
  PageNumber SpanFirst(PageNumber page);

  // Drops the contents of free pages in pieces of at least `min_pages`, until there are
  // `enough_pages`. Returns the bytes dropped.
  static constexpr PageNumber kDiscardPages = (2 * kMiB) >> kPageShift;
  size_t DiscardFree(PageNumber min_pages = kDiscardPages, size_t enough_pages = SIZE_MAX);
  // With InitResidency: spans by their blocks, for users that keep those in place of
  // PageMeta::block. Outside of `unknown` the span reads as zero.
  struct Span {
    PageNumber first;  // kNoPage if there is none
    BlockId block;
    Residency::Range unknown;
  };
  Span AllocateSpan(PageNumber count);
  void FreeSpan(BlockId block);
  bool ResizeSpan(BlockId block, PageNumber count);
  PageNumber FirstOf(BlockId block);

  // With InitResidency: whether free memory waits to go back to the system. A hint.
  bool HasSurplus() const {
    // Relaxed: a hint.
    return next_step_ns_.Load(platform::memory_order_relaxed) != Residency::kNever;
  }
  // Makes the step of the decay if one is due; whether it has. Any thread, at little cost: no lock
  // is taken unless a step is due.
  bool DecaySurplus();

  // With InitResidency: discards all that is free. Returns the bytes of whole pieces of 2 MiB, not
  // counting what lay beside spans in use. Looks at all free spans and at the whole reservation.
  size_t Trim();
  // With InitResidency: free bytes in such pieces that may be resident. A snapshot.
  size_t IdleBytes();

  // Pages that are resident though nobody has them. A snapshot.
  PageNumber resident_free() const {
    const PageNumber resident = resident_.Load(platform::memory_order_relaxed);  // a snapshot
    return resident > taken() ? resident - taken() : 0;
  }
  // Pages handed out now: after a collection, those in use and those on free lists [inv.page-sum].
  // A snapshot, for pacing and statistics.
  PageNumber taken() const { return taken_.Load(platform::memory_order_relaxed); }

  void LockForFork() { lock_.Acquire(); }
  void UnlockAfterFork() { lock_.Release(); }
  void CheckForTesting();

 private:
  PageNumber PageOfUnits(uint64_t start, uint64_t count) const;
  PageNumber FirstPage(BlockId block) const;
  // Allocate, but `over_limit` says whether only the heap limit was in the way.
  PageNumber TryAllocate(PageNumber count, bool* over_limit, bool* untouched);
  // A block of the tree-fit space, which grows if it must; kNone if it cannot.
  BlockId TakeBlock(PageNumber count);
  // The block that waits on top if it has just `count` pages, else kNone, and none waits any more.
  BlockId TakeWaiting(PageNumber count);
  // Frees the blocks that wait, which joins them with their neighbours.
  void FreeWaiting();
  bool Grow(PageNumber count);
  void SetState(PageNumber first, PageNumber count, PageState state);
  // Pages of the span that would become resident.
  static PageNumber FreshPages(PageNumber first, PageNumber count);
  static bool FitsLimit(PageNumber fresh);
  static bool MayGrow(PageNumber fresh);
  void AddResident(ptrdiff_t pages);
  // Under lock_, after idle memory has changed.
  void PublishSurplus();
  void Take(PageNumber first, PageNumber count, PageNumber fresh);
  // Drops what free pages contain, and their mark bytes. Under lock_.
  void Drop(PageNumber first, PageNumber count);
  void AddTaken(PageNumber count) {
    // Relaxed: written under the lock; readers want a snapshot only.
    taken_.Store(taken() + count, platform::memory_order_relaxed);
  }

  const Space space_;
  platform::Lock lock_;
  TreeFit& fit_;  // guarded by lock_
  // With InitResidency, the spans that were freed last, for a program that frees and allocates
  // spans of one size: a stack, chained through kWaitingWord. To the tree-fit space they are
  // allocated, to everybody else free. All are freed before any other span is looked for, so that
  // best fit is what it is without them. Guarded by lock_.
  static constexpr uint32_t kWaitingWord = 0;
  static constexpr uint32_t kMaxWaiting = 64;
  BlockId waiting_ = TreeFit::kNone;
  uint32_t waiting_count_ = 0;
  Residency residency_;  // guarded by lock_
  // Residency::next_step_ns, for who has not the lock. Written under lock_.
  platform::Atomic<uint64_t> next_step_ns_{Residency::kNever};
  PageNumber committed_ = 0;                  // guarded by lock_
  platform::Atomic<PageNumber> resident_{0};  // written under lock_
  platform::Atomic<PageNumber> taken_{0};     // written under lock_
};

PageSpace& PageSpaceOf(Space space);
[[nodiscard]] bool InitPageSpaces(FitPolicy policy);

// The heap may not have more resident bytes than this; 0 is no limit. Checked when pages that are
// not resident are handed out.
void SetHeapLimit(size_t bytes);
size_t HeapLimit();

// The pacer's way to be asked before the heap grows beyond so many resident bytes: a request that
// would make it larger fails, and Hooks::grow is called. No limit at first.
void LimitGrowth(size_t resident_bytes);
size_t GrowthLimit();
// Whether that was why the calling thread's last request failed; asking forgets it. The limit
// itself cannot tell: another thread's collection may have moved it since.
bool TakeGrowthRefusal();

// Bytes of pages that are in use or resident though free. Pages count from when they are handed
// out.
size_t ResidentBytes();

// Pages handed out on both sides.
inline size_t TakenPages() {
  return size_t{PageSpaceOf(Space::kScanned).taken()} + PageSpaceOf(Space::kPointerFree).taken();
}

}  // namespace gleaner::alloc
