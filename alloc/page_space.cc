#include "alloc/page_space.h"

#include "alloc/hooks.h"
#include "alloc/page_node.h"
#include "observe/events.h"
#include "platform/os/clock.h"
#include "platform/os/memory.h"
#include "platform/os/stalls.h"

namespace gleaner::alloc {
namespace {

constinit TreeFit g_scanned_fit;
constinit TreeFit g_pointer_free_fit;
constinit PageSpace g_scanned(Space::kScanned, &g_scanned_fit);
constinit PageSpace g_pointer_free(Space::kPointerFree, &g_pointer_free_fit);

// Accessed relaxed: a statistic and two limits that need not be exact to the page.
constinit platform::Atomic<size_t> g_resident_pages{0};
constinit platform::Atomic<size_t> g_limit_bytes{0};
constinit platform::Atomic<size_t> g_growth_limit_pages{SIZE_MAX};
constinit __thread bool t_growth_refused __attribute__((tls_model("initial-exec"))) = false;

// Whole pages that the heap may have.
size_t LimitPages() {
  const size_t bytes = HeapLimit();
  return bytes == 0 ? SIZE_MAX : bytes >> kPageShift;
}

}  // namespace

PageSpace& PageSpaceOf(Space space) {
  return space == Space::kScanned ? g_scanned : g_pointer_free;
}

bool InitPageSpaces(FitPolicy policy) {
  return g_scanned.Init(policy) && g_pointer_free.Init(policy);
}

void SetHeapLimit(size_t bytes) {
  g_limit_bytes.Store(bytes, platform::memory_order_relaxed);  // a limit by itself
}
size_t HeapLimit() {
  return g_limit_bytes.Load(platform::memory_order_relaxed);  // a limit by itself
}
void LimitGrowth(size_t resident_bytes) {
  g_growth_limit_pages.Store(resident_bytes >> kPageShift,
                             platform::memory_order_relaxed);  // a limit by itself
}
size_t GrowthLimit() {
  return g_growth_limit_pages.Load(platform::memory_order_relaxed) << kPageShift;  // a limit
}
bool MakeRoom(size_t bytes, Attempts* attempts) {
  // The limit itself cannot tell, since another thread's collection may have moved it meanwhile.
  if (!t_growth_refused) return g_hooks.exhausted(bytes, attempts);
  t_growth_refused = false;
  g_hooks.grow(bytes, *attempts);
  return true;
}
size_t ResidentBytes() {
  return g_resident_pages.Load(platform::memory_order_relaxed) << kPageShift;  // a statistic
}
const platform::Atomic<size_t>& ResidentPages() { return g_resident_pages; }
bool PageSpace::Init(FitPolicy policy) {
  // At worst every page is a block of its own.
  return fit_.Init(policy, g_space.page_count());
}

bool PageSpace::InitResidency(size_t budget_bytes, uint64_t decay_ns) {
  return residency_.Init(g_space.base, g_space.bytes, budget_bytes, decay_ns);
}

// Units are pages counted from the space's own end of the reservation.
PageNumber PageSpace::PageOfUnits(uint64_t start, uint64_t count) const {
  return static_cast<PageNumber>(space_ == Space::kScanned ? start
                                                           : g_space.page_count() - start - count);
}
PageNumber PageSpace::FirstPage(BlockId block) const {
  return PageOfUnits(fit_.StartOf(block), fit_.CountOf(block));
}

void PageSpace::SetState(PageNumber first, PageNumber count, PageState state) {
  for (PageNumber i = first; i < first + count; ++i) {
    g_space.info[i].SetState(state);
    g_space.info[i].StoreWord(0);
  }
}

bool PageSpace::Grow(PageNumber count) {
  const platform::SlowPathEvent slow(platform::TracePath::kGrowth);
  // A sixteenth more than there is, so that the number of system calls stays logarithmic.
  PageNumber want = committed_ / 16 > count ? committed_ / 16 : count;
  want = static_cast<PageNumber>(AlignUp(want, kPagesPerChunk));
  if (!g_space.CommitMore(space_, want)) {
    want = static_cast<PageNumber>(AlignUp(count, kPagesPerChunk));
    if (!g_space.CommitMore(space_, want)) return false;
  }
  if (!fit_.Extend(committed_, want)) return false;
  committed_ += want;
  return true;
}

void PageSpace::CommitAhead(size_t bytes) {
  platform::LockGuard guard(lock_);
  const auto want = static_cast<PageNumber>(AlignUp(bytes >> kPageShift, size_t{kPagesPerChunk}));
  if (want <= committed_) return;
  const PageNumber more = want - committed_;
  if (g_space.CommitMore(space_, more) && fit_.Extend(committed_, more)) committed_ = want;
}

PageNumber PageSpace::Allocate(PageNumber count, bool* untouched) {
  bool ignored;
  if (untouched == nullptr) untouched = &ignored;
  if (residency_.initialised()) {
    const Span span = AllocateSpan(count);
    *untouched = span.unknown.begin == span.unknown.end;
    if (span.first != kNoPage) g_space.meta[span.first].block = span.block;
    return span.first;
  }
  bool over_limit = false;
  const PageNumber first = TryAllocate(count, &over_limit, untouched);
  if (GLEANER_LIKELY(first != kNoPage) || !over_limit) return first;
  // The block found has pages that are not resident, and the heap limit has no room for them.
  // Dropping resident free pages elsewhere makes room.
  const size_t dropped = g_scanned.DiscardFree(1) + g_pointer_free.DiscardFree(1);
  return dropped != 0 ? TryAllocate(count, &over_limit, untouched) : kNoPage;
}

BlockId PageSpace::TakeBlock(PageNumber count) {
  const BlockId block = fit_.Allocate(count);
  if (block != TreeFit::kNone) return block;
  return Grow(count) ? fit_.Allocate(count) : TreeFit::kNone;
}

PageNumber PageSpace::TryAllocate(PageNumber count, bool* over_limit, bool* untouched) {
  t_growth_refused = false;
  platform::LockGuard guard(lock_);
  const BlockId block = TakeBlock(count);
  if (block == TreeFit::kNone) return kNoPage;
  // Without metadata for a split the block may be larger than asked.
  const auto got = static_cast<PageNumber>(fit_.CountOf(block));
  const PageNumber first = FirstPage(block);
  const PageNumber fresh = FreshPages(first, got);
  const bool fits = FitsLimit(fresh);
  // Without metadata the block may be larger than `count`. Only `count` is checked then, as
  // Hooks::grow does.
  if (!fits || !MayGrow(fresh < count ? fresh : count)) {
    fit_.Free(block);
    *over_limit = !fits;
    return kNoPage;
  }
  *untouched = fresh == got;
  Take(first, got, fresh);
  g_space.meta[first].block = block;
  return first;
}

PageNumber PageSpace::FreshPages(PageNumber first, PageNumber count) {
  PageNumber fresh = 0;
  for (PageNumber i = first; i < first + count; ++i) fresh += g_space.info[i].resident ? 0 : 1;
  return fresh;
}

bool PageSpace::FitsLimit(PageNumber fresh) {
  return fresh == 0 || g_resident_pages.Load(platform::memory_order_relaxed) + fresh <=
                           LimitPages();  // need not be exact
}

bool PageSpace::MayGrow(PageNumber fresh) {
  t_growth_refused =
      fresh != 0 && g_resident_pages.Load(platform::memory_order_relaxed) + fresh >  // inexact
                        g_growth_limit_pages.Load(platform::memory_order_relaxed);
  return !t_growth_refused;
}

void PageSpace::AddResident(ptrdiff_t pages) {
  g_resident_pages.FetchAdd(static_cast<size_t>(pages),
                            platform::memory_order_relaxed);  // a statistic
  // Relaxed: written under lock_, read as a snapshot.
  resident_.Store(static_cast<PageNumber>(resident_.Load(platform::memory_order_relaxed) + pages),
                  platform::memory_order_relaxed);
}

void PageSpace::Take(PageNumber first, PageNumber count, PageNumber fresh) {
  SetState(first, count, PageState::kTaken);
  for (PageNumber i = first; i < first + count; ++i) {
    if (g_space.info[i].resident) continue;
    g_space.info[i].resident = true;
    g_space.meta[i].toucher = 0;
    if (GLEANER_UNLIKELY(g_space.nodes != nullptr)) NoteNodeOfPage(i, kNoNode);
  }
  if (fresh != 0) AddResident(fresh);
  AddTaken(count);
}

void PageSpace::Free(PageNumber first, Contents contents) {
  if (residency_.initialised()) return FreeSpan(g_space.meta[first].block);
  platform::LockGuard guard(lock_);
  const BlockId block = g_space.meta[first].block;
  const auto count = static_cast<PageNumber>(fit_.CountOf(block));
  SetState(FirstPage(block), count, PageState::kUnused);
  if (!ForgetPlacement(FirstPage(block), count) && contents == Contents::kDropped) {
    // All pages of a span have been resident since it was handed out.
    Drop(FirstPage(block), count);
    AddResident(-static_cast<ptrdiff_t>(count));
  }
  fit_.Free(block);
  AddTaken(-count);
}

PageNumber PageSpace::SpanPages(PageNumber first) {
  platform::LockGuard guard(lock_);
  return static_cast<PageNumber>(fit_.CountOf(g_space.meta[first].block));
}

PageNumber PageSpace::SpanFirst(PageNumber page) {
  platform::LockGuard guard(lock_);
  return FirstPage(g_space.meta[page].block);
}

bool PageSpace::Resize(PageNumber first, PageNumber count) {
  // Blocks of the pointer-free space grow towards lower addresses, which would move the object.
  if (space_ == Space::kPointerFree) return false;
  platform::LockGuard guard(lock_);
  const BlockId block = g_space.meta[first].block;
  const auto old_count = static_cast<PageNumber>(fit_.CountOf(block));
  if (count > old_count) {
    if (!fit_.TryGrow(block, count)) return false;
    const auto now = static_cast<PageNumber>(fit_.CountOf(block));
    const PageNumber fresh = FreshPages(first + old_count, now - old_count);
    if (!FitsLimit(fresh) || !MayGrow(fresh)) {
      fit_.Shrink(block, old_count);
      return false;
    }
    Take(first + old_count, now - old_count, fresh);
  } else if (count < old_count) {
    SetState(first + count, old_count - count, PageState::kUnused);
    ForgetPlacement(first + count, old_count - count);
    fit_.Shrink(block, count);
    AddTaken(static_cast<PageNumber>(fit_.CountOf(block)) - old_count);
  }
  return true;
}

BlockId PageSpace::TakeWaiting(PageNumber count) {
  const BlockId top = waiting_;
  if (top == TreeFit::kNone) return top;
  if (fit_.CountOf(top) != count) {
    FreeWaiting();
    return TreeFit::kNone;
  }
  waiting_ = fit_.OwnerWord(top, kWaitingWord);
  --waiting_count_;
  return top;
}

void PageSpace::FreeWaiting() {
  while (waiting_ != TreeFit::kNone) {
    const BlockId top = waiting_;
    waiting_ = fit_.OwnerWord(top, kWaitingWord);
    fit_.Free(top);
  }
  waiting_count_ = 0;
}

PageSpace::Span PageSpace::AllocateSpan(PageNumber count) {
  platform::LockGuard guard(lock_);
  Span span{kNoPage, TreeFit::kNone, {}};
  if (size_t{taken()} + count > LimitPages()) return span;
  span.block = TakeWaiting(count);
  if (span.block == TreeFit::kNone) span.block = TakeBlock(count);
  if (span.block == TreeFit::kNone) return span;
  // Without metadata for a split the block may be larger than asked.
  const auto got = static_cast<PageNumber>(fit_.CountOf(span.block));
  span.first = FirstPage(span.block);
  __builtin_prefetch(&g_space.info[span.first], 1);  // the caller writes it, likely a miss
  span.unknown = residency_.Take(g_space.AddressOfPage(span.first), size_t{got} << kPageShift);
  AddTaken(got);
  PublishSurplus();
  return span;
}

void PageSpace::FreeSpan(BlockId block) {
  platform::LockGuard guard(lock_);
  const auto count = static_cast<PageNumber>(fit_.CountOf(block));
  residency_.Return(g_space.AddressOfPage(FirstPage(block)), size_t{count} << kPageShift);
  if (waiting_count_ == kMaxWaiting) FreeWaiting();
  fit_.OwnerWord(block, kWaitingWord) = waiting_;
  waiting_ = block;
  ++waiting_count_;
  AddTaken(-count);
  if (residency_.IsDecayDue()) residency_.Decay(platform::CoarseNowNs());
  PublishSurplus();
}

void PageSpace::PublishSurplus() {
  const uint64_t next = residency_.next_step_ns();
  // Relaxed: a hint. Written only if it changes, since all threads read the cache line.
  if (next_step_ns_.Load(platform::memory_order_relaxed) == next) return;
  next_step_ns_.Store(next, platform::memory_order_relaxed);
}

bool PageSpace::DecaySurplus() {
  const uint64_t next = next_step_ns_.Load(platform::memory_order_relaxed);  // a hint
  if (next == Residency::kNever) return false;
  const uint64_t now = platform::CoarseNowNs();
  if (now < next || !lock_.TryAcquire()) return false;  // the lock's holder may be making it
  residency_.Decay(now);
  PublishSurplus();
  lock_.Release();
  return true;
}

bool PageSpace::ResizeSpan(BlockId block, PageNumber count) {
  platform::LockGuard guard(lock_);
  const auto before = static_cast<PageNumber>(fit_.CountOf(block));
  if (count > before) {
    FreeWaiting();
    if (size_t{taken()} + (count - before) > LimitPages()) return false;
    if (!fit_.TryGrow(block, count) &&
        !(fit_.IsLastAllocated(block) && Grow(count - before) && fit_.TryGrow(block, count))) {
      return false;
    }
  } else {
    fit_.Shrink(block, count);
  }
  const auto after = static_cast<PageNumber>(fit_.CountOf(block));
  const Addr begin = g_space.AddressOfPage(FirstPage(block));
  residency_.Return(begin, size_t{before} << kPageShift);
  (void)residency_.Take(begin, size_t{after} << kPageShift);
  AddTaken(after - before);
  PublishSurplus();
  return true;
}

PageNumber PageSpace::FirstOf(BlockId block) {
  platform::LockGuard guard(lock_);
  return FirstPage(block);
}

size_t PageSpace::Trim() {
  platform::LockGuard guard(lock_);
  FreeWaiting();
  fit_.ForEachFree([this](uint64_t start, uint64_t units) {
    const Addr begin = g_space.AddressOfPage(PageOfUnits(start, units));
    residency_.DiscardBetweenBlocks(begin, begin + (size_t{units} << kPageShift));
  });
  const size_t bytes = residency_.Trim();
  PublishSurplus();
  return bytes;
}

size_t PageSpace::IdleBytes() {
  platform::LockGuard guard(lock_);
  return residency_.idle_bytes();
}

size_t PageSpace::DiscardFree(PageNumber min_pages, size_t enough_pages) {
  if (residency_.initialised()) return Trim();
  platform::LockGuard guard(lock_);
  size_t discarded = 0;
  fit_.ForEachFree([&](uint64_t start, uint64_t units) {
    if (units < min_pages || discarded >= enough_pages) return;
    // Drops from the end that is used last: best fit allocates from the other end.
    PageNumber first = kNoPage;
    PageNumber count = 0;
    PageNumber resident = 0;
    while (count < units && discarded + resident < enough_pages) {
      ++count;
      first = PageOfUnits(start + units - count, count);
      const PageNumber next = space_ == Space::kScanned ? first : first + count - 1;
      resident += g_space.info[next].resident ? 1 : 0;
    }
    if (resident == 0) return;
    Drop(first, count);
    discarded += resident;
  });
  AddResident(-static_cast<ptrdiff_t>(discarded));
  return discarded << kPageShift;
}

void PageSpace::Drop(PageNumber first, PageNumber count) {
  platform::Discard(PointerAt<void>(g_space.AddressOfPage(first)), size_t{count} << kPageShift);
  for (PageNumber i = first; i < first + count; ++i) {
    g_space.info[i].needs_zeroing = g_space.info[i].resident = false;
  }
  // Mark bytes of free pages are zero, and read as zero after they are dropped. OS pages that hold
  // mark bytes of other pages, too, stay.
  const Addr begin = AlignUp(AddressOf(g_space.MarksOf(first)), platform::OsPageBytes());
  const Addr end = AlignDown(AddressOf(g_space.MarksOf(first + count)), platform::OsPageBytes());
  if (begin < end) platform::Discard(PointerAt<void>(begin), end - begin);
}

bool PageSpace::ForgetPlacement(PageNumber first, PageNumber count) {
  if (GLEANER_LIKELY(g_space.nodes == nullptr) || NodeOfPage(first) != kPlaced) return false;
  void* memory = PointerAt<void>(g_space.AddressOfPage(first));
  const size_t bytes = size_t{count} << kPageShift;
  const PageNumber resident = count - FreshPages(first, count);
  Drop(first, count);
  AddResident(-static_cast<ptrdiff_t>(resident));
  (void)PlaceUntouched(memory, bytes, Placement{});
  g_space.ApplyPlacement(first, count);
  // The pattern may have asked for small pages. Advice that the memory around has not had would
  // leave a mapping of its own behind.
  if (g_space.WantsHugePages(first)) platform::AdviseHugePages(memory, bytes);
  for (PageNumber page = first; page < first + count; ++page) NoteNodeOfPage(page, kNoNode);
  return true;
}

void PageSpace::CheckForTesting() {
  platform::LockGuard guard(lock_);
  FreeWaiting();
  fit_.CheckForTesting();
  GLEANER_CHECK(taken() + fit_.free_units() == committed_,
                "[inv.page-count] taken %u + free %zu != committed %u", taken(),
                static_cast<size_t>(fit_.free_units()), committed_);
}

}  // namespace gleaner::alloc
