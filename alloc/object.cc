#include "alloc/object.h"

#include "alloc/hooks.h"
#include "alloc/page_node.h"
#include "alloc/page_space.h"
#include "alloc/thread_heap.h"
#include "alloc/thread_heaps.h"
#include "platform/os/memory.h"
#include "platform/os/stalls.h"

namespace gleaner::alloc {
namespace {

using platform::memory_order_acq_rel;
using platform::memory_order_relaxed;

// Zeroes the first `bytes` from the page `first` on, except pages that are known to be zero. The
// pages are kTaken: no marker looks at them, so the thread may be stopped meanwhile.
void ZeroWhereNeeded(PageNumber first, size_t bytes) {
  const PageNumber end = first + PageCount::For(bytes);
  const Addr end_of_bytes = g_space.AddressOfPage(first) + bytes;
  for (PageNumber page = first; page < end;) {
    PageNumber clean = page;
    while (clean < end && g_space.info[clean].needs_zeroing) ++clean;
    if (clean == page) {
      ++page;
      continue;
    }
    const Addr begin = g_space.AddressOfPage(page);
    const Addr end_of_nonzero = clean < end ? g_space.AddressOfPage(clean) : end_of_bytes;
    platform::Zero(PointerAt<void>(begin), end_of_nonzero - begin);
    page = clean;
  }
}

// Turns taken pages into a large object. A critical section: a collection sees all of the change or
// none.
void Publish(PageNumber span, PageNumber head, size_t bytes, Kind kind, bool ignore_off_page) {
  platform::CriticalSection section;
  const uint32_t pages = PageCount::For(bytes).value();
  for (PageNumber page = span; page < head; ++page) g_space.info[page].state = PageState::kPadding;
  for (uint32_t i = 1; i < pages; ++i) {
    PageInfo& info = g_space.info[head + i];
    info.StoreWord(i);  // pages_back
    info.kind = kind;
    info.contents = ContentsOf(kind);
    info.needs_zeroing = true;
    info.SetState(PageState::kTail);
  }
  PageInfo& info = g_space.info[head];
  info.StoreWord(bytes);  // object_bytes
  info.kind = kind;
  info.contents = ContentsOf(kind);
  info.ignore_off_page = ignore_off_page;
  info.ClearRegistered();
  info.needs_zeroing = true;
  g_space.meta[head].block = g_space.meta[span].block;
  g_space.meta[head].swept.Store(g_sweep_number, memory_order_relaxed);  // published by the state
  g_space.meta[head].SetStanding({Listing::kLarge, 0});                  // published by the state
  info.SetState(PageState::kLarge);
  const uint8_t mark = AllocationColour();
  platform::MaybeDelay();  // the colour may change before the object has it
  // Release: a concurrent sweep that finds the mark (acquire) sees the object's descriptor.
  __atomic_store_n(g_space.MarksOf(head), mark, __ATOMIC_RELEASE);
  t_heap->span_in_hand = kNoPage;
  if (Sampler* sampler = t_heap->sampler; GLEANER_UNLIKELY(sampler != nullptr)) {
    if (sampler->IsLargeSampled(bytes)) g_hooks.sampled(g_space.AddressOfPage(head), bytes);
  }
}

// If a concurrent sweep goes on, sweeps about as many pages as the caller is going to take, 256 at
// most.
void SweepFor(uint32_t pages) {
  constexpr PageNumber kMax = 256;
  if (pages > kMax) pages = kMax;
  for (uint32_t i = 0; i < pages; i += 16) {
    platform::CriticalSection section;
    if (!SweepSome()) return;
  }
}

// The placement of a large object that is asked for without one; null: it lies where it is touched,
// or there is no other node.
const Placement* DefaultPlacement(size_t bytes) {
  if (GLEANER_LIKELY(g_space.nodes == nullptr)) return nullptr;
  if (GLEANER_UNLIKELY(t_placement != nullptr)) return t_placement;
  return GLEANER_UNLIKELY(g_space.IsPlacedInBlocks(bytes)) ? &g_space.placement : nullptr;
}

// pre: there are several nodes, and the thread holds the pages.
void RecordPlacementOf(PageNumber span, PageCount pages) {
  for (PageNumber page = span; page < span + pages; ++page) SetNodeOfPage(page, kPlaced);
}

// Puts the taken pages of a span where the placement says. Where there are several nodes, they are
// zero afterwards.
void PlaceSpan(PageNumber span, PageCount pages, const Placement& placement,
               PlacementResult* result) {
  void* memory = PointerAt<void>(g_space.AddressOfPage(span));
  const size_t bytes = pages.bytes();
  if (g_space.nodes != nullptr) {
    // What is resident lies where an earlier object was. PageSpace::Free takes the placement away
    // again.
    platform::Discard(memory, bytes);
    for (PageNumber page = span; page < span + pages; ++page) {
      g_space.info[page].needs_zeroing = false;
    }
    RecordPlacementOf(span, pages);
  }
  (void)Place(memory, bytes, placement, result);
}

void* AllocateLarge(Kind kind, size_t bytes, size_t alignment, bool ignore_off_page,
                    const Placement* placement, PlacementResult* result) {
  if (bytes > g_space.bytes || alignment > g_space.bytes - bytes) return nullptr;
  bytes = AlignUp(bytes == 0 ? 1 : bytes, kGranuleBytes);  // 0 only with a large alignment
  const Space space = SpaceOf(kind);
  const PageCount extra(alignment > kPageBytes ? PageCount::For(alignment).value() - 1 : 0);
  const PageCount pages = PageCount::For(bytes) + extra;
  g_hooks.allocated(static_cast<ptrdiff_t>(bytes));
  SweepFor(pages.value());
  // Takes and notes the span in one critical section: a fork never sees a span taken and not noted.
  const auto take = [space, pages] {
    platform::CriticalSection section;
    return t_heap->span_in_hand = PageSpaceOf(space).Allocate(pages);
  };
  PageNumber span = kNoPage;
  for (Attempts attempts;;) {
    attempts.Begin();
    if (pages > PageCount(1) && ThreadHeaps::ShouldShare(space, pages)) {
      platform::StallScope stall(platform::StallCause::kAllocation);
      ThreadHeaps::FlushFreePages(space);
    }
    span = take();
    if (GLEANER_LIKELY(span != kNoPage)) break;
    platform::StallScope stall(platform::StallCause::kAllocation);
    ThreadHeaps::FlushFreePages(space);
    span = take();
    if (span != kNoPage) break;
    if (!MakeRoom(pages.bytes(), &attempts)) {
      g_hooks.allocated(-static_cast<ptrdiff_t>(bytes));  // takes the report above back
      return nullptr;
    }
  }
  if (GLEANER_UNLIKELY(placement != nullptr)) PlaceSpan(span, pages, *placement, result);
  const Addr start = AlignUp(g_space.AddressOfPage(span), alignment);
  const PageNumber head = g_space.PageOf(start);
  if (IsZeroed(kind) || placement != nullptr) ZeroWhereNeeded(head, bytes);
  if (IsUncollectable(kind)) g_uncollectable_units.FetchAdd(1, memory_order_relaxed);  // grows only
  Publish(span, head, bytes, kind, ignore_off_page);
  if (bytes >= kHugeBytes && space == Space::kScanned) {
    g_huge_bytes.Add(bytes);
  }
  platform::AddToOwn(&t_heap->allocated_bytes, bytes);
  return PointerAt<void>(start);
}

// Counts a slot just freed in `page`, which had `slots` slots. When an eighth is free, or all, the
// page goes to another list. Any thread.
GLEANER_ALWAYS_INLINE void CountFreed(PageNumber page, uint32_t slots) {
  platform::MaybeDelay();
  const Standing now = g_space.meta[page].Change(Listing::kUnlisted, Listing::kUnlisted, 1);
  if (!IsWorthListing(now.free(), slots, kShareOfFree)) return;
  if (now.listing() == Listing::kCurrent) return;
  if (now.listing() == Listing::kPartial && now.free() < slots) return;
  // Its sweeper raises `swept` before it changes the standing: it sees this slot counted, or we see
  // the page swept.
  if (!IsSwept(g_space.meta[page])) return;
  ThreadHeaps::Settle(page);
}

// A list: first pages of the large objects that wait for FreeDeferredWorldStopped.
constinit platform::Atomic<PageNumber> g_deferred_frees{kNoPage};

// False if another thread has given the object back already.
bool DeferFree(PageNumber head) {
  auto& standing = g_space.meta[head].standing_word;
  constexpr uint16_t kFreed = Standing(Listing::kFreed, 0).word;
  uint16_t large = standing.Load(memory_order_relaxed);  // the exchange decides
  // A slot of the page's life before may have been counted in this one, if it was given back twice.
  // Acq_rel: one thread gets to free the object, and sees it as the others left it.
  do {
    if (Standing(large).listing() != Listing::kLarge) return false;
  } while (!standing.CompareExchange(large, kFreed, memory_order_acq_rel));
  platform::MaybeDelay();
  // Release: a thread that finds the mark free (acquire) sees our accesses to the object done.
  __atomic_store_n(g_space.MarksOf(head), kFreeSlot, __ATOMIC_RELEASE);
  PushAtomic(g_deferred_frees, head);
  return true;
}

}  // namespace

constinit platform::Count<uint64_t> g_huge_bytes{0};
constinit __thread const Placement* t_placement __attribute__((tls_model("initial-exec"))) =
    nullptr;

bool FindSlot(Addr a, ObjectRef* out) {
  if (!g_space.Contains(a)) return false;
  PageNumber page = g_space.PageOf(a);
  // The page may be formatted or given back meanwhile. Then the word belongs to a later state than
  // the one loaded, and the slot that the word leads to, if any, is not allocated.
  const PageState state = g_space.info[page].LoadState();
  PageInfo info = g_space.info[page].LoadWord();
  switch (state) {
    case PageState::kSmall: {
      const uint32_t slot = SlotIndex(AddressSpace::OffsetInPage(a), info.reciprocal);
      if (slot >= info.slot_count) return false;
      *out = {g_space.AddressOfPage(page) + size_t{slot} * info.slot_bytes, info.slot_bytes, page,
              slot};
      return true;
    }
    case PageState::kTail:
      page -= static_cast<PageNumber>(info.pages_back);
      info = g_space.info[page].LoadWord();
      [[fallthrough]];
    case PageState::kLarge:
      *out = {g_space.AddressOfPage(page), info.object_bytes, page, 0};
      return true;
    default:
      return false;
  }
}

bool FindObject(Addr a, ObjectRef* out) {
  platform::CriticalSection section;  // mark byte and dead mark must be of one cycle
  if (!FindSlot(a, out)) return false;
  for (uint8_t mark = LoadMark(out->mark());;) {
    if (GLEANER_LIKELY(IsAllocated(mark))) return true;
    // A thread that is not registered is not waited for: its mark byte may be of the time before a
    // collection whose dead mark it has seen. Acquire, paired with the release of the dead mark:
    // the byte is then what that collection has left.
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint8_t again = LoadMark(out->mark());
    if (again == mark) return false;
    mark = again;
  }
}

void* AllocateObject(Kind kind, size_t bytes, size_t alignment, bool ignore_off_page) {
  if (bytes <= kMaxSmallBytes && alignment <= kGranuleBytes) {
    return t_heap->Allocate(kind, SizeClassOf(bytes));
  }
  if (bytes <= kMaxSmallBytes && alignment <= kMaxSmallBytes) {
    size_t slot = alignment;
    while (slot < kSlotBytes[SizeClassOf(bytes)]) slot *= 2;
    return t_heap->Allocate(kind, SizeClassOfSlot(slot));
  }
  PlacementResult ignored;
  return AllocateLarge(kind, bytes, alignment, ignore_off_page, DefaultPlacement(bytes), &ignored);
}

void* AllocatePlaced(Kind kind, size_t bytes, const Placement& placement, PlacementResult* result) {
  *result = {};
  return AllocateLarge(kind, bytes, kGranuleBytes, false, &placement, result);
}

namespace {

GLEANER_ALWAYS_INLINE FreeResult GiveBack(void* p, size_t* bytes) {
  ObjectRef object;
  platform::CriticalSection section;
  if (!FindSlot(AddressOf(p), &object)) return FreeResult::kForeign;
  if (object.base != AddressOf(p)) return FreeResult::kInterior;
  uint8_t* mark = object.mark();
  if (!IsAllocated(LoadMark(mark))) return FreeResult::kNotAllocated;
  *bytes = object.bytes;
  const bool large = g_space.info[object.page].state == PageState::kLarge;
  if (large && GLEANER_UNLIKELY(MarksConcurrently())) {
    if (!DeferFree(object.page)) return FreeResult::kNotAllocated;
  } else {
    const uint32_t slots = g_space.info[object.page].slot_count;  // may change after the store
    platform::MaybeDelay();
    // Release: the thread that finds the slot free (acquire in FindLastFree) sees our accesses
    // done.
    __atomic_store_n(mark, kFreeSlot, __ATOMIC_RELEASE);
    if (large) {
      // A long zeroed span would be dropped when it is next allocated (platform::Zero); it is
      // dropped now.
      const Kind kind = object.kind();
      const bool drop = *bytes >= platform::kZeroedByDropping && IsZeroed(kind);
      PageSpace& space = PageSpaceOf(SpaceOf(kind));
      space.Free(space.SpanFirst(object.page),
                 drop ? PageSpace::Freed::kIsDropped : PageSpace::Freed::kStays);
    } else {
      CountFreed(object.page, slots);
    }
  }
  return FreeResult::kFreed;
}

}  // namespace

FreeResult FreeObject(void* p) {
  size_t bytes = 0;
  const FreeResult result = GiveBack(p, &bytes);
  ThreadHeap* heap = t_heap;
  if (result == FreeResult::kFreed && heap != &g_no_heap) {
    platform::AddToOwn(&heap->freed_bytes, bytes);
    heap->unpolled_bytes -= static_cast<ptrdiff_t>(bytes);
    heap->Poll();
  }
  return result;
}

FreeResult FreeObjectUncounted(void* p) {
  size_t bytes = 0;
  return GiveBack(p, &bytes);
}

void RecordPlacement(void* p) {
  ObjectRef object;
  if (g_space.nodes == nullptr || !FindObject(AddressOf(p), &object) ||
      g_space.info[object.page].state != PageState::kLarge) {
    return;
  }
  PageSpace& space = PageSpaceOf(SpaceOfPage(object.page));
  const PageNumber span = space.SpanFirst(object.page);
  RecordPlacementOf(span, PageCount(object.page - span) + PageCount::For(object.bytes));
}

bool ResizeInPlace(const ObjectRef& object, size_t bytes) {
  PageInfo& info = g_space.info[object.page];
  if (info.state != PageState::kLarge || bytes <= kMaxSmallBytes || bytes > g_space.bytes) {
    return false;
  }
  const size_t wanted = AlignUp(bytes, kGranuleBytes);
  const PageCount have = PageCount::For(info.object_bytes);
  const PageCount need = PageCount::For(wanted);
  platform::CriticalSection section;
  // A marker may hold the old length: the object keeps its size.
  if (need < have && MarksConcurrently()) return true;
  if (need != have) {
    PageSpace& space = PageSpaceOf(SpaceOf(info.kind));
    const PageNumber first = space.SpanFirst(object.page);
    if (!space.Resize(first, need + PageCount(object.page - first))) return false;
    if (need > have && IsZeroed(info.kind)) {
      ZeroWhereNeeded(object.page + have, (need - have).bytes());
    }
    for (uint32_t i = have.value(); i < need.value(); ++i) {
      PageInfo& tail = g_space.info[object.page + i];
      tail.pages_back = i;
      tail.kind = info.kind;
      tail.contents = info.contents;
      tail.needs_zeroing = true;
      tail.SetState(PageState::kTail);
    }
  }
  // The memory between the old end and the next page may hold leftovers of an earlier object.
  if (wanted > info.object_bytes && IsZeroed(info.kind)) {
    const Addr old_end = object.base + info.object_bytes;
    const Addr page_end = object.base + have.bytes();
    const Addr end = object.base + wanted < page_end ? object.base + wanted : page_end;
    memset(PointerAt<void>(old_end), 0, end - old_end);
  }
  if (wanted > info.object_bytes) {
    t_heap->unpolled_bytes += static_cast<ptrdiff_t>(wanted - info.object_bytes);
  }
  platform::MaybeDelay();
  // Release: a thread that sees the length sees the tail pages.
  __atomic_store_n(&info.object_bytes, wanted, __ATOMIC_RELEASE);
  if (Sampler* sampler = t_heap->sampler; GLEANER_UNLIKELY(sampler != nullptr)) {
    g_hooks.sampled(object.base, sampler->IsLargeSampled(wanted) ? wanted : 0);
  }
  return true;
}

void FreeLargeWorldStopped(PageNumber head) {
  *g_space.MarksOf(head) = kFreeSlot;
  PageSpace& space = PageSpaceOf(SpaceOf(g_space.info[head].kind));
  space.Free(space.SpanFirst(head));
}

void FreeDeferredWorldStopped() {
  // Acquire: pairs with the release in PushAtomic; `next` of each page is visible.
  for (PageNumber head = g_deferred_frees.Exchange(kNoPage, platform::memory_order_acquire);
       head != kNoPage;) {
    PageMeta& meta = g_space.meta[head];
    const PageNumber next = meta.next;
    meta.SetStanding({Listing::kFree, 0});
    FreeLargeWorldStopped(head);
    head = next;
  }
}

}  // namespace gleaner::alloc
