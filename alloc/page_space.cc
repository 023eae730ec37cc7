#include "alloc/page_space.h"

#include "alloc/hooks.h"
#include "alloc/page_node.h"
#include "alloc/span_space.h"
#include "observe/events.h"
#include "platform/os/memory.h"
#include "platform/os/stalls.h"

namespace gleaner::alloc {
namespace {

constinit TreeFit g_scanned_fit;
constinit TreeFit g_pointer_free_fit;
constinit PageSpace g_scanned(Space::kScanned, &g_scanned_fit);
constinit PageSpace g_pointer_free(Space::kPointerFree, &g_pointer_free_fit);

// A statistic and two limits. No decision needs them exact to the page.
constinit platform::Count<size_t> g_resident_pages{0};
constinit platform::Hint<size_t> g_limit_bytes{0};
constinit platform::Hint<size_t> g_growth_limit_pages{SIZE_MAX};
constinit __thread bool t_growth_refused __attribute__((tls_model("initial-exec"))) = false;

PageCount WholeChunks(PageCount pages) { return PageCount(AlignUp(pages.value(), kPagesPerChunk)); }

}  // namespace

constinit SpanSpace g_spans(g_scanned);

PageSpace& PageSpaceOf(Space space) {
  return space == Space::kScanned ? g_scanned : g_pointer_free;
}

bool InitPageSpaces(FitPolicy policy) {
  return g_scanned.Init(policy) && g_pointer_free.Init(policy);
}

void SetHeapLimit(size_t bytes) { g_limit_bytes.Set(bytes); }
size_t HeapLimit() { return g_limit_bytes.Get(); }
size_t HeapLimitPages() {
  const size_t bytes = HeapLimit();
  return bytes == 0 ? SIZE_MAX : bytes >> kPageShift;
}
void LimitGrowth(size_t resident_bytes) { g_growth_limit_pages.Set(resident_bytes >> kPageShift); }
size_t GrowthLimit() { return g_growth_limit_pages.Get() << kPageShift; }
bool MakeRoom(size_t bytes, Attempts* attempts) {
  // The limit itself cannot tell, since another thread's collection may have moved it meanwhile.
  if (!t_growth_refused) return g_hooks.exhausted(bytes, attempts);
  t_growth_refused = false;
  g_hooks.grow(bytes, *attempts);
  return true;
}
size_t ResidentBytes() { return g_resident_pages.Get() << kPageShift; }
const platform::Count<size_t>& ResidentPages() { return g_resident_pages; }

bool PageSpace::Init(FitPolicy policy) {
  // At worst every page is a block of its own.
  return fit_.Init(policy, g_space.page_count());
}

// Units are pages counted from the space's own end of the reservation.
PageNumber PageSpace::PageOfUnits(uint64_t start, uint64_t count) const {
  return static_cast<PageNumber>(space_ == Space::kScanned ? start
                                                           : g_space.page_count() - start - count);
}
PageNumber PageSpace::FirstPage(BlockId block) const {
  return PageOfUnits(fit_.StartOf(block), fit_.CountOf(block));
}

void PageSpace::SetState(PageNumber first, PageCount count, PageState state) {
  for (PageNumber i = first; i < first + count; ++i) {
    g_space.info[i].SetState(state);
    g_space.info[i].StoreWord(0);
  }
}

bool PageSpace::Grow(PageCount count) {
  const platform::SlowPathEvent slow(platform::TracePath::kGrowth);
  // A sixteenth more than there is, so that the number of system calls stays logarithmic.
  const PageCount share(committed_.value() / 16);
  PageCount want = WholeChunks(share > count ? share : count);
  if (!g_space.CommitMore(space_, want.value())) {
    want = WholeChunks(count);
    if (!g_space.CommitMore(space_, want.value())) return false;
  }
  if (!fit_.Extend(committed_.value(), want.value())) return false;
  committed_ = committed_ + want;
  return true;
}

void PageSpace::CommitAhead(size_t bytes) {
  platform::LockGuard guard(lock_);
  const PageCount want = WholeChunks(PageCount(bytes >> kPageShift));
  if (want <= committed_) return;
  const uint32_t more = (want - committed_).value();
  if (g_space.CommitMore(space_, more) && fit_.Extend(committed_.value(), more)) committed_ = want;
}

PageNumber PageSpace::Allocate(PageCount count, bool* untouched) {
  bool ignored;
  if (untouched == nullptr) untouched = &ignored;
  if (spans_ != nullptr) return spans_->AllocateNamedByPage(count, untouched);
  bool over_limit = false;
  const PageNumber first = TryAllocate(count, &over_limit, untouched);
  if (GLEANER_LIKELY(first != kNoPage) || !over_limit) return first;
  // The block found has pages that are not resident, and the heap limit has no room for them.
  // Dropping resident free pages elsewhere makes room.
  const size_t dropped =
      g_scanned.DiscardFree(PageCount(1)) + g_pointer_free.DiscardFree(PageCount(1));
  return dropped != 0 ? TryAllocate(count, &over_limit, untouched) : kNoPage;
}

BlockId PageSpace::TakeBlock(PageCount count) {
  const BlockId block = fit_.Allocate(count.value());
  if (block != TreeFit::kNone) return block;
  return Grow(count) ? fit_.Allocate(count.value()) : TreeFit::kNone;
}

PageNumber PageSpace::TryAllocate(PageCount count, bool* over_limit, bool* untouched) {
  t_growth_refused = false;
  platform::LockGuard guard(lock_);
  const BlockId block = TakeBlock(count);
  if (block == TreeFit::kNone) return kNoPage;
  // Without metadata for a split the block may be larger than asked.
  const PageCount got = PagesOf(block);
  const PageNumber first = FirstPage(block);
  const PageCount fresh = FreshPages(first, got);
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

PageCount PageSpace::FreshPages(PageNumber first, PageCount count) {
  uint32_t fresh = 0;
  for (PageNumber i = first; i < first + count; ++i) fresh += g_space.info[i].resident ? 0 : 1;
  return PageCount(fresh);
}

bool PageSpace::FitsLimit(PageCount fresh) {
  return fresh == PageCount() || g_resident_pages.Get() + fresh.value() <= HeapLimitPages();
}

bool PageSpace::MayGrow(PageCount fresh) {
  t_growth_refused =
      fresh != PageCount() && g_resident_pages.Get() + fresh.value() > g_growth_limit_pages.Get();
  return !t_growth_refused;
}

void PageSpace::AddResident(PageCount pages) {
  g_resident_pages.Add(pages.value());
  resident_.Set((PageCount(resident_.Get()) + pages).value());
}
void PageSpace::SubtractResident(PageCount pages) {
  g_resident_pages.Subtract(pages.value());
  resident_.Set((PageCount(resident_.Get()) - pages).value());
}

void PageSpace::Take(PageNumber first, PageCount count, PageCount fresh) {
  SetState(first, count, PageState::kTaken);
  for (PageNumber i = first; i < first + count; ++i) {
    if (g_space.info[i].resident) continue;
    g_space.info[i].resident = true;
    g_space.meta[i].toucher = 0;
    if (GLEANER_UNLIKELY(g_space.nodes != nullptr)) SetNodeOfPage(i, kNoNode);
  }
  if (fresh != PageCount()) AddResident(fresh);
  SetTaken(taken() + count);
}

void PageSpace::Free(PageNumber first, Freed contents) {
  if (spans_ != nullptr) return spans_->Free(g_space.meta[first].block);
  platform::LockGuard guard(lock_);
  const BlockId block = g_space.meta[first].block;
  const PageCount count = PagesOf(block);
  SetState(FirstPage(block), count, PageState::kUnused);
  if (!ForgetPlacement(FirstPage(block), count) && contents == Freed::kIsDropped) {
    // All pages of a span have been resident since it was handed out.
    Drop(FirstPage(block), count);
    SubtractResident(count);
  }
  fit_.Free(block);
  SetTaken(taken() - count);
}

PageCount PageSpace::SpanPages(PageNumber first) {
  platform::LockGuard guard(lock_);
  return PagesOf(g_space.meta[first].block);
}

PageNumber PageSpace::SpanFirst(PageNumber page) {
  platform::LockGuard guard(lock_);
  return FirstPage(g_space.meta[page].block);
}

bool PageSpace::Resize(PageNumber first, PageCount count) {
  // Blocks of the pointer-free space grow towards lower addresses, which would move the object.
  if (space_ == Space::kPointerFree) return false;
  platform::LockGuard guard(lock_);
  const BlockId block = g_space.meta[first].block;
  const PageCount old_count = PagesOf(block);
  if (count > old_count) {
    if (!fit_.TryGrow(block, count.value())) return false;
    const PageCount more = PagesOf(block) - old_count;
    const PageCount fresh = FreshPages(first + old_count, more);
    if (!FitsLimit(fresh) || !MayGrow(fresh)) {
      fit_.Shrink(block, old_count.value());
      return false;
    }
    Take(first + old_count, more, fresh);
  } else if (count < old_count) {
    SetState(first + count, old_count - count, PageState::kUnused);
    ForgetPlacement(first + count, old_count - count);
    fit_.Shrink(block, count.value());
    SetTaken(taken() - (old_count - PagesOf(block)));
  }
  return true;
}

size_t PageSpace::DiscardFree(PageCount min_pages, size_t enough_pages) {
  if (spans_ != nullptr) return spans_->Trim();
  platform::LockGuard guard(lock_);
  size_t discarded = 0;
  fit_.ForEachFree([&](uint64_t start, uint64_t units) {
    if (units < min_pages.value() || discarded >= enough_pages) return;
    // Drops from the end that is used last: best fit allocates from the other end.
    PageNumber first = kNoPage;
    uint32_t count = 0;
    uint32_t resident = 0;
    while (count < units && discarded + resident < enough_pages) {
      ++count;
      first = PageOfUnits(start + units - count, count);
      const PageNumber next = space_ == Space::kScanned ? first : first + count - 1;
      resident += g_space.info[next].resident ? 1 : 0;
    }
    if (resident == 0) return;
    Drop(first, PageCount(count));
    discarded += resident;
  });
  SubtractResident(PageCount(discarded));
  return discarded << kPageShift;
}

void PageSpace::Drop(PageNumber first, PageCount count) {
  platform::Discard(PointerAt<void>(g_space.AddressOfPage(first)), count.bytes());
  for (PageNumber i = first; i < first + count; ++i) {
    g_space.info[i].needs_zeroing = g_space.info[i].resident = false;
  }
  // Mark bytes of free pages are zero, and read as zero after they are dropped. OS pages that hold
  // mark bytes of other pages, too, stay.
  const Addr begin = AlignUp(AddressOf(g_space.MarksOf(first)), platform::OsPageBytes());
  const Addr end = AlignDown(AddressOf(g_space.MarksOf(first + count)), platform::OsPageBytes());
  if (begin < end) platform::Discard(PointerAt<void>(begin), end - begin);
}

bool PageSpace::ForgetPlacement(PageNumber first, PageCount count) {
  if (GLEANER_LIKELY(g_space.nodes == nullptr) || NodeOfPage(first) != kPlaced) return false;
  void* memory = PointerAt<void>(g_space.AddressOfPage(first));
  const size_t bytes = count.bytes();
  const PageCount resident = count - FreshPages(first, count);
  Drop(first, count);
  SubtractResident(resident);
  (void)PlaceUntouched(memory, bytes, Placement{});
  g_space.ApplyPlacement(first, count.value());
  // The pattern may have asked for small pages. Advice that the memory around has not had would
  // leave a mapping of its own behind.
  if (g_space.WantsHugePages(first)) platform::AdviseHugePages(memory, bytes);
  for (PageNumber page = first; page < first + count; ++page) SetNodeOfPage(page, kNoNode);
  return true;
}

void PageSpace::CheckForTesting() {
  platform::LockGuard guard(lock_);
  if (spans_ != nullptr) spans_->FreeWaiting();
  fit_.CheckForTesting();
  GLEANER_CHECK(taken().value() + fit_.free_units() == committed_.value(),
                "[inv.page-count] taken %u + free %zu != committed %u", taken().value(),
                static_cast<size_t>(fit_.free_units()), committed_.value());
}

}  // namespace gleaner::alloc
