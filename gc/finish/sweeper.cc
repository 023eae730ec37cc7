#include "gc/finish/sweeper.h"

#include "alloc/mark_bytes.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "alloc/walk.h"
#include "gc/mark/kinds.h"

namespace gleaner::gc {

using alloc::g_epoch;
using alloc::g_space;
using alloc::kDisclaiming;
using alloc::kFreeSlot;
using alloc::Listing;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageMeta;
using alloc::PageNumber;
using alloc::PageState;
using alloc::Space;
using alloc::ThreadHeap;
using alloc::ThreadHeaps;
using platform::memory_order_acq_rel;
using platform::memory_order_relaxed;
using platform::memory_order_release;

namespace {

void DisclaimPage(PageNumber page) {
  const DisclaimProcedure procedure = RowOf(g_space.info[page].kind).disclaim;
  if (procedure == nullptr) return;
  alloc::ForEachSlotOf(page, [procedure](const ObjectRef& slot) {
    // Relaxed, load and store: only this thread writes a slot's byte while it is kDisclaiming.
    if (__atomic_load_n(slot.mark(), __ATOMIC_RELAXED) != kDisclaiming) return;
    void* object = PointerAt<void>(slot.base);
    const bool keep = procedure(object) != 0;
    __atomic_store_n(slot.mark(), g_epoch, __ATOMIC_RELAXED);  // still the only writer
    if (!keep) alloc::FreeObjectUncounted(object);
  });
}

void CountSlots(const PageInfo& info, uint32_t live, SweepTotals* totals) {
  const uint64_t live_bytes = uint64_t{live} * info.slot_bytes;
  totals->live_objects += live;
  (IsPointerFree(info.kind) ? totals->live_pointer_free_bytes : totals->live_scanned_bytes) +=
      live_bytes;
}

size_t PagesOfLarge(size_t object_bytes) {
  return AlignUp(object_bytes, alloc::kPageBytes) >> alloc::kPageShift;
}

void CountLarge(alloc::Space space, size_t object_bytes, SweepTotals* totals) {
  ++totals->live_objects;
  totals->used_pages += PagesOfLarge(object_bytes);
  (space == alloc::Space::kPointerFree ? totals->live_pointer_free_bytes
                                       : totals->live_scanned_bytes) += object_bytes;
}

// A page with less than a sixteenth free is not listed: each search of it costs time and gains
// little.
constexpr uint32_t kShareOfSwept = 16;

}  // namespace

void Sweeper::Begin(uint8_t dead) {
  dead_ = dead;
  pages_ = 0;
  for (const Space space : {Space::kScanned, Space::kPointerFree}) {
    const auto s = static_cast<size_t>(space);
    begin_[s] = FirstCommitted(space);
    end_[s] = EndCommitted(space);
    pages_ += end_[s] - begin_[s];
  }
  next_.Restart();
}

void Sweeper::Run(SweepTotals* totals) {
  PageNumber begin;
  PageNumber end;
  while (Claim(kPagesPerClaim, &begin, &end)) SweepPages(begin, end, totals);
}

bool Sweeper::Claim(size_t pages, PageNumber* begin, PageNumber* end) {
  // This check keeps the numbers from growing without bound.
  if (next_.Next() * pages >= pages_) return false;
  // Claims go from the highest page down and so do pages within one, as the lists are
  // last-in-first-out: threads will allocate upwards.
  const size_t claim = next_.Take();
  platform::MaybeDelay();  // the pages are claimed and not swept
  if (claim * pages >= pages_) return false;
  // Commitment is a multiple of the claim, so no claim crosses from one space to the other.
  const size_t last = pages_ - claim * pages;
  const size_t first = last - pages;
  const size_t scanned = end_[0] - begin_[0];
  const PageNumber offset = first < scanned ? 0 : static_cast<PageNumber>(begin_[1] - scanned);
  *begin = static_cast<PageNumber>(first) + offset;
  *end = static_cast<PageNumber>(last) + offset;
  return true;
}

void Sweeper::BeginConcurrentWorldStopped(uint8_t dead) {
  Begin(dead);
  ++alloc::g_sweep_number;
  alloc::g_dead_mark.Store(dead, memory_order_release);  // with the marks: FindObject reads again
  totals_ = {};
  totals_are_whole_ = true;
  for (size_t i = 0; i < ThreadHeaps::count(); ++i) {
    ThreadHeaps::at(i).ForEachCurrentPageWorldStopped([this](PageNumber page) {
      SweepPage(page, &totals_);
      // Relaxed, here and below: the world is stopped.
      g_space.meta[page].swept.Store(alloc::g_sweep_number, memory_order_relaxed);
    });
  }
  steps_left_.Store(pages_ / kPagesPerStep, memory_order_relaxed);  // the world is stopped
  is_concurrent_.Store(true, memory_order_relaxed);                 // the world is stopped
}

bool Sweeper::Step() {
  PageNumber begin;
  PageNumber end;
  if (!IsConcurrent() || !Claim(kPagesPerStep, &begin, &end)) return false;
  SweepTotals found;
  for (PageNumber page = end; page-- > begin;) SweepConcurrently(page, &found);
  {
    platform::LockGuard guard(totals_lock_);
    totals_.Add(found);
  }
  steps_left_.FetchSub(1, memory_order_acq_rel);  // pairs with IsDone
  return true;
}

void Sweeper::EndConcurrent() {
  // Relaxed: no byte is dead any more, so a thread may use either value.
  alloc::g_dead_mark.Store(0, memory_order_relaxed);
  platform::MaybeDelay();
  is_concurrent_.Store(false, memory_order_relaxed);  // written under the collector lock
}

bool Sweeper::TotalsOfSteps(SweepTotals* totals) const {
  *totals = totals_;
  return totals_are_whole_;
}

void Sweeper::ResetAfterFork() {
  totals_lock_.ResetAfterFork();
  if (!IsConcurrent()) return;
  // Threads that do not exist in the child may have had claims.
  totals_are_whole_ = false;
  next_.Restart();
  steps_left_.Store(pages_ / kPagesPerStep, memory_order_relaxed);  // a single thread is left
}

void Sweeper::Disclaim() {
  // Kinds that can have such procedures are on the scanned space, but for GC_malloc_atomic's.
  for (const Space space : {Space::kScanned, Space::kPointerFree}) {
    const auto s = static_cast<size_t>(space);
    for (PageNumber page = begin_[s]; page < end_[s]; ++page) DisclaimPage(page);
  }
}

// Unreachable objects of the page become kDisclaiming. Returns their number.
uint32_t Sweeper::MarkForDisclaim(PageNumber page, uint32_t slots) {
  uint8_t* marks = g_space.MarksOf(page);
  uint32_t waiting = 0;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if ((marks[slot] & dead_) == 0) continue;
    marks[slot] = kDisclaiming;
    ++waiting;
  }
  return waiting;
}

void Sweeper::SweepPages(PageNumber begin, PageNumber end, SweepTotals* totals) {
  for (PageNumber page = end; page-- > begin;) {
    const PageInfo& info = g_space.info[page];
    if (info.state == PageState::kSmall) {
      SweepPage(page, totals);
    } else if (info.state == PageState::kLarge) {
      if (RowOf(info.kind).disclaim != nullptr && MarkForDisclaim(page, 1) != 0) {
        totals->used_pages += PagesOfLarge(info.object_bytes);
        continue;
      }
      const uint8_t mark = *g_space.MarksOf(page);
      if (mark == kFreeSlot || (mark & dead_) != 0) {
        alloc::FreeLargeWorldStopped(page);
      } else {
        CountLarge(alloc::SpaceOfPage(page), info.object_bytes, totals);
      }
    }
  }
}

void Sweeper::SweepPage(PageNumber page, SweepTotals* totals) {
  const PageInfo& info = g_space.info[page];
  PageMeta& meta = g_space.meta[page];
  const uint32_t slots = info.slot_count;
  uint32_t waiting = 0;
  if (GLEANER_UNLIKELY(RowOf(info.kind).disclaim != nullptr)) {
    waiting = MarkForDisclaim(page, slots);
  }
  const uint32_t used =
      alloc::NormaliseMarks(g_space.MarksOf(page), slots, static_cast<uint8_t>(~dead_));
  CountSlots(info, used - waiting, totals);
  ThreadHeap& owner = ThreadHeaps::at(meta.owner.Load(memory_order_relaxed));  // unchanging
  const uint32_t free = slots - used;
  if (meta.listing() == Listing::kCurrent) {
    ++totals->used_pages;
    alloc::Run& run = owner.runs[static_cast<size_t>(info.kind)][info.size_class];
    run.taken = run.counted = 0;
    return meta.SetStanding({Listing::kCurrent, free});
  }
  if (used == 0) return ThreadHeaps::HomeOfFree(page).PushFree(page);
  ++totals->used_pages;
  const bool listed = alloc::IsWorthListing(free, slots, kShareOfSwept);
  meta.SetStanding({listed ? Listing::kPartial : Listing::kUnlisted, free});
  if (listed) owner.PushPartialWorldStopped(page);
}

// Sweeps one page in a step.
void Sweeper::SweepConcurrently(PageNumber page, SweepTotals* totals) {
  const PageInfo& info = g_space.info[page];
  PageMeta& meta = g_space.meta[page];
  const PageState state = info.LoadState();
  if (state != PageState::kSmall && state != PageState::kLarge) return;
  // A page that is formatted after this check was free before, and has no dead byte.
  if (IsSwept(meta)) return;
  uint8_t* marks = g_space.MarksOf(page);
  if (state == PageState::kLarge) {
    // Acquire, both: pairs with Publish, since the object may be new. The pages of a dead object
    // are freed under the lock of the page space.
    uint8_t mark = __atomic_load_n(marks, __ATOMIC_ACQUIRE);
    platform::MaybeDelay();
    const bool freed =
        (mark & dead_) != 0 && __atomic_compare_exchange_n(marks, &mark, alloc::kFreeSlot, false,
                                                           __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);
    meta.swept.Store(alloc::g_sweep_number, memory_order_release);  // pairs with IsSwept
    if (freed) {
      alloc::PageSpace& space = PageSpaceOf(alloc::SpaceOfPage(page));
      space.Free(space.SpanFirst(page));
    } else if (mark != kFreeSlot) {
      // The object may have been freed since, and its page formatted for small objects: then the
      // word is no length [inv.slot-count].
      const PageInfo now = info.LoadWord();
      if (now.slot_count == 0) CountLarge(alloc::SpaceOfPage(page), now.object_bytes, totals);
    }
    return;
  }
  // The page stays kSmall with the same slots: only its sweeper may give it away as empty.
  uint32_t cleared = 0;
  const uint32_t live = alloc::ClearDead(marks, info.slot_count, dead_, &cleared);
  CountSlots(info, live, totals);
  if (live != 0) ++totals->used_pages;
  platform::MaybeDelay();
  // Relaxed: nobody takes an unswept page.
  ThreadHeaps::at(meta.owner.Load(memory_order_relaxed)).EndSweep(page, cleared, kShareOfSwept);
}

}  // namespace gleaner::gc
