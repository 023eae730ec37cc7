#include "alloc/thread_heap.h"

#include <atomic>
#include <new>

#include "alloc/hooks.h"
#include "alloc/mark_bytes.h"
#include "alloc/meta.h"
#include "alloc/object.h"
#include "alloc/page_space.h"
#include "alloc/walk.h"
#include "platform/memory.h"
#include "platform/stalls.h"

namespace gleaner::alloc {
namespace {

using platform::memory_order_acq_rel;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

// Zeroing happens this far ahead of the bump pointer, so that the lines are in the first-level
// cache when the program writes them.
constexpr size_t kWindowBytes = 4 * kKiB;

// Pages taken from the page space at a time grow from 1 to this.
constexpr PageNumber kMaxBatch = 4;
// Whole batches are made resident at once from so many pages of a side on, of which the rest of a
// batch is a small part.
constexpr PageNumber kPopulateFrom = (4 * kMiB) >> kPageShift;

// While a sweep goes on, a thread that has not even a free page sweeps this often, at most, before
// it looks elsewhere: some 30 us in which it cannot be stopped.
constexpr int kMostSweeps = 16;

// A thief takes this many free pages at most.
constexpr PageNumber kStealBatch = 8;

// Free pages that do not fit are given back this share of the heap at a time, or as much as is
// asked for.
constexpr size_t kTradedAtOnce = 64;
// Holes between large objects are a waste from this share of the heap on.
constexpr size_t kHolesShare = 8;

constexpr size_t kMaxHeaps = 65535;  // PageMeta::owner has 16 bits

struct Shared {
  Policy policy = Policy::kLps;
  double k = 1;
  ReservedArray<ThreadHeap*> heaps;  // entries are constant once counted
  platform::Atomic<size_t> count{0};
  // Largest number of pages of each side seen in use (the thesis's max(l)).
  platform::Atomic<PageNumber> max_live[2] = {};
  platform::Lock create{platform::LockRank::kHeaps};  // serialises creation and adoption
};
constinit Shared g_shared;

// pre: the caller is the list's only consumer.
PageNumber PopAtomic(platform::Atomic<PageNumber>& head) {
  PageNumber first = head.Load(memory_order_acquire);  // pairs with PushAtomic
  while (first != kNoPage &&
         !head.CompareExchange(first, g_space.meta[first].next, memory_order_acquire)) {
  }
  return first;
}

Addr SlotAddress(PageNumber page, uint32_t slot, size_t slot_bytes) {
  return g_space.AddressOfPage(page) + slot * slot_bytes;
}

// The stores before it come before those after it, as the child of a fork sees them
// (GiveBackAfterFork). A fork cuts a thread's stores off at one of them, in the order in which the
// processor makes them, so the compiler alone has to be kept from reordering.
inline void StoresForForkInOrder() {
  platform::MaybeDelay();
  std::atomic_signal_fence(std::memory_order_seq_cst);  // see above
}

}  // namespace

constexpr ThreadHeap::ThreadHeap() : bumps{}, runs{}, free_head_{kNoPage, kNoPage} {
  for (size_t kind = 0; kind < kBuiltInKinds; ++kind) ResetRow(kind);
}

// The rows that are not ready stay untouched, and so do the pages they lie in.
ThreadHeap::ThreadHeap(uint16_t i) : index(i), free_head_{kNoPage, kNoPage} {
  for (size_t kind = 0; kind < kBuiltInKinds; ++kind) ResetRow(kind);
}

constexpr void ThreadHeap::ResetRow(size_t kind) {
  for (size_t c = 0; c < kClassCount; ++c) {
    bumps[kind][c] = {kNoRun, kNoRun, kSlotBytes[c]};
    runs[kind][c] = {kNoRun, kNoPage, 0, false};
  }
}

constinit ThreadHeap g_no_heap;
constinit __thread ThreadHeap* t_heap __attribute__((tls_model("initial-exec"))) = &g_no_heap;

// --- Allocation ---

void ThreadHeap::PrepareKinds(Kind last) {
  platform::CriticalSection section;  // the collector looks at the first kinds_ rows
  for (; kinds_ <= static_cast<size_t>(last); ++kinds_) {
    ResetRow(kinds_);
    for (auto& head : partial_[kinds_]) head.Store(kNoPage, memory_order_relaxed);  // not in use
  }
}

void ThreadHeap::Account(ptrdiff_t bytes) {
  unpolled_bytes += bytes;
  const ptrdiff_t poll = g_poll_bytes.Load(memory_order_relaxed);  // a late change is as good
  if (unpolled_bytes >= poll || unpolled_bytes <= -poll) {
    const ptrdiff_t report = unpolled_bytes;
    unpolled_bytes = 0;
    g_hooks.allocated(report);
  }
}

void* ThreadHeap::AllocateSlow(Kind kind, size_t size_class) {
  for (Attempts attempts;;) {
    attempts.Begin();
    void* p;
    {
      platform::CriticalSection section;
      p = TryAllocate(kind, size_class);
    }
    Account(0);
    if (GLEANER_LIKELY(p != nullptr)) return p;
    platform::StallScope stall(platform::StallCause::kAllocation);
    if (TakeGrowthRefusal()) {
      g_hooks.grow(kSlotBytes[size_class], attempts);
    } else if (!g_hooks.exhausted(kSlotBytes[size_class], &attempts)) {
      return nullptr;
    }
  }
}

// pre: inside a critical section, for all below.
void* ThreadHeap::TryAllocate(Kind kind, size_t size_class) {
  Bump& bump = bumps[static_cast<size_t>(kind)][size_class];
  Run& run = runs[static_cast<size_t>(kind)][size_class];
  for (;;) {
    if (bump.cur != run.begin) {
      if (bump.cur == bump.limit) OpenWindow(kind, bump, run);
      bump.cur -= bump.slot_bytes;
      return PointerAt<void>(bump.cur);
    }
    if (run.page != kNoPage) {
      if (TakeNextRun(bump, run)) continue;
      StopUsing(run);
    }
    bump.cur = bump.limit = run.begin = kNoRun;
    StoresForForkInOrder();
    run.page = NextPage(kind, size_class, run);
    if (run.page == kNoPage) return nullptr;
    run.next_slot = g_space.info[run.page].slot_count;
  }
}

void ThreadHeap::OpenWindow(Kind kind, Bump& bump, const Run& run) {
  if (run.known_zero || !IsZeroed(kind)) {
    bump.limit = run.begin;
    return;
  }
  const size_t slots = kWindowBytes / bump.slot_bytes;
  const size_t window = (slots == 0 ? 1 : slots) * bump.slot_bytes;
  const Addr limit = bump.limit - run.begin > window ? bump.limit - window : run.begin;
  memset(PointerAt<void>(limit), 0, bump.limit - limit);
  bump.limit = limit;
}

bool ThreadHeap::TakeNextRun(Bump& bump, Run& run) {
  uint8_t* marks = g_space.MarksOf(run.page);
  const uint32_t end = FindLastFree(marks, run.next_slot);
  if (end == 0) return false;
  const uint32_t begin = FindLastOccupied(marks, end - 1);
  bump.cur = bump.limit = SlotAddress(run.page, end, bump.slot_bytes);
  StoresForForkInOrder();
  run.begin = SlotAddress(run.page, begin, bump.slot_bytes);
  run.next_slot = begin;
  const uint8_t mark = NewMark();
  StoresForForkInOrder();  // the colour may change before the slots have it
  memset(marks + begin, mark, end - begin);
  const size_t bytes = bump.cur - run.begin;
  unpolled_bytes += static_cast<ptrdiff_t>(bytes);
  allocated_bytes += bytes;
  return true;
}

ThreadHeap::Unused ThreadHeap::UnusedOf(const Bump& bump, const Run& run) {
  if (run.page == kNoPage) return {nullptr, 0, 0};
  const Addr page = g_space.AddressOfPage(run.page);
  return {g_space.MarksOf(run.page), static_cast<uint32_t>((run.begin - page) / bump.slot_bytes),
          static_cast<uint32_t>((bump.cur - page) / bump.slot_bytes)};
}

// The page has no free slot left that the search would find.
void ThreadHeap::StopUsing(Run& run) {
  PageMeta& meta = g_space.meta[run.page];
  const PageNumber page = run.page;
  run.page = kNoPage;
  // Release: pairs with NoteFreed. The load may pass the store, so a slot that is freed at this
  // very moment may go unnoticed; the page is then found by the next free in it or by the next
  // sweep. A fence here would wait for the program's own stores, page after page (Note [listing] in
  // docs/memory_ordering.md).
  meta.listing.Store(Listing::kUnlisted, memory_order_release);
  if (meta.freed.Load(memory_order_relaxed) * 8u >= g_space.info[page].slot_count) {
    Listing unlisted = Listing::kUnlisted;
    // As in NoteFreed, against which it decides who lists the page.
    if (meta.listing.CompareExchange(unlisted, Listing::kPartial, memory_order_acq_rel)) {
      PushPartial(page);
    }
  }
}

void ThreadHeap::Format(PageNumber page, Kind kind, size_t size_class, Run& run) {
  PageInfo& info = g_space.info[page];
  const size_t slot_bytes = kSlotBytes[size_class];
  PageInfo shape = {};
  shape.reciprocal = ReciprocalOf(slot_bytes);
  shape.slot_bytes = static_cast<uint16_t>(slot_bytes);
  shape.slot_count = static_cast<uint16_t>(kPageBytes / slot_bytes);
  info.StoreWord(shape.word);
  info.kind = kind;
  info.contents = ContentsOf(kind);
  info.size_class = static_cast<uint8_t>(size_class);
  info.ignore_off_page = false;
  info.ClearRegistered();
  run.known_zero = !info.dirty;
  info.dirty = true;
  if (IsUncollectable(kind)) g_uncollectable_units.FetchAdd(1, memory_order_relaxed);  // grows only
  PageMeta& meta = g_space.meta[page];
  meta.owner = index;
  meta.freed.Store(0, memory_order_relaxed);                    // nobody else knows the page yet
  meta.listing.Store(Listing::kCurrent, memory_order_relaxed);  // likewise
  meta.swept.Store(g_sweep_number, memory_order_relaxed);       // published by the state
  if (kVerifyBuild) {
    GLEANER_CHECK(FindLastOccupied(g_space.MarksOf(page), info.slot_count) == 0,
                  "[inv.free-page] page %u is free but has marked slots", page);
  }
  info.SetState(PageState::kSmall);
}

PageNumber ThreadHeap::NextPage(Kind kind, size_t size_class, Run& run) {
  PageNumber page = FindPartial(kind, size_class);
  const Side side = SideOf(kind);
  PageNumber free = kNoPage;
  if (page == kNoPage) free = PopFree(side);
  for (int i = 0; page == kNoPage && free == kNoPage && i < kMostSweeps && SweepSome(); ++i) {
    page = PopPartial(kind, size_class);
    if (page == kNoPage) free = PopFree(side);
  }
  if (page == kNoPage && free == kNoPage) page = ThreadHeaps::StealPartial(kind, size_class);
  if (page != kNoPage) {
    PageMeta& meta = g_space.meta[page];
    meta.owner = index;
    meta.freed.Store(0, memory_order_relaxed);  // a late increment only lists the page early
    meta.listing.Store(Listing::kCurrent,
                       memory_order_release);  // NoteFreed must not take it for unlisted
    run.known_zero = false;
    return page;
  }
  if (free == kNoPage) free = TakeFreeOfOthers(side);
  if (free != kNoPage) Format(free, kind, size_class, run);
  return free;
}

PageNumber ThreadHeap::FindPartial(Kind kind, size_t size_class) {
  const PageNumber page = PopPartial(kind, size_class);
  return page == kNoPage && SweepSome() ? PopPartial(kind, size_class) : page;
}

PageNumber ThreadHeap::TakeFree(Side side) {
  const PageNumber page = PopFree(side);
  return page != kNoPage ? page : TakeFreeOfOthers(side);
}

PageNumber ThreadHeap::TakeFreeOfOthers(Side side) {
  platform::StallScope stall(platform::StallCause::kAllocation);
  PageNumber page = kNoPage;
  if (ThreadHeaps::ShouldShare(side, 1)) page = ThreadHeaps::Steal(side, this);
  if (page == kNoPage) page = TakeFresh(side);
  // Better another thread's page than failure, whatever the policy.
  return page != kNoPage ? page : ThreadHeaps::Steal(side, this);
}

PageNumber ThreadHeap::TakeFresh(Side side) {
  bool untouched;
  const PageNumber page = SpaceOf(side).Allocate(1, &untouched);
  if (page == kNoPage) return kNoPage;
  // The rest of the batch goes where PopFree looks.
  ThreadHeap& home = g_shared.policy == Policy::kPageShared ? ThreadHeaps::at(0) : *this;
  PageNumber lowest = page;
  PageNumber highest = page;
  for (PageNumber i = 1; i < batch_; ++i) {
    bool more_untouched;
    const PageNumber more = SpaceOf(side).Allocate(1, &more_untouched);
    if (more == kNoPage) break;
    home.PushFree(more);
    untouched = untouched && more_untouched;
    if (more < lowest) lowest = more;
    if (more > highest) highest = more;
  }
  if (untouched && highest - lowest == kMaxBatch - 1 && SpaceOf(side).taken() >= kPopulateFrom) {
    platform::Populate(PointerAt<void>(g_space.AddressOfPage(lowest)), kMaxBatch * kPageBytes);
  }
  if (batch_ < kMaxBatch) batch_ *= 2;
  return page;
}

// --- Lists ---

void ThreadHeap::PushPartial(PageNumber page) {
  const PageInfo& info = g_space.info[page];
  PushAtomic(partial_[static_cast<size_t>(info.kind)][info.size_class], page);
}

PageNumber ThreadHeap::PopPartial(Kind kind, size_t size_class) {
  return PopAtomic(partial_[static_cast<size_t>(kind)][size_class]);
}

void ThreadHeap::PushFree(PageNumber page) {
  const Side side = SideOfPage(page);
  const auto s = static_cast<size_t>(side);
  platform::LockGuard guard(lock_);
  g_space.info[page].SetState(PageState::kTaken);
  g_space.info[page].StoreWord(0);
  g_space.meta[page].listing.Store(Listing::kFree, memory_order_relaxed);  // guarded by lock_
  g_space.meta[page].next = free_head_[s];
  free_head_[s] = page;
  free_count_[s].Store(free_pages(side) + 1, memory_order_relaxed);  // written under lock_ only
}

PageNumber ThreadHeap::PopFree(Side side) {
  ThreadHeap& heap = g_shared.policy == Policy::kPageShared ? ThreadHeaps::at(0) : *this;
  if (heap.free_pages(side) == 0) return kNoPage;
  const auto s = static_cast<size_t>(side);
  platform::LockGuard guard(heap.lock_);
  const PageNumber page = heap.free_head_[s];
  if (page == kNoPage) return kNoPage;
  const PageNumber next = g_space.meta[page].next;
  heap.free_head_[s] = next;
  if (next != kNoPage) {
    // The thread comes for it soon: descriptors that were last used a cycle ago are far away.
    __builtin_prefetch(&g_space.meta[next]);
    __builtin_prefetch(&g_space.info[next], 1);
    __builtin_prefetch(g_space.MarksOf(next), 1);
  }
  heap.free_count_[s].Store(heap.free_pages(side) - 1, memory_order_relaxed);  // under lock_
  return page;
}

// --- With the world stopped ---

void ThreadHeap::HideRunsWorldStopped() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      const Bump& bump = bumps[kind][c];
      Run& run = runs[kind][c];
      if (bump.cur == run.begin) continue;
      const Unused unused = UnusedOf(bump, run);
      memset(unused.marks + unused.begin, kFreeSlot, unused.end - unused.begin);
      run.begin = bump.limit;
      run.next_slot = UnusedOf(bump, run).begin;
    }
  }
}

void ThreadHeap::RestoreRunsStopped() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      if (bumps[kind][c].cur == runs[kind][c].begin) continue;
      const Unused unused = UnusedOf(bumps[kind][c], runs[kind][c]);
      memset(unused.marks + unused.begin, NewMark(), unused.end - unused.begin);
    }
  }
}

void ThreadHeap::DropListsWorldStopped() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (auto& head : partial_[kind]) head.Store(kNoPage, memory_order_relaxed);  // world stopped
  }
  batch_ = 1;
}

// --- All heaps ---

bool ThreadHeaps::Init(Policy policy, double k) {
  g_shared.policy = policy;
  g_shared.k = k;
  if (!g_shared.heaps.Reserve(kMaxHeaps)) return false;
  // Heap 0 belongs to no thread: the shared list of PS.
  ThreadHeap* shared = Acquire();
  return shared != nullptr;
}

size_t ThreadHeaps::count() { return g_shared.count.Load(memory_order_acquire); }  // see Acquire
size_t ThreadHeaps::active() {
  size_t active = 0;
  for (size_t i = 1; i < count(); ++i) {
    active += at(i).abandoned_.Load(memory_order_relaxed) ? 0 : 1;  // a snapshot
  }
  return active == 0 ? 1 : active;
}
ThreadHeap& ThreadHeaps::at(size_t index) { return *g_shared.heaps[index]; }
Policy ThreadHeaps::policy() { return g_shared.policy; }
double ThreadHeaps::k() { return g_shared.k; }

ThreadHeap* ThreadHeaps::Acquire() {
  platform::LockGuard guard(g_shared.create);
  const size_t heaps = count();
  for (size_t i = 1; i < heaps; ++i) {
    ThreadHeap& heap = at(i);
    if (!heap.abandoned_.Load(memory_order_relaxed)) continue;  // decided under its lock below
    platform::LockGuard heap_guard(heap.lock_);
    heap.abandoned_.Store(false, memory_order_relaxed);  // written under lock_
    return &heap;
  }
  if (!g_shared.heaps.EnsureCommitted(heaps + 1)) return nullptr;
  void* memory = MetaAllocate(sizeof(ThreadHeap));
  if (memory == nullptr) return nullptr;
  auto* heap = new (memory) ThreadHeap(static_cast<uint16_t>(heaps));
  for (size_t kind = 0; kind < kBuiltInKinds; ++kind) {
    for (auto& head : heap->partial_[kind])
      head.Store(kNoPage, memory_order_relaxed);  // not shared
  }
  g_shared.heaps[heaps] = heap;
  g_shared.count.Store(heaps + 1, memory_order_release);  // pairs with count()
  return heap;
}

void ThreadHeap::Retire() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      Bump& bump = bumps[kind][c];
      Run& run = runs[kind][c];
      if (run.page == kNoPage) continue;
      const Unused unused = UnusedOf(bump, run);
      memset(unused.marks + unused.begin, kFreeSlot, unused.end - unused.begin);
      StoresForForkInOrder();
      bump.cur = bump.limit = run.begin = kNoRun;
      const PageNumber page = run.page;
      run.page = kNoPage;
      const bool has_room = FindLastFree(unused.marks, g_space.info[page].slot_count) != 0;
      // Release: who lists the page after a free in it (NoteFreed) sees it as we left it.
      g_space.meta[page].listing.Store(has_room ? Listing::kPartial : Listing::kUnlisted,
                                       memory_order_release);
      if (has_room) PushPartial(page);
    }
  }
  unpolled_bytes = 0;
}

void ThreadHeap::GiveBackAfterFork() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      const Bump& bump = bumps[kind][c];
      const Run& run = runs[kind][c];
      if (run.page == kNoPage || run.begin >= bump.cur ||
          run.begin < g_space.AddressOfPage(run.page)) {
        continue;
      }
      const Unused unused = UnusedOf(bump, run);
      memset(unused.marks + unused.begin, kFreeSlot, unused.end - unused.begin);
    }
    ResetRow(kind);
  }
  DropListsWorldStopped();
  unpolled_bytes = 0;
}

void ThreadHeaps::Abandon(ThreadHeap* heap) {
  platform::CriticalSection section;
  heap->Retire();
  platform::LockGuard guard(heap->lock_);
  heap->abandoned_.Store(true, memory_order_relaxed);  // read under lock_ where it matters
}

ThreadHeap& ThreadHeaps::HomeOfFree(PageNumber page) {
  return g_shared.policy == Policy::kPageShared ? at(0) : at(g_space.meta[page].owner);
}

PageNumber ThreadHeaps::Steal(Side side, const ThreadHeap* thief) {
  if (g_shared.policy == Policy::kPageShared) return kNoPage;  // PopFree has looked already
  const auto s = static_cast<size_t>(side);
  const size_t heaps = count();
  PageNumber batch[kStealBatch];
  // Neighbours by index first: indices are given out in order of start, which is as near as one
  // node can say.
  for (size_t i = 1; i <= heaps; ++i) {
    ThreadHeap& victim = at((thief->index + i) % heaps);
    if (&victim == thief || victim.free_pages(side) == 0) continue;
    PageNumber taken = 0;
    {
      platform::LockGuard guard(victim.lock_);
      const PageNumber half = (victim.free_pages(side) + 1) / 2;
      const PageNumber want = half < kStealBatch ? half : kStealBatch;
      while (taken < want && victim.free_head_[s] != kNoPage) {
        batch[taken] = victim.free_head_[s];
        victim.free_head_[s] = g_space.meta[batch[taken]].next;
        ++taken;
      }
      // Relaxed: written under lock_.
      victim.free_count_[s].Store(victim.free_pages(side) - taken, memory_order_relaxed);
    }
    if (taken == 0) continue;
    for (PageNumber j = 1; j < taken; ++j) at(thief->index).PushFree(batch[j]);
    return batch[0];
  }
  return kNoPage;
}

PageNumber ThreadHeaps::StealPartial(Kind kind, size_t size_class) {
  const size_t heaps = count();
  for (size_t i = 1; i < heaps; ++i) {
    ThreadHeap& heap = at(i);
    if (!heap.abandoned_.Load(memory_order_relaxed)) continue;  // decided under its lock below
    auto& head = heap.partial_[static_cast<size_t>(kind)][size_class];
    if (head.Load(memory_order_relaxed) == kNoPage) continue;  // a hint
    platform::LockGuard guard(heap.lock_);
    if (!heap.abandoned_.Load(memory_order_relaxed)) continue;  // written under lock_
    if (static_cast<size_t>(kind) >= heap.kinds_) continue;
    const PageNumber page = heap.PopPartial(kind, size_class);
    if (page != kNoPage) return page;
  }
  return kNoPage;
}

bool ThreadHeaps::ShouldShare(Side side, PageNumber pages) {
  if (g_shared.policy != Policy::kLps) return false;
  PageNumber free = 0;
  const size_t heaps = count();
  for (size_t i = 0; i < heaps; ++i) free += at(i).free_pages(side);
  const PageNumber taken = SpaceOf(side).taken();
  const PageNumber live = (taken > free ? taken - free : 0) + pages;
  auto& max_live = g_shared.max_live[static_cast<size_t>(side)];
  // Relaxed: a lost update is made good at the next miss.
  if (live > max_live.Load(memory_order_relaxed)) max_live.Store(live, memory_order_relaxed);
  return free != 0 && taken + pages > g_shared.k * max_live.Load(memory_order_relaxed);
}

void ThreadHeaps::FlushFreePages(Side side) {
  const auto s = static_cast<size_t>(side);
  const size_t heaps = count();
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeap& heap = at(i);
    platform::LockGuard guard(heap.lock_);
    while (heap.free_head_[s] != kNoPage) {
      const PageNumber page = heap.free_head_[s];
      heap.free_head_[s] = g_space.meta[page].next;
      SpaceOf(side).Free(page);
    }
    heap.free_count_[s].Store(0, memory_order_relaxed);  // under lock_
  }
}

size_t ThreadHeaps::ResidentFreePages(Side side) {
  size_t free = SpaceOf(side).resident_free();
  for (size_t i = 0; i < count(); ++i) free += at(i).free_pages(side);
  return free;
}

bool ThreadHeaps::TradeFreePages(size_t bytes, size_t least_share) {
  size_t free = 0;
  for (const Side side : {Side::kScanned, Side::kPointerFree}) free += ResidentFreePages(side);
  if (free * least_share < (ResidentBytes() >> kPageShift)) return false;
  const size_t traded = Trade(Side::kScanned, bytes);
  return (traded >= bytes ? traded : traded + Trade(Side::kPointerFree, bytes - traded)) != 0;
}

bool ThreadHeaps::TradeHoles(Side side, size_t bytes) {
  return ResidentFreePages(side) * kHolesShare >= (ResidentBytes() >> kPageShift) &&
         Trade(side, bytes) != 0;
}

size_t ThreadHeap::CheckListsForTesting() const {
  size_t partial = 0;
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      // Acquire: pairs with the push.
      for (PageNumber page = partial_[kind][c].Load(memory_order_acquire); page != kNoPage;
           page = g_space.meta[page].next) {
        const PageInfo& info = g_space.info[page];
        const PageMeta& meta = g_space.meta[page];
        const Listing listing = meta.listing.Load(memory_order_relaxed);  // nobody changes it
        GLEANER_CHECK(
            info.state == PageState::kSmall && listing == Listing::kPartial && IsSwept(meta) &&
                meta.owner == index && info.kind == static_cast<Kind>(kind) && info.size_class == c,
            "[inv.listed-once] page %u (state %d, listing %d, of heap %d) is on a list "
            "of partial pages of heap %d",
            page, static_cast<int>(info.state), static_cast<int>(listing), meta.owner, index);
        // By the above a page may be on this list alone. Twice, and the list has no end.
        GLEANER_CHECK(++partial <= g_space.page_count(),
                      "[inv.listed-once] page %u is on a list twice", page);
      }
    }
  }
  for (const Side side : {Side::kScanned, Side::kPointerFree}) {
    size_t free = 0;
    for (PageNumber page = free_head_[static_cast<size_t>(side)]; page != kNoPage;
         page = g_space.meta[page].next) {
      GLEANER_CHECK(g_space.info[page].state == PageState::kTaken &&
                        g_space.meta[page].listing.Load(memory_order_relaxed) ==  // as above
                            Listing::kFree &&
                        ++free <= free_pages(side),
                    "[inv.listed-once] page %u is on a list of free pages of heap %d", page, index);
    }
    GLEANER_CHECK(free == free_pages(side), "heap %d has %zu free pages and counts %u", index, free,
                  free_pages(side));
  }
  return partial;
}

void ThreadHeaps::CheckForTesting() {
  size_t listed = 0;
  for (size_t i = 0; i < count(); ++i) listed += at(i).CheckListsForTesting();
  size_t partial = 0;
  ForEachPage([&partial](PageNumber page, const PageInfo& info) {
    const PageMeta& meta = g_space.meta[page];
    // As above. What is unswept may have been on a list before.
    partial += info.state == PageState::kSmall && IsSwept(meta) &&
                       meta.listing.Load(memory_order_relaxed) == Listing::kPartial
                   ? 1
                   : 0;
  });
  GLEANER_CHECK(listed == partial, "[inv.listed-once] %zu of %zu partial pages are on a list",
                listed, partial);
}

size_t ThreadHeaps::Trade(Side side, size_t bytes) {
  const size_t least = ResidentBytes() / kTradedAtOnce;
  const size_t enough = AlignUp(bytes < least ? least : bytes, kPageBytes) >> kPageShift;
  FlushFreePages(side);
  // Long spans first: best fit turns to the short ones, which had better stay resident.
  size_t traded = 0;
  for (PageNumber min_pages = PageSpace::kDiscardPages; min_pages != 0 && traded < enough;
       min_pages /= 8) {
    traded += SpaceOf(side).DiscardFree(min_pages, enough - traded) >> kPageShift;
  }
  return traded << kPageShift;
}

void ThreadHeaps::LockForFork() { g_shared.create.Acquire(); }
void ThreadHeaps::UnlockAfterFork() { g_shared.create.Release(); }

void ThreadHeaps::LockListsForFork() {
  for (size_t i = 0; i < count(); ++i) at(i).lock_.AcquireAmongEquals();
}
void ThreadHeaps::UnlockListsAfterFork() {
  for (size_t i = 0; i < count(); ++i) at(i).lock_.Release();
}

void ThreadHeaps::ResetAfterFork(ThreadHeap* survivor) {
  g_shared.create.ResetAfterFork();
  const size_t heaps = count();
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeap& heap = at(i);
    heap.lock_.ResetAfterFork();
    // A thread may have vanished in the middle of a list operation, so all lists are made anew.
    for (size_t s = 0; s < 2; ++s) {
      heap.free_head_[s] = kNoPage;
      heap.free_count_[s].Store(0, memory_order_relaxed);  // a single thread is left
    }
    if (&heap == survivor || i == 0) continue;
    heap.GiveBackAfterFork();
    heap.abandoned_.Store(true, memory_order_relaxed);  // a single thread is left
  }
  // Pages that were on a free list or in the hands of a thread that is gone.
  for (const Side side : {Side::kScanned, Side::kPointerFree}) {
    PageSpace& space = SpaceOf(side);
    for (PageNumber page = FirstCommitted(side); page < EndCommitted(side);) {
      const PageState state = g_space.info[page].state;
      PageMeta& meta = g_space.meta[page];
      if (state == PageState::kUnused) {
        ++page;
        continue;
      }
      // Also of small pages: a span that could not be split is larger than what was asked for, and
      // the pages at its end are no span of their own.
      const PageNumber pages = space.SpanPages(page);
      if (state == PageState::kSmall && (survivor == nullptr || meta.owner != survivor->index) &&
          meta.listing.Load(memory_order_relaxed) ==
              Listing::kCurrent) {                                     // a single thread is left
        meta.listing.Store(Listing::kUnlisted, memory_order_relaxed);  // likewise
      }
      if (state != PageState::kSmall) {
        PageNumber head = page;
        while (g_space.info[head].state == PageState::kPadding) ++head;
        const bool is_in_hand = survivor != nullptr && survivor->span_in_hand == page;
        if (g_space.info[head].state == PageState::kTaken && !is_in_hand) {
          if (pages == 1) {
            (survivor != nullptr ? *survivor : at(0)).PushFree(page);
          } else {
            space.Free(page);
          }
        }
      }
      page += pages;
    }
  }
}

}  // namespace gleaner::alloc
