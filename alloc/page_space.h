// Spans of pages: one tree-fit space (SWAlloc's best fit, over pages instead of bytes) for each of
// the two spaces of the reservation.
//
// Invariants:
//   [inv.page-count]  taken + waiting + free pages of a space = committed pages of that space
//   resident pages    = pages with PageInfo::resident, in both spaces
#pragma once

#include "alloc/address_space.h"
#include "alloc/fits/tree_fit.h"
#include "platform/os/lock.h"

namespace gleaner::alloc {

struct Attempts;
class SpanSpace;

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
  // Commits pages until the space has `bytes`, so that the heap need not grow so far step by step.
  // No page becomes resident. No effect if the system or the reservation has no room. Thread-safe.
  void CommitAhead(size_t bytes);

  // Hands out `count` contiguous pages in state kTaken; kNoPage if the space or the heap limit has
  // no room. `*untouched` says whether none of the pages was resident. Thread-safe, O(log n) plus
  // O(count) for the descriptors.
  PageNumber Allocate(PageCount count, bool* untouched = nullptr);
  // Gives a whole span back. Its contents stay resident, or are dropped. Thread-safe.
  enum class Freed : uint8_t { kStays, kIsDropped };
  void Free(PageNumber first, Freed contents = Freed::kStays);
  // Grows or shrinks a span in place; false if the neighbour is not free or a limit is in the way.
  // Spans of the pointer-free space cannot be resized. Thread-safe.
  bool Resize(PageNumber first, PageCount count);
  // The length and the first page of the span of a page whose PageMeta::block is valid.
  // Thread-safe.
  PageCount SpanPages(PageNumber page);
  PageNumber SpanFirst(PageNumber page);

  // Drops the contents of free spans of at least `min_pages`, until `enough_pages` resident pages
  // are dropped. Returns the bytes dropped. Thread-safe.
  static constexpr PageCount kDiscardPages = PageCount::For(2 * kMiB);
  size_t DiscardFree(PageCount min_pages = kDiscardPages, size_t enough_pages = SIZE_MAX);
  // Pages that are resident but not handed out. A snapshot.
  PageCount resident_free() const {
    const PageCount resident(resident_.Get());
    return resident > taken() ? resident - taken() : PageCount();
  }
  // Pages handed out: after a collection, the pages in use and those on free lists [inv.page-sum].
  // A snapshot, for pacing and statistics.
  PageCount taken() const { return PageCount(taken_.Get()); }

  void LockForFork() { lock_.Acquire(); }
  void UnlockAfterFork() { lock_.Release(); }
  void CheckForTesting();

 private:
  friend class SpanSpace;

  PageNumber PageOfUnits(uint64_t start, uint64_t count) const;
  PageNumber FirstPage(BlockId block) const;
  PageCount PagesOf(BlockId block) const { return PageCount(fit_.CountOf(block)); }
  // As Allocate; on failure `*over_limit` becomes true if the heap limit was the cause.
  PageNumber TryAllocate(PageCount count, bool* over_limit, bool* untouched);
  // Takes a block of the tree-fit space, which grows if necessary; kNone if it cannot.
  BlockId TakeBlock(PageCount count);
  bool Grow(PageCount count);
  void SetState(PageNumber first, PageCount count, PageState state);
  // How many of the pages are not resident.
  static PageCount FreshPages(PageNumber first, PageCount count);
  static bool FitsLimit(PageCount fresh);
  static bool MayGrow(PageCount fresh);
  void AddResident(PageCount pages);
  void SubtractResident(PageCount pages);
  void Take(PageNumber first, PageCount count, PageCount fresh);
  // Drops the contents of free pages, and their mark bytes. Under lock_.
  void Drop(PageNumber first, PageCount count);
  // If the pages, which become free, have a placement of their own: drops their contents, which lie
  // where that has put them, and gives them the heap's placement again. Whether they had. Under
  // lock_.
  bool ForgetPlacement(PageNumber first, PageCount count);
  void SetTaken(PageCount taken) { taken_.Set(taken.value()); }

  const Space space_;
  platform::Lock lock_;
  TreeFit& fit_;  // guarded by lock_
  // Who hands out the space's memory instead, in a heap without a collector. Written by the thread
  // that starts malloc (SpanSpace::Init), before another one allocates; constant from then on.
  SpanSpace* spans_ = nullptr;
  PageCount committed_;                   // guarded by lock_
  platform::Hint<uint32_t> resident_{0};  // written under lock_
  platform::Hint<uint32_t> taken_{0};     // written under lock_
};

PageSpace& PageSpaceOf(Space space);
[[nodiscard]] bool InitPageSpaces(FitPolicy policy);

// Sets the heap limit: the heap may not have more resident bytes than this; 0 is no limit. Checked
// when pages that are not resident are handed out. Any thread.
void SetHeapLimit(size_t bytes);
size_t HeapLimit();
// The limit in whole pages, SIZE_MAX if there is none.
size_t HeapLimitPages();

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
const platform::Count<size_t>& ResidentPages();

// Pages handed out in both spaces.
inline size_t TakenPages() {
  return size_t{PageSpaceOf(Space::kScanned).taken().value()} +
         PageSpaceOf(Space::kPointerFree).taken().value();
}

}  // namespace gleaner::alloc
