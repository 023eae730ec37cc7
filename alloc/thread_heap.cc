#include "alloc/thread_heap.h"

#include <atomic>
#include <new>

#include "alloc/hooks.h"
#include "alloc/mark_bytes.h"
#include "alloc/metadata/meta.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "observe/events.h"
#include "platform/os/memory.h"
#include "platform/os/stalls.h"

namespace gleaner::alloc {
namespace {

using platform::memory_order_acquire;
using platform::memory_order_relaxed;

// Zeroing happens this far ahead of the bump pointer, so that the lines are in the first-level
// cache when the program writes them.
constexpr size_t kWindowBytes = 4 * kKiB;

// The window for slots of this size: at least one slot.
size_t WindowBytes(size_t slot_bytes) {
  const size_t slots = kWindowBytes / slot_bytes;
  return (slots == 0 ? 1 : slots) * slot_bytes;
}

// Pages taken from the page space at a time grow from 1 to this.
constexpr PageNumber kMaxBatch = 4;
// Pages of other nodes that one call of TakeFresh passes over at most.
constexpr PageNumber kMaxGivenAway = 8;
// From this many taken pages of a space on, a whole batch is made resident at once: the batch's
// unused rest is then a small part of the space.
constexpr PageNumber kPopulateFrom = (4 * kMiB) >> kPageShift;

// While a sweep goes on, a thread without a free page makes at most this many sweep steps before it
// looks elsewhere: some 30 us in which it cannot be stopped.
constexpr int kMaxSweeps = 16;

Addr SlotAddress(PageNumber page, uint32_t slot, size_t slot_bytes) {
  return g_space.AddressOfPage(page) + slot * slot_bytes;
}

// In the child of a fork, the calling thread's stores before the call come before those after it
// (GiveBackAfterFork). A fork cuts a thread's stores off at one of them, in the order in which the
// processor makes them, so only the compiler must be kept from reordering.
inline void StoresForForkInOrder() {
  platform::MaybeDelay();
  std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the compiler to the order
}

}  // namespace

constexpr ThreadHeap::ThreadHeap() : bumps{}, runs{}, free_head_{kNoPage, kNoPage} {
  for (size_t kind = 0; kind < kBuiltInKinds; ++kind) ResetRow(kind);
}

// Rows that are not ready stay untouched, and so does the memory they lie in.
ThreadHeap::ThreadHeap(uint16_t i) : index(i), free_head_{kNoPage, kNoPage} {
  for (size_t kind = 0; kind < kBuiltInKinds; ++kind) ResetRow(kind);
}

constexpr void ThreadHeap::ResetRow(size_t kind) {
  for (size_t c = 0; c < kClassCount; ++c) {
    bumps[kind][c] = {kNoRun, kNoRun, kSlotBytes[c]};
    runs[kind][c] = {kNoRun, kNoPage, 0, false, 0, 0};
  }
}

constinit ThreadHeap g_no_heap;
constinit __thread ThreadHeap* t_heap __attribute__((tls_model("initial-exec"))) = &g_no_heap;

// --- Allocation ---

void ThreadHeap::PrepareKinds(Kind last) {
  platform::CriticalSection section;  // the collector reads the first kinds_ rows
  for (; kinds_ <= static_cast<size_t>(last); ++kinds_) {
    ResetRow(kinds_);
    for (auto& head : partial_[kinds_]) head.Store(kNoPage, memory_order_relaxed);  // not shared
  }
}

void ThreadHeap::Poll() {
  const ptrdiff_t poll = g_poll_bytes.Get();
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
    Poll();
    if (GLEANER_LIKELY(p != nullptr)) return p;
    platform::StallScope stall(platform::StallCause::kAllocation);
    if (!MakeRoom(kSlotBytes[size_class], &attempts)) return nullptr;
  }
}

// pre, for all functions below up to the lists: inside a critical section.
void* ThreadHeap::TryAllocate(Kind kind, size_t size_class) {
  Bump& bump = bumps[static_cast<size_t>(kind)][size_class];
  Run& run = runs[static_cast<size_t>(kind)][size_class];
  for (;;) {
    if (bump.cur != run.begin) {
      if (bump.cur == bump.limit) OpenWindow(kind, size_class, bump, run);
      bump.cur -= bump.slot_bytes;
      if (GLEANER_UNLIKELY(sampler != nullptr) && sampler->TakeDue()) {
        g_hooks.sampled(bump.cur, bump.slot_bytes);
      }
      return PointerAt<void>(bump.cur);
    }
    if (run.page != kNoPage) {
      if (TakeNextRun(bump, run)) continue;
      // The search has passed all slots that were free when it began. What the page counted then
      // beyond those taken was not there, and would be looked for again and again.
      StopUsing(run, run.taken < run.counted ? run.counted : run.taken, kShareOfFree);
    }
    bump.cur = bump.limit = run.begin = kNoRun;
    StoresForForkInOrder();
    bool is_empty;
    run.page = NextPage(kind, size_class, run, &is_empty);
    if (run.page == kNoPage) return nullptr;
    run.next_slot = g_space.info[run.page].slot_count;
    if (is_empty) TakeRun(bump, run, 0, run.next_slot);
  }
}

void ThreadHeap::OpenWindow(Kind kind, size_t size_class, Bump& bump, const Run& run) {
  if (GLEANER_UNLIKELY(sampler != nullptr)) return OpenSampledWindow(kind, size_class, bump, run);
  if (run.known_zero || !IsZeroed(kind)) {
    bump.limit = run.begin;
    return;
  }
  const size_t window = WindowBytes(bump.slot_bytes);
  const Addr limit = bump.limit - run.begin > window ? bump.limit - window : run.begin;
  memset(PointerAt<void>(limit), 0, bump.limit - limit);
  bump.limit = limit;
}

void ThreadHeap::OpenSampledWindow(Kind kind, size_t size_class, Bump& bump, const Run& run) {
  const bool zeroes = !run.known_zero && IsZeroed(kind);
  size_t window = bump.limit - run.begin;
  if (zeroes && window > WindowBytes(bump.slot_bytes)) window = WindowBytes(bump.slot_bytes);
  window = sampler->Cut(kind, size_class, bump.slot_bytes, window);
  const Addr limit = bump.limit - window;
  if (zeroes) memset(PointerAt<void>(limit), 0, window);
  bump.limit = limit;
}

bool ThreadHeap::TakeNextRun(Bump& bump, Run& run) {
  const uint8_t* marks = g_space.MarksOf(run.page);
  const uint32_t end = FindLastFree(marks, run.next_slot);
  if (end == 0) return false;
  TakeRun(bump, run, FindLastOccupied(marks, end - 1), end);
  return true;
}

void ThreadHeap::TakeRun(Bump& bump, Run& run, uint32_t begin, uint32_t end) {
  bump.cur = bump.limit = SlotAddress(run.page, end, bump.slot_bytes);
  StoresForForkInOrder();
  run.begin = SlotAddress(run.page, begin, bump.slot_bytes);
  run.next_slot = begin;
  const uint8_t mark = AllocationColour();
  StoresForForkInOrder();  // the colour may change before the slots have it
  SetMarks(g_space.MarksOf(run.page) + begin, end - begin, mark);
  run.taken = static_cast<uint16_t>(run.taken + (end - begin));
  const size_t bytes = bump.cur - run.begin;
  unpolled_bytes += static_cast<ptrdiff_t>(bytes);
  platform::AddToOwn(&allocated_bytes, bytes);
}

ThreadHeap::Unused ThreadHeap::UnusedOf(const Bump& bump, const Run& run) {
  if (run.page == kNoPage) return {nullptr, 0, 0};
  const Addr page = g_space.AddressOfPage(run.page);
  return {g_space.MarksOf(run.page), static_cast<uint32_t>((run.begin - page) / bump.slot_bytes),
          static_cast<uint32_t>((bump.cur - page) / bump.slot_bytes)};
}

void ThreadHeap::StopUsing(Run& run, int taken, uint32_t share) {
  const PageNumber page = run.page;
  run.page = kNoPage;
  run.taken = run.counted = 0;
  const uint32_t slots = g_space.info[page].slot_count;  // may change after the next line
  const Standing now = g_space.meta[page].Change(Listing::kCurrent, Listing::kUnlisted, -taken);
  if (IsWorthListing(now.free(), slots, share)) (void)Settle(page, share);
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
  run.known_zero = !info.needs_zeroing;
  info.needs_zeroing = true;
  if (IsUncollectable(kind)) g_uncollectable_units.FetchAdd(1, memory_order_relaxed);  // grows only
  PageMeta& meta = g_space.meta[page];
  meta.owner.Store(index, memory_order_relaxed);           // the page is not shared yet
  meta.SetStanding({Listing::kCurrent, info.slot_count});  // published by the state
  meta.swept.Store(g_sweep_number, memory_order_relaxed);  // published by the state
  if (kVerifyBuild) {
    GLEANER_CHECK(FindLastOccupied(g_space.MarksOf(page), info.slot_count) == 0,
                  "[inv.free-page] page %u is free but has marked slots", page);
  }
  info.SetState(PageState::kSmall);
}

PageNumber ThreadHeap::NextPage(Kind kind, size_t size_class, Run& run, bool* is_empty) {
  RecordNode();
  PageNumber page = FindPartial(kind, size_class);
  const Space space = SpaceOf(kind);
  PageNumber free = kNoPage;
  if (page == kNoPage) free = PopFree(space);
  for (int i = 0; page == kNoPage && free == kNoPage && i < kMaxSweeps && SweepSome(); ++i) {
    page = PopPartial(kind, size_class, *this);
    if (page == kNoPage) free = PopFree(space);
  }
  if (page == kNoPage && free == kNoPage) {
    page = ThreadHeaps::StealPartial(kind, size_class, this, false);
  }
  if (page == kNoPage && free == kNoPage) {
    free = TakeFreeOfOthers(space);
    if (free == kNoPage && GLEANER_UNLIKELY(g_space.by_node)) {
      // Under every policy a page of another node is better than failure.
      page = ThreadHeaps::StealPartial(kind, size_class, this, true);
    }
  }
  *is_empty = page == kNoPage;
  if (page != kNoPage) {
    run.known_zero = false;
    // Acquire: the search that follows finds the slots that are counted.
    const Standing now(g_space.meta[page].standing_word.Load(memory_order_acquire));
    run.counted = static_cast<uint16_t>(now.free());
    CountPage(page);
    return page;
  }
  if (free == kNoPage) return kNoPage;
  if (GLEANER_UNLIKELY(g_space.by_node) && NodeOfPage(free) == kNoNode) {
    SetNodeOfPage(free, node());  // where the first touch that follows puts it
  }
  Format(free, kind, size_class, run);
  CountPage(free);
  return free;
}

void ThreadHeap::CountPage(PageNumber page) {
  PageMeta& meta = g_space.meta[page];
  if (meta.toucher == 0) meta.toucher = ToucherOf(index);
  platform::AddToOwn(&pages_taken, 1);
  const bool is_remote =
      GLEANER_UNLIKELY(g_space.by_node) ? IsElsewhere(page) : meta.toucher != ToucherOf(index);
  if (is_remote) platform::AddToOwn(&remote_pages, 1);
}

void ThreadHeap::RecordNode() {
  if (GLEANER_LIKELY(!g_space.by_node)) return;
  node_.Set(NodeMarkOf(platform::CurrentNode()));
}

bool ThreadHeap::IsElsewhere(PageNumber page) const {
  const NodeMark at = NodeOfPage(page);
  return IsNode(at) && IsNode(node()) && at != node();
}

PageNumber ThreadHeap::FindPartial(Kind kind, size_t size_class) {
  const PageNumber page = PopPartial(kind, size_class, *this);
  return page == kNoPage && SweepSome() ? PopPartial(kind, size_class, *this) : page;
}

PageNumber ThreadHeap::TakeFree(Space space) {
  RecordNode();
  const PageNumber page = PopFree(space);
  return page != kNoPage ? page : TakeFreeOfOthers(space);
}

PageNumber ThreadHeap::TakeFreeOfOthers(Space space) {
  const platform::SlowPathEvent slow(platform::TracePath::kFreshPage);
  PageNumber page = ThreadHeaps::TakeOfNode(space, node());
  if (page != kNoPage) return page;
  if (ThreadHeaps::ShouldShare(space, PageCount(1))) page = ThreadHeaps::Steal(space, this);
  if (page == kNoPage) page = TakeFresh(space);
  // Under every policy another thread's page is better than failure.
  return page != kNoPage ? page : ThreadHeaps::Steal(space, this);
}

// Free pages in the space may have been touched on other nodes. Under LPS such a page goes to the
// list of its node, and the next one is tried, kMaxGivenAway times at most; under AL its contents
// are dropped, so that the next touch makes it local.
PageNumber ThreadHeap::TakeFromSpace(Space space, bool* untouched, PageNumber* given_away) {
  for (;;) {
    const PageNumber page = PageSpaceOf(space).Allocate(PageCount(1), untouched);
    if (GLEANER_LIKELY(!g_space.by_node) || page == kNoPage || *untouched) return page;
    if (NodeOfPage(page) == kNoNode) LookUpNodes(&page, 1, kNoNode);
    if (!IsElsewhere(page)) return page;
    switch (ThreadHeaps::policy()) {
      case Policy::kPageShared:
        return page;
      case Policy::kAllLocal:
        platform::Discard(PointerAt<void>(g_space.AddressOfPage(page)), kPageBytes);
        g_space.info[page].needs_zeroing = false;
        SetNodeOfPage(page, node());
        return page;
      case Policy::kLps:
        if (*given_away == kMaxGivenAway || !ThreadHeaps::GiveToNode(page)) return page;
        ++*given_away;
    }
  }
}

// Fresh pages that the thread has taken. As long as they are no more than there are size classes,
// each may be the first of its class, of which a thread that allocates little touches little. Then
// the system is to make resident what is touched, and no more.
constinit __thread PageNumber t_fresh_pages __attribute__((tls_model("initial-exec"))) = 0;

PageNumber ThreadHeap::TakeFresh(Space space) {
  PageNumber given_away = 0;
  PageNumber batch[kMaxBatch];
  PageNumber count = 0;
  bool all_untouched = true;
  PageNumber lowest = kNoPage;
  PageNumber highest = 0;
  while (count < batch_) {
    bool untouched;
    const PageNumber page = TakeFromSpace(space, &untouched, &given_away);
    if (page == kNoPage) break;
    batch[count++] = page;
    all_untouched = all_untouched && untouched;
    if (page < lowest) lowest = page;
    if (page > highest) highest = page;
  }
  if (count == 0) return kNoPage;
  const bool may_populate = t_fresh_pages > kClassCount;
  t_fresh_pages += count;
  if (may_populate && all_untouched && count == kMaxBatch && highest - lowest == kMaxBatch - 1 &&
      PageSpaceOf(space).taken().value() >= kPopulateFrom) {
    platform::Populate(PointerAt<void>(g_space.AddressOfPage(lowest)), kMaxBatch * kPageBytes);
    for (const PageNumber page : batch) g_space.meta[page].toucher = ToucherOf(index);
    if (GLEANER_UNLIKELY(g_space.by_node)) LookUpNodes(batch, count, node());
  }
  // The rest of the batch goes to the list that PopFree takes from.
  ThreadHeap& home = ThreadHeaps::policy() == Policy::kPageShared ? ThreadHeaps::at(0) : *this;
  if (count > 1) {
    platform::LockGuard guard(home.lock_);
    for (PageNumber i = 1; i < count; ++i) home.PushFreeLocked(batch[i]);
  }
  if (batch_ < kMaxBatch) batch_ *= 2;
  return batch[0];
}

// --- With the world stopped ---

void ThreadHeap::RetireRunsWorldStopped() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      const Bump& bump = bumps[kind][c];
      Run& run = runs[kind][c];
      if (bump.cur == run.begin) continue;
      const Unused unused = UnusedOf(bump, run);
      memset(unused.marks + unused.begin, kFreeSlot, unused.end - unused.begin);
      run.begin = bump.limit;
      run.next_slot = UnusedOf(bump, run).begin;
      run.taken = static_cast<uint16_t>(run.taken - (run.next_slot - unused.begin));
    }
  }
}

void ThreadHeap::ReviveRunsStopped() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (size_t c = 0; c < kClassCount; ++c) {
      if (bumps[kind][c].cur == runs[kind][c].begin) continue;
      const Unused unused = UnusedOf(bumps[kind][c], runs[kind][c]);
      memset(unused.marks + unused.begin, AllocationColour(), unused.end - unused.begin);
    }
  }
}

void ThreadHeap::DropListsWorldStopped() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    for (auto& head : partial_[kind]) head.Store(kNoPage, memory_order_relaxed);  // world stopped
  }
  batch_ = 1;
}

void ThreadHeap::Retire() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    if (sampler != nullptr) sampler->DrawAnew(kind);
    for (size_t c = 0; c < kClassCount; ++c) {
      Bump& bump = bumps[kind][c];
      Run& run = runs[kind][c];
      if (run.page == kNoPage) continue;
      const Unused unused = UnusedOf(bump, run);
      memset(unused.marks + unused.begin, kFreeSlot, unused.end - unused.begin);
      run.taken = static_cast<uint16_t>(run.taken - (unused.end - unused.begin));
      StoresForForkInOrder();
      bump.cur = bump.limit = run.begin = kNoRun;
      StopUsing(run, run.taken, kMaxSlotsPerPage);  // one free slot will do
    }
  }
  unpolled_bytes = 0;
}

void ThreadHeap::GiveBackAfterFork() {
  for (size_t kind = 0; kind < kinds_; ++kind) {
    if (sampler != nullptr) sampler->DrawAnew(kind);
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
  unpolled_bytes = 0;
}

}  // namespace gleaner::alloc
