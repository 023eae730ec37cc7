// Spans of pages: one tree-fit space (SWAlloc's best fit, over pages instead of bytes) for each of
// the two spaces of the reservation.
//
// Invariants:
//   [inv.page-count]  taken + waiting + free pages of a space = committed pages of that space
//   resident pages    = pages with PageInfo::resident, in both spaces
#pragma once

#include "alloc/address_space.h"
#include "alloc/fits/tree_fit.h"
#include "alloc/residency.h"
#include "platform/os/lock.h"

namespace gleaner::alloc {

struct Attempts;

class PageSpace {
 public:
  // `fit` is a separate object because it is large and starts as zeroes: separate, it costs no
  // initialised data, whose pages the system copies when they are written.
  constexpr PageSpace(Space space, TreeFit* fit)
      : space_(space),
        lock_(space == Space::kScanned ? platform::LockRank::kScannedSpace
                                       : platform::LockRank::kPointerFreeSpace),
        fit_(*fit) {}

  [[nodiscard]] bool Init(FitPolicy policy);
  // For a heap without a collector, before the first span is handed out; the scanned space only.
  // The space then leaves the pages' descriptors alone, so a span of any length costs O(log n): the
  // user keeps the states, and `needs_zeroing` and `resident` mean nothing. Residency tracks which
  // memory is resident and which is zero in pieces of 2 MiB. A budget of free memory stays
  // resident; the rest goes back to the system in steps, as spans are freed or DecaySurplus is
  // called. The heap limit counts pages handed out.
  // False if there is no memory for the tables.
  [[nodiscard]] bool InitResidency(size_t budget_bytes, uint64_t decay_ns);

  // Commits pages until the space has `bytes`, so that the heap need not grow so far step by step.
  // No page becomes resident. No effect if the system or the reservation has no room. Thread-safe.
  void CommitAhead(size_t bytes);

  // Hands out `count` contiguous pages in state kTaken; kNoPage if the space or the heap limit has
  // no room. `*untouched` says whether none of the pages was resident. Thread-safe, O(log n) plus
  // O(count) for the descriptors.
  PageNumber Allocate(PageNumber count, bool* untouched = nullptr);
  // Gives a whole span back. Its contents stay resident, or are dropped. Thread-safe.
  enum class Contents : uint8_t { kStay, kDropped };
  void Free(PageNumber first, Contents contents = Contents::kStay);
  // Grows or shrinks a span in place; false if the neighbour is not free or a limit is in the way.
  // Spans of the pointer-free space cannot be resized. Thread-safe.
  bool Resize(PageNumber first, PageNumber count);
  // The length and the first page of the span of a page whose PageMeta::block is valid.
  // Thread-safe.
  PageNumber SpanPages(PageNumber page);
  PageNumber SpanFirst(PageNumber page);

  // Drops the contents of free spans of at least `min_pages`, until `enough_pages` resident pages
  // are dropped. Returns the bytes dropped. Thread-safe.
  static constexpr PageNumber kDiscardPages = (2 * kMiB) >> kPageShift;
  size_t DiscardFree(PageNumber min_pages = kDiscardPages, size_t enough_pages = SIZE_MAX);
  // With InitResidency: spans named by their blocks, for users that keep the block instead of
  // PageMeta::block. Outside of `unknown` the span reads as zero. Thread-safe.
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
  // Makes the step of the decay if one is due. Returns whether it has. Any thread; takes no lock
  // unless a step is due.
  bool DecaySurplus();

  // With InitResidency: discards all free memory. Returns the bytes of whole pieces of 2 MiB; free
  // memory in pieces that spans in use share is not counted. Looks at all free spans and at the
  // whole reservation.
  size_t Trim();
  // With InitResidency: bytes of whole free pieces of 2 MiB that may be resident. A snapshot.
  size_t IdleBytes();

  // Pages that are resident but not handed out. A snapshot.
  PageNumber resident_free() const {
    const PageNumber resident = resident_.Load(platform::memory_order_relaxed);  // a snapshot
    return resident > taken() ? resident - taken() : 0;
  }
  // Pages handed out: after a collection, the pages in use and those on free lists [inv.page-sum].
  // A snapshot, for pacing and statistics (relaxed).
  PageNumber taken() const { return taken_.Load(platform::memory_order_relaxed); }

  void LockForFork() { lock_.Acquire(); }
  void UnlockAfterFork() { lock_.Release(); }
  void CheckForTesting();

 private:
  PageNumber PageOfUnits(uint64_t start, uint64_t count) const;
  PageNumber FirstPage(BlockId block) const;
  // As Allocate; on failure `*over_limit` becomes true if the heap limit was the cause.
  PageNumber TryAllocate(PageNumber count, bool* over_limit, bool* untouched);
  // Takes a block of the tree-fit space, which grows if necessary; kNone if it cannot.
  BlockId TakeBlock(PageNumber count);
  // Takes the top waiting block if it has exactly `count` pages. Else frees all waiting blocks and
  // returns kNone.
  BlockId TakeWaiting(PageNumber count);
  // Frees the waiting blocks, which joins them with their neighbours.
  void FreeWaiting();
  bool Grow(PageNumber count);
  void SetState(PageNumber first, PageNumber count, PageState state);
  // The number of the span's pages that are not resident.
  static PageNumber FreshPages(PageNumber first, PageNumber count);
  static bool FitsLimit(PageNumber fresh);
  static bool MayGrow(PageNumber fresh);
  void AddResident(ptrdiff_t pages);
  // Updates next_step_ns_ after idle memory has changed. Under lock_.
  void PublishSurplus();
  void Take(PageNumber first, PageNumber count, PageNumber fresh);
  // Drops the contents of free pages, and their mark bytes. Under lock_.
  void Drop(PageNumber first, PageNumber count);
  // If the pages, which become free, have a placement of their own: drops their contents, which lie
  // where that has put them, and gives them the heap's placement again. Whether they had. Under
  // lock_.
  bool ForgetPlacement(PageNumber first, PageNumber count);
  void AddTaken(PageNumber count) {
    // Relaxed: written under lock_, read as a snapshot.
    taken_.Store(taken() + count, platform::memory_order_relaxed);
  }

  const Space space_;
  platform::Lock lock_;
  TreeFit& fit_;  // guarded by lock_
  // With InitResidency: a stack of the spans freed last, chained through kWaitingWord, for programs
  // that free and allocate spans of one size. The tree-fit space takes them for allocated;
  // everything else counts them as free. All are freed before a span of another size is looked for,
  // so they do not change what best fit finds. Guarded by lock_.
  static constexpr uint32_t kWaitingWord = 0;
  static constexpr uint32_t kMaxWaiting = 64;
  BlockId waiting_ = TreeFit::kNone;
  uint32_t waiting_count_ = 0;
  Residency residency_;  // guarded by lock_
  // A copy of Residency::next_step_ns for threads without the lock. Written under lock_.
  platform::Atomic<uint64_t> next_step_ns_{Residency::kNever};
  PageNumber committed_ = 0;                  // guarded by lock_
  platform::Atomic<PageNumber> resident_{0};  // written under lock_
  platform::Atomic<PageNumber> taken_{0};     // written under lock_
};

PageSpace& PageSpaceOf(Space space);
[[nodiscard]] bool InitPageSpaces(FitPolicy policy);

// Sets the heap limit: the heap may not have more resident bytes than this; 0 is no limit. Checked
// when pages that are not resident are handed out. Any thread.
void SetHeapLimit(size_t bytes);
size_t HeapLimit();

// Makes the heap ask the pacer before it grows beyond `resident_bytes`: a request that would pass
// this limit fails, and MakeRoom calls Hooks::grow. No limit at first.
void LimitGrowth(size_t resident_bytes);
size_t GrowthLimit();
// Asks the layer above for room, after a request of the calling thread for `bytes` has failed: by
// Hooks::grow if the growth limit made it fail, else by Hooks::exhausted. Whether the request
// should be tried again. Outside critical sections and without locks.
[[nodiscard]] bool MakeRoom(size_t bytes, Attempts* attempts);

// Bytes of resident pages, in use or free. A page counts from the time it is handed out.
size_t ResidentBytes();
const platform::Atomic<size_t>& ResidentPages();

// Pages handed out in both spaces.
inline size_t TakenPages() {
  return size_t{PageSpaceOf(Space::kScanned).taken()} + PageSpaceOf(Space::kPointerFree).taken();
}

}  // namespace gleaner::alloc
