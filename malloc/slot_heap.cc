#include "malloc/slot_heap.h"

#include <new>

#include "alloc/mark_bytes.h"
#include "alloc/metadata/meta.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"

namespace gleaner::malloc_proxy {
namespace {

using alloc::g_space;
using alloc::kNoPage;
using alloc::PageInfo;
using alloc::PageState;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

constexpr size_t kMaxHeaps = 65535;

struct Shared {
  platform::Lock create{platform::LockRank::kThreads};  // for creation and adoption of heaps
  alloc::ReservedArray<SlotHeap*> heaps;                // entries are constant once counted
  platform::Atomic<size_t> count{0};                    // written under create
  // Guarded by create: heaps that no thread owns; a list of heaps through SlotHeap::next_kept_, and
  // the sum of their kept_pages_.
  size_t abandoned = 0;
  SlotHeap* kept = nullptr;
  size_t kept_pages = 0;

  platform::Lock commit{platform::LockRank::kCommit};
  alloc::ReservedArray<SlotPage> pages;       // grows under commit
  platform::Atomic<PageNumber> pages_end{0};  // written under commit: entries below are usable
};
constinit Shared g_shared;

SlotPage& MetaOf(PageNumber page) { return g_shared.pages[page]; }
// pre: index < count(). A thread that reads an owner's index has a slot of that heap's page, and
// the hand-over of the slot is ordered after the heap's creation.
SlotHeap& HeapAt(size_t index) { return *g_shared.heaps[index]; }

uint32_t FreeOf(const SlotPage& meta) { return meta.free.Get(); }
void SetFree(SlotPage& meta, uint32_t free) { meta.free.Set(static_cast<uint16_t>(free)); }

// A page with less than an eighth free is not worth a search.
bool IsWorthListing(uint32_t free, uint32_t slots) { return free * 8 >= slots; }

bool EnsureMeta(PageNumber page) {
  // Acquire: pairs with the store below.
  if (GLEANER_LIKELY(page < g_shared.pages_end.Load(memory_order_acquire))) return true;
  platform::LockGuard guard(g_shared.commit);
  if (!g_shared.pages.EnsureCommitted(page + size_t{1})) return false;
  // Release: a thread that sees the new end may use the entries.
  g_shared.pages_end.Store(static_cast<PageNumber>(g_shared.pages.committed()),
                           memory_order_release);
  return true;
}

}  // namespace

// --- One heap ---

SlotHeap::SlotHeap(alloc::ThreadHeap* pages) : pages_(pages) {
  for (ClassPages& c : classes_) c = {kNoPage, 0, kNoPage};
}

size_t SlotHeap::Take(size_t size_class, void** out, size_t want) {
  platform::LockGuard guard(lock_);
  ClassPages& pages = classes_[size_class];
  size_t got = 0;
  while (got < want) {
    if (pages.current == kNoPage) {
      // Enough, unless there is a partial page.
      if (got != 0 && pages.partial == kNoPage) break;
      if (!NextPage(size_class)) break;
    }
    got += TakeFromCurrent(pages, size_class, out + got, want - got);
    if (pages.search == 0) StopUsing(pages);
  }
  return got;
}

size_t SlotHeap::TakeFromCurrent(ClassPages& pages, size_t size_class, void** out, size_t want) {
  uint8_t* marks = g_space.MarksOf(pages.current);
  const size_t slot_bytes = alloc::kSlotBytes[size_class];
  const Addr page = g_space.AddressOfPage(pages.current);
  size_t got = 0;
  while (got < want) {
    const uint32_t end = alloc::FindLastFree(marks, pages.search);
    if (end == 0) {
      pages.search = 0;
      break;
    }
    uint32_t begin = alloc::FindLastOccupied(marks, end - 1);
    if (end - begin > want - got) begin = end - static_cast<uint32_t>(want - got);
    memset(marks + begin, kSlotOut, end - begin);
    for (uint32_t slot = end; slot-- != begin;) {
      out[got++] = PointerAt<void>(page + slot * slot_bytes);
    }
    pages.search = begin;
  }
  SlotPage& meta = MetaOf(pages.current);
  SetFree(meta, FreeOf(meta) - static_cast<uint32_t>(got));
  return got;
}

void SlotHeap::StopUsing(ClassPages& pages) {
  const PageNumber page = pages.current;
  pages.current = kNoPage;
  Settle(page);
}

void SlotHeap::Settle(PageNumber page) {
  SlotPage& meta = MetaOf(page);
  const uint32_t slots = g_space.info[page].slot_count;
  if (kVerifyBuild) {
    const auto* marks = g_space.MarksOf(page);
    uint32_t free = 0;
    for (uint32_t slot = 0; slot < slots; ++slot) free += marks[slot] == alloc::kFreeSlot ? 1 : 0;
    GLEANER_CHECK(free == FreeOf(meta), "[inv.slot-free] page %u counts %u free slots and has %u",
                  page, FreeOf(meta), free);
  }
  meta.place = Place::kFull;
  if (FreeOf(meta) == slots) {
    g_space.info[page].magazine = DistanceOf(kLargeClass);
    if (pages_->free_pages(kSpace) < kMaxFreePages) {
      pages_->PushFree(page);
    } else {
      g_space.info[page].state = PageState::kTaken;
      alloc::PageSpaceOf(kSpace).Free(page);
    }
  } else if (IsWorthListing(FreeOf(meta), slots)) {
    Link(page);
  }
}

void SlotHeap::Link(PageNumber page) {
  PageNumber& head = classes_[g_space.info[page].size_class].partial;
  SlotPage& meta = MetaOf(page);
  meta.place = Place::kPartial;
  meta.previous = kNoPage;
  meta.next = head;
  if (head != kNoPage) MetaOf(head).previous = page;
  head = page;
}

void SlotHeap::Unlink(PageNumber page) {
  const SlotPage& meta = MetaOf(page);
  if (meta.previous != kNoPage) {
    MetaOf(meta.previous).next = meta.next;
  } else {
    classes_[g_space.info[page].size_class].partial = meta.next;
  }
  if (meta.next != kNoPage) MetaOf(meta.next).previous = meta.previous;
}

bool SlotHeap::NextPage(size_t size_class) {
  ClassPages& pages = classes_[size_class];
  PageNumber page = pages.partial;
  if (page != kNoPage) {
    Unlink(page);
  } else {
    page = pages_->free_pages(kSpace) == 0 ? SlotHeaps::StealPartial(size_class, this) : kNoPage;
    if (page == kNoPage) {
      page = pages_->TakeFree(kSpace);
      if (page == kNoPage) return false;
      if (!EnsureMeta(page)) {
        pages_->PushFree(page);
        return false;
      }
      Format(page, size_class);
    }
  }
  MetaOf(page).place = Place::kCurrent;
  pages.current = page;
  pages.search = g_space.info[page].slot_count;
  return true;
}

void SlotHeap::Format(PageNumber page, size_t size_class) {
  PageInfo& info = g_space.info[page];
  const size_t slot_bytes = alloc::kSlotBytes[size_class];
  info.reciprocal = alloc::ReciprocalOf(slot_bytes);
  info.slot_bytes = static_cast<uint16_t>(slot_bytes);
  info.slot_count = static_cast<uint16_t>(alloc::kPageBytes / slot_bytes);
  info.kind = alloc::Kind::kNormal;
  info.size_class = static_cast<uint8_t>(size_class);
  SlotPage& meta = MetaOf(page);
  meta.owner.Store(pages_->index, memory_order_relaxed);  // no thread has a slot of the page yet
  SetFree(meta, info.slot_count);
  info.magazine = DistanceOf(size_class);
  info.state = PageState::kSmall;
}

// Frees slots of the page of slots[0], up to the first slot that is of another page or wrong.
// Returns their number.
size_t SlotHeap::GiveBackSome(void** slots, size_t count, size_t size_class, bool by_owner,
                              BlockError* error) {
  const PageNumber page = g_space.PageOf(AddressOf(slots[0]));
  const PageInfo& info = g_space.info[page];
  if (GLEANER_UNLIKELY(info.state != PageState::kSmall || info.size_class != size_class)) {
    *error = BlockError::kNoBlock;
    return 0;
  }
  const Addr base = g_space.AddressOfPage(page);
  const size_t slot_bytes = alloc::kSlotBytes[size_class];
  const uint32_t reciprocal = info.reciprocal;
  const uint32_t slot_count = info.slot_count;
  uint8_t* marks = g_space.MarksOf(page);
  size_t done = 0;
  for (; done < count; ++done) {
    const size_t offset = AddressOf(slots[done]) - base;
    if (offset >= alloc::kPageBytes) break;
    const uint32_t slot = alloc::SlotIndex(offset, reciprocal);
    if (GLEANER_UNLIKELY(slot >= slot_count || slot * slot_bytes != offset)) {
      *error = BlockError::kNoBlock;
      break;
    }
    if (GLEANER_UNLIKELY(marks[slot] == alloc::kFreeSlot)) {
      *error = BlockError::kNotOut;
      break;
    }
    marks[slot] = alloc::kFreeSlot;
  }
  SlotPage& meta = MetaOf(page);
  const uint32_t free = FreeOf(meta) + static_cast<uint32_t>(done);
  SetFree(meta, free);
  switch (meta.place) {
    case Place::kFull:
      if (IsWorthListing(free, slot_count)) Settle(page);
      break;
    case Place::kPartial:
      if (free != slot_count) break;
      Unlink(page);
      Settle(page);
      break;
    case Place::kCurrent:
      // The owner goes on using an empty page. If another thread has emptied it, the owner may be
      // asleep, so the page is given up.
      if (free == slot_count && !by_owner && classes_[size_class].current == page) {
        StopUsing(classes_[size_class]);
      }
      break;
  }
  return done;
}

// --- All heaps ---

bool SlotHeaps::Init() {
  return g_shared.heaps.Reserve(kMaxHeaps) && g_shared.pages.Reserve(g_space.page_count()) &&
         Create(&alloc::ThreadHeaps::at(0)) != nullptr;
}

// pre: `create` is held, or there are no other threads. Heaps are created in order of index.
SlotHeap* SlotHeaps::Create(alloc::ThreadHeap* pages) {
  GLEANER_DCHECK(pages->index == count(), "slot heap %u after %zu", pages->index, count());
  if (!g_shared.heaps.EnsureCommitted(pages->index + size_t{1})) return nullptr;
  void* memory = alloc::MetaAllocate(sizeof(SlotHeap));
  if (memory == nullptr) return nullptr;
  auto* heap = new (memory) SlotHeap(pages);
  g_shared.heaps[pages->index] = heap;
  g_shared.count.Store(pages->index + size_t{1}, memory_order_release);  // pairs with count()
  return heap;
}

SlotHeap* SlotHeaps::Acquire() {
  platform::LockGuard guard(g_shared.create);
  alloc::ThreadHeap* pages = alloc::ThreadHeaps::Acquire();
  if (pages == nullptr) return nullptr;
  if (pages->index >= count()) {
    SlotHeap* heap = Create(pages);
    if (heap == nullptr) alloc::ThreadHeaps::Abandon(pages);
    return heap;
  }
  SlotHeap& heap = HeapAt(pages->index);
  platform::LockGuard heap_guard(heap.lock_);
  if (heap.abandoned_.Get()) --g_shared.abandoned;
  heap.abandoned_.Set(false);
  return &heap;
}

void SlotHeaps::AbandonLocked(SlotHeap* heap) {
  for (auto& pages : heap->classes_) {
    if (pages.current != kNoPage) heap->StopUsing(pages);
  }
  heap->abandoned_.Set(true);
}

void SlotHeaps::Abandon(SlotHeap* heap) {
  platform::LockGuard guard(g_shared.create);
  {
    platform::LockGuard heap_guard(heap->lock_);
    AbandonLocked(heap);
  }
  alloc::ThreadHeaps::Abandon(heap->pages_);
  ++g_shared.abandoned;
  KeepFreePages(heap);
}

// The free pages of a heap that is abandoned wait for the next thread, but those of all such heaps
// together are no more than kMaxFreePages for each thread there is: what exceeds that returns to
// the page space, so that nothing of it stays when all threads but one have ended. A heap that has
// been adopted stays in the list with the pages that it had, until it is abandoned again or its
// turn comes; so the list is a bound, and each call costs O(1) heaps on average. `create` is held:
// it guards the list, and no heap is adopted or abandoned meanwhile.
void SlotHeaps::KeepFreePages(SlotHeap* heap) {
  const PageNumber pages = heap->pages_->free_pages(kSpace);
  g_shared.kept_pages += pages;
  g_shared.kept_pages -= heap->kept_pages_;
  heap->kept_pages_ = pages;
  if (!heap->is_kept_) {
    heap->is_kept_ = true;
    heap->next_kept_ = g_shared.kept;
    g_shared.kept = heap;
  }
  const size_t threads = count() - 1 - g_shared.abandoned;
  while (g_shared.kept_pages > threads * kMaxFreePages) {
    SlotHeap* last = g_shared.kept;
    g_shared.kept = last->next_kept_;
    g_shared.kept_pages -= last->kept_pages_;
    last->kept_pages_ = 0;
    last->is_kept_ = false;
    // It changes under create.
    if (last->abandoned_.Get()) last->pages_->FlushFreePages(kSpace);
  }
}

SlotHeap& SlotHeaps::shared() { return HeapAt(0); }
// Acquire: pairs with the release in Create, which publishes the heap.
size_t SlotHeaps::count() { return g_shared.count.Load(memory_order_acquire); }

bool SlotHeaps::IsSlot(const void* p) {
  const PageInfo& info = g_space.info[g_space.PageOf(AddressOf(p))];
  if (info.state != PageState::kSmall) return false;
  const size_t offset = alloc::AddressSpace::OffsetInPage(AddressOf(p));
  const uint32_t slot = alloc::SlotIndex(offset, info.reciprocal);
  return slot < info.slot_count && size_t{slot} * info.slot_bytes == offset;
}

BlockError SlotHeaps::GiveBack(size_t size_class, void** slots, size_t count, const SlotHeap* self,
                               void** wrong) {
  while (count != 0) {
    // Relaxed: the owner is compared again under its lock. The page has an owner, since the caller
    // has a slot of it.
    const auto owner_of = [](void* p) {
      return MetaOf(g_space.PageOf(AddressOf(p))).owner.Load(memory_order_relaxed);
    };
    const uint16_t owner = owner_of(slots[0]);
    SlotHeap& heap = HeapAt(owner);
    size_t kept = 0;  // slots of other heaps move to the front, for the next round
    platform::LockGuard guard(heap.lock_);
    for (size_t i = 0; i < count;) {
      if (owner_of(slots[i]) != owner) {
        slots[kept++] = slots[i++];
        continue;
      }
      BlockError error = BlockError::kNone;
      i += heap.GiveBackSome(slots + i, count - i, size_class, &heap == self, &error);
      if (GLEANER_UNLIKELY(error != BlockError::kNone)) {
        *wrong = slots[i];
        return error;
      }
    }
    count = kept;
  }
  return BlockError::kNone;
}

// Takes a partial page of an abandoned heap for `thief`, whose lock is held. The second lock has
// the same rank, so it is only tried.
PageNumber SlotHeaps::StealPartial(size_t size_class, const SlotHeap* thief) {
  for (size_t i = 1; i < count(); ++i) {
    SlotHeap& heap = HeapAt(i);
    if (&heap == thief || !heap.abandoned_.Get()) continue;
    if (!heap.lock_.TryAcquire()) continue;
    const PageNumber page = heap.classes_[size_class].partial;
    const bool found = heap.abandoned_.Get() && page != kNoPage;
    if (found) {
      heap.Unlink(page);
      MetaOf(page).place = Place::kCurrent;
      // Relaxed: written under the old owner's lock. A thread that reads the new owner waits for
      // its lock, which the thief holds.
      MetaOf(page).owner.Store(thief->pages_->index, memory_order_relaxed);
    }
    heap.lock_.Release();
    if (found) return page;
  }
  return kNoPage;
}

SlotHeaps::Figures SlotHeaps::Count() {
  Figures figures;
  for (size_t i = 0; i < alloc::ThreadHeaps::count(); ++i) {
    figures.free_pages += alloc::ThreadHeaps::at(i).free_pages(kSpace);
  }
  PageNumber end = g_shared.pages_end.Load(memory_order_acquire);  // with the release in EnsureMeta
  if (end > alloc::EndCommitted(kSpace)) end = alloc::EndCommitted(kSpace);
  for (PageNumber page = 0; page < end; ++page) {
    const PageInfo& info = g_space.info[page];
    if (info.state != PageState::kSmall) continue;
    const uint32_t free = FreeOf(MetaOf(page));
    ++figures.small_pages;
    figures.free_slots += free;
    figures.free_slot_bytes += size_t{free} * info.slot_bytes;
  }
  return figures;
}

void SlotHeaps::LockForFork() {
  g_shared.create.Acquire();
  alloc::ThreadHeaps::LockForFork();
  for (size_t i = 0; i < count(); ++i) HeapAt(i).lock_.AcquireAmongEquals();
  alloc::ThreadHeaps::LockListsForFork();
}

void SlotHeaps::UnlockAfterFork() {
  alloc::ThreadHeaps::UnlockListsAfterFork();
  for (size_t i = 0; i < count(); ++i) HeapAt(i).lock_.Release();
  alloc::ThreadHeaps::UnlockAfterFork();
  g_shared.create.Release();
}

void SlotHeaps::AbandonOthers(const SlotHeap* survivor) {
  for (size_t i = 1; i < count(); ++i) {
    SlotHeap& heap = HeapAt(i);
    if (&heap != survivor && !heap.abandoned_.Get()) Abandon(&heap);
  }
}

}  // namespace gleaner::malloc_proxy
