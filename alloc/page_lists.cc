// A thread heap's lists of pages: partial pages by kind and size class, linked both ways so that a
// page can be taken out of the middle, and free pages by space.
#include "alloc/mark_bytes.h"
#include "alloc/page_space.h"
#include "alloc/thread_heap.h"
#include "alloc/thread_heaps.h"

namespace gleaner::alloc {

using platform::memory_order_acq_rel;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

namespace {
platform::Atomic<PageNumber>& ListOf(platform::Atomic<PageNumber> (&lists)[kMaxKinds][kClassCount],
                                     PageNumber page) {
  const PageInfo& info = g_space.info[page];
  return lists[static_cast<size_t>(info.kind)][info.size_class];
}
}  // namespace

// Several workers push, and nobody takes a page out. The next push writes `previous` of this page
// as soon as the head shows it. So this one sets it before the exchange, which orders the two
// (acq_rel). `next` is this push's alone. The end of the sweep publishes the list.
void ThreadHeap::PushPartialWorldStopped(PageNumber page) {
  g_space.meta[page].previous = kNoPage;
  const PageNumber next = ListOf(partial_, page).Exchange(page, memory_order_acq_rel);
  platform::MaybeDelay();
  g_space.meta[page].next = next;
  if (next != kNoPage) g_space.meta[next].previous = page;
}

// Relaxed, here and below: the heads are written under lock_.
void ThreadHeap::PushPartialLocked(PageNumber page) {
  platform::Atomic<PageNumber>& head = ListOf(partial_, page);
  const PageNumber next = head.Load(memory_order_relaxed);
  g_space.meta[page].next = next;
  g_space.meta[page].previous = kNoPage;
  if (next != kNoPage) g_space.meta[next].previous = page;
  head.Store(page, memory_order_relaxed);
}

void ThreadHeap::UnlinkPartialLocked(PageNumber page) {
  const PageMeta& meta = g_space.meta[page];
  if (meta.next != kNoPage) g_space.meta[meta.next].previous = meta.previous;
  if (meta.previous != kNoPage) {
    g_space.meta[meta.previous].next = meta.next;
  } else {
    ListOf(partial_, page).Store(meta.next, memory_order_relaxed);
  }
}

PageNumber ThreadHeap::PopPartial(Kind kind, size_t size_class, const ThreadHeap& taker) {
  const auto& head = partial_[static_cast<size_t>(kind)][size_class];
  if (head.Load(memory_order_relaxed) == kNoPage) return kNoPage;  // a hint
  platform::LockGuard guard(lock_);
  return PopPartialLocked(kind, size_class, taker);
}

PageNumber ThreadHeap::PopPartialLocked(Kind kind, size_t size_class, const ThreadHeap& taker) {
  const PageNumber page =
      partial_[static_cast<size_t>(kind)][size_class].Load(memory_order_relaxed);
  if (page == kNoPage) return kNoPage;
  UnlinkPartialLocked(page);
  PageMeta& meta = g_space.meta[page];
  meta.owner.Store(taker.index, memory_order_relaxed);  // under the old owner's lock
  (void)meta.Change(Listing::kPartial, Listing::kCurrent, 0);
  return page;
}

bool ThreadHeap::Settle(PageNumber page, uint32_t share) {
  bool goes_home;
  {
    platform::LockGuard guard(lock_);
    // Before the owner is looked at: a page that another heap has given up shows that heap as its
    // owner. While it is ours, and not current, its listing changes under lock_ only.
    // Acquire: Note [standing].
    const Standing now(g_space.meta[page].standing_word.Load(memory_order_acquire));
    // Relaxed: ordered by the standing.
    if (g_space.meta[page].owner.Load(memory_order_relaxed) != index) return false;
    goes_home = SettleLocked(page, now, share);
  }
  if (goes_home) ThreadHeaps::HomeOfFree(page).PushFree(page);
  return true;
}

void ThreadHeap::EndSweep(PageNumber page, uint32_t cleared, uint32_t share) {
  PageMeta& meta = g_space.meta[page];
  bool goes_home;
  {
    // Who gives a slot back counts it before or after `cleared`. If before, it is seen here; if
    // after, its thread comes to Settle, and finds the page swept.
    platform::LockGuard guard(lock_);
    meta.swept.Store(g_sweep_number, memory_order_release);  // pairs with IsSwept
    const Standing now = meta.Change(meta.listing(), Listing::kUnlisted, static_cast<int>(cleared));
    goes_home = SettleLocked(page, now, share);
  }
  if (goes_home) ThreadHeaps::HomeOfFree(page).PushFree(page);
}

bool ThreadHeap::SettleLocked(PageNumber page, Standing now, uint32_t share) {
  PageMeta& meta = g_space.meta[page];
  const bool is_partial = now.listing() == Listing::kPartial;
  if (!is_partial && now.listing() != Listing::kUnlisted) return false;  // another thread was here
  if (!IsSwept(meta)) return false;                                      // its sweeper comes here
  const uint32_t slots = g_space.info[page].slot_count;
  // `free` may be too large [inv.free-slots], so the bytes decide.
  if (now.free() < slots || MarksConcurrently() ||
      FindLastOccupied(g_space.MarksOf(page), slots) != 0) {
    if (is_partial || !IsWorthListing(now.free(), slots, share)) return false;
    (void)meta.Change(Listing::kUnlisted, Listing::kPartial, 0);
    PushPartialLocked(page);
    return false;
  }
  if (is_partial) UnlinkPartialLocked(page);
  meta.SetStanding({Listing::kFree, 0});  // all that count slots of the page have done so
  if (&ThreadHeaps::HomeOfFree(page) != this) return true;
  PushFreeLocked(page);
  return false;
}

void ThreadHeap::PushFree(PageNumber page) {
  platform::LockGuard guard(lock_);
  PushFreeLocked(page);
}

void ThreadHeap::PushFreeLocked(PageNumber page) {
  const Space space = SpaceOfPage(page);
  const auto s = static_cast<size_t>(space);
  g_space.info[page].SetState(PageState::kTaken);
  g_space.info[page].StoreWord(0);
  g_space.meta[page].SetStanding({Listing::kFree, 0});  // no other thread knows the page
  g_space.meta[page].next = free_head_[s];
  free_head_[s] = page;
  free_count_[s].Set(free_pages(space) + 1);
}

PageNumber ThreadHeap::PopFree(Space space) {
  ThreadHeap& heap = ThreadHeaps::policy() == Policy::kPageShared ? ThreadHeaps::at(0) : *this;
  if (heap.free_pages(space) == 0) return kNoPage;
  const auto s = static_cast<size_t>(space);
  platform::LockGuard guard(heap.lock_);
  const PageNumber page = heap.free_head_[s];
  if (page == kNoPage) return kNoPage;
  const PageNumber next = g_space.meta[page].next;
  heap.free_head_[s] = next;
  if (next != kNoPage) {
    // The thread takes this page soon. Its descriptors were last used a cycle ago and are out of
    // the cache.
    __builtin_prefetch(&g_space.meta[next]);
    __builtin_prefetch(&g_space.info[next], 1);
    __builtin_prefetch(g_space.MarksOf(next), 1);
  }
  heap.free_count_[s].Set(heap.free_pages(space) - 1);
  return page;
}

void ThreadHeap::FlushFreePages(Space space) {
  const auto s = static_cast<size_t>(space);
  platform::LockGuard guard(lock_);
  while (free_head_[s] != kNoPage) {
    const PageNumber page = free_head_[s];
    free_head_[s] = g_space.meta[page].next;
    PageSpaceOf(space).Free(page);
  }
  free_count_[s].Set(0);
}

size_t ThreadHeap::CheckListsForTesting() const {
  size_t partial = 0;
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      PageNumber previous = kNoPage;
      // Relaxed, here and below: no thread changes it.
      for (PageNumber page = partial_[kind][c].Load(memory_order_relaxed); page != kNoPage;
           previous = page, page = g_space.meta[page].next) {
        const PageInfo& info = g_space.info[page];
        const PageMeta& meta = g_space.meta[page];
        const Listing listing = meta.listing();
        const int owner = meta.owner.Load(memory_order_relaxed);
        GLEANER_CHECK(info.state == PageState::kSmall && listing == Listing::kPartial &&
                          IsSwept(meta) && meta.previous == previous && owner == index &&
                          info.kind == static_cast<Kind>(kind) && info.size_class == c,
                      "[inv.listed-once] page %u (state %d, listing %d, of heap %d) is on a list "
                      "of partial pages of heap %d",
                      page, static_cast<int>(info.state), static_cast<int>(listing), owner, index);
        // The checks above allow a page on this list only. If the page is on the list twice, the
        // list has no end.
        GLEANER_CHECK(++partial <= g_space.page_count(),
                      "[inv.listed-once] page %u is on a list twice", page);
      }
    }
  }
  for (const Space space : {Space::kScanned, Space::kPointerFree}) {
    size_t free = 0;
    for (PageNumber page = free_head_[static_cast<size_t>(space)]; page != kNoPage;
         page = g_space.meta[page].next) {
      GLEANER_CHECK(g_space.info[page].state == PageState::kTaken &&
                        g_space.meta[page].listing() == Listing::kFree &&
                        ++free <= free_pages(space),
                    "[inv.listed-once] page %u is on a list of free pages of heap %d", page, index);
    }
    GLEANER_CHECK(free == free_pages(space), "heap %d has %zu free pages and counts %u", index,
                  free, free_pages(space));
  }
  return partial;
}

}  // namespace gleaner::alloc
