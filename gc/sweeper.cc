#include "gc/sweeper.h"

#include "alloc/mark_bytes.h"
#include "alloc/thread_heap.h"
#include "alloc/walk.h"
#include "gc/kinds.h"

namespace gleaner::gc {

using alloc::g_epoch;
using alloc::g_space;
using alloc::kDisclaiming;
using alloc::kFreeSlot;
using alloc::Listing;
using alloc::ObjectRef;
using alloc::OtherEpoch;
using alloc::PageInfo;
using alloc::PageMeta;
using alloc::PageNumber;
using alloc::PageState;
using alloc::Side;
using alloc::ThreadHeaps;
using platform::memory_order_relaxed;

namespace {

// What is unreachable on the page waits for its disclaim procedure. Returns what is not free.
uint32_t MarkForDisclaim(PageNumber page, uint32_t slots) {
  uint8_t* marks = g_space.MarksOf(page);
  uint32_t used = 0;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (marks[slot] == OtherEpoch(g_epoch)) marks[slot] = kDisclaiming;
    used += marks[slot] != kFreeSlot ? 1 : 0;
  }
  return used;
}

void DisclaimPage(PageNumber page) {
  const DisclaimProcedure procedure = RowOf(g_space.info[page].kind).disclaim;
  if (procedure == nullptr) return;
  alloc::ForEachSlotOf(page, [procedure](const ObjectRef& slot) {
    // Relaxed: only this thread writes kDisclaiming slots until their bytes change.
    if (__atomic_load_n(slot.mark(), __ATOMIC_RELAXED) != kDisclaiming) return;
    void* object = PointerAt<void>(slot.base);
    const bool keep = procedure(object) != 0;
    __atomic_store_n(slot.mark(), g_epoch, __ATOMIC_RELAXED);  // as above
    if (!keep) alloc::FreeObject(object);
  });
}

}  // namespace

void Sweeper::Begin() {
  pages_ = 0;
  for (const Side side : {Side::kScanned, Side::kPointerFree}) {
    const auto s = static_cast<size_t>(side);
    begin_[s] = FirstCommitted(side);
    end_[s] = EndCommitted(side);
    pages_ += end_[s] - begin_[s];
  }
  next_.Store(0, memory_order_relaxed);  // published with the helpers' wake-up
}

void Sweeper::Run(SweepTotals* totals) {
  const size_t scanned = end_[0] - begin_[0];
  for (;;) {
    // Relaxed: only uniqueness counts. Claims go from the highest page down and so do pages within
    // one, as the lists are last-in-first-out: threads will allocate upwards.
    const size_t claim = next_.FetchAdd(1, memory_order_relaxed);
    if (claim * kPagesPerClaim >= pages_) return;
    // Commitment is a multiple of the claim, so no claim crosses from one side to the other.
    const size_t end = pages_ - claim * kPagesPerClaim;
    const size_t begin = end - kPagesPerClaim;
    const PageNumber offset = begin < scanned ? 0 : static_cast<PageNumber>(begin_[1] - scanned);
    SweepPages(static_cast<PageNumber>(begin) + offset, static_cast<PageNumber>(end) + offset,
               totals);
  }
}

void Sweeper::Disclaim() {
  // Kinds that can have such procedures are on the scanned side, but for GC_malloc_atomic's.
  for (const Side side : {Side::kScanned, Side::kPointerFree}) {
    const auto s = static_cast<size_t>(side);
    for (PageNumber page = begin_[s]; page < end_[s]; ++page) DisclaimPage(page);
  }
}

void Sweeper::SweepPages(PageNumber begin, PageNumber end, SweepTotals* totals) {
  for (PageNumber page = end; page-- > begin;) {
    const PageInfo& info = g_space.info[page];
    if (info.state == PageState::kSmall) {
      SweepPage(page, totals);
    } else if (info.state == PageState::kLarge) {
      if (RowOf(info.kind).disclaim != nullptr) MarkForDisclaim(page, 1);
      if (*g_space.MarksOf(page) == kFreeSlot || *g_space.MarksOf(page) == OtherEpoch(g_epoch)) {
        alloc::FreeLargeWorldStopped(page);
      } else {
        ++totals->live_objects;
        totals->used_pages += AlignUp(info.object_bytes, alloc::kPageBytes) >> alloc::kPageShift;
        (IsPointerFree(info.kind) ? totals->live_pointer_free_bytes : totals->live_scanned_bytes) +=
            info.object_bytes;
      }
    }
  }
}

void Sweeper::SweepPage(PageNumber page, SweepTotals* totals) {
  const PageInfo& info = g_space.info[page];
  PageMeta& meta = g_space.meta[page];
  const uint32_t slots = info.slot_count;
  uint32_t live;
  if (GLEANER_LIKELY(RowOf(info.kind).disclaim == nullptr)) {
    live = alloc::NormaliseMarks(g_space.MarksOf(page), slots, g_epoch);
  } else {
    live = MarkForDisclaim(page, slots);
  }
  const uint64_t live_bytes = uint64_t{live} * info.slot_bytes;
  totals->live_objects += live;
  if (info.slot_bytes == alloc::kGranuleBytes) totals->live_granules += live;
  (IsPointerFree(info.kind) ? totals->live_pointer_free_bytes : totals->live_scanned_bytes) +=
      live_bytes;
  // Relaxed, here and below: the world is stopped and no other worker has this page.
  meta.freed.Store(0, memory_order_relaxed);
  if (meta.listing.Load(memory_order_relaxed) == Listing::kCurrent) {
    ++totals->used_pages;
    return;
  }
  if (live == 0) {
    ThreadHeaps::HomeOfFree(page).PushFree(page);
    return;
  }
  ++totals->used_pages;
  // A page that is nearly full would cost a search each time and give next to nothing.
  if (live != slots && (slots - live) * 16 >= slots) {
    meta.listing.Store(Listing::kPartial, memory_order_relaxed);  // as above
    ThreadHeaps::at(meta.owner).PushPartial(page);
  } else {
    meta.listing.Store(Listing::kUnlisted, memory_order_relaxed);  // as above
  }
}

}  // namespace gleaner::gc
