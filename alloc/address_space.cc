#include "alloc/address_space.h"

#include "alloc/meta.h"

namespace gleaner::alloc {

constinit AddressSpace g_space;

namespace {

// Huge pages are asked for from this much of a side on: below it, a 2 MiB page mostly unused would
// cost more memory than it saves time.
constexpr size_t kHugePagesFromBytes = 16 * kMiB;
// One huge page of mark bytes serves 32 MiB of heap.
constexpr size_t kHugeMarksFromBytes = 64 * kMiB;

constinit platform::Lock g_commit_lock(platform::LockRank::kCommit);

bool CommitTable(void* table, size_t element_bytes, PageNumber first, PageNumber pages) {
  return platform::Commit(static_cast<char*>(table) + first * element_bytes, pages * element_bytes);
}

}  // namespace

bool AddressSpace::Init(size_t max_bytes, size_t min_bytes, bool use_huge_pages) {
  huge_pages = use_huge_pages;
  const size_t limit = platform::AddressSpaceLimit();
  for (bytes = max_bytes; bytes >= min_bytes; bytes /= 2) {
    if (bytes > limit / 2) continue;  // leave the program room of its own
    const size_t pages = bytes >> kPageShift;
    const size_t os_page = platform::OsPageBytes();
    const size_t info_bytes = AlignUp(pages * sizeof(PageInfo), os_page);
    const size_t meta_bytes = AlignUp(pages * sizeof(PageMeta), os_page);
    void* heap = platform::Reserve(bytes, 2 * kMiB);
    void* infos = platform::ReserveZeroes(info_bytes);
    void* metas = platform::Reserve(meta_bytes, os_page);
    void* mark_table = platform::Reserve(pages * kMarkBytesPerPage, 2 * kMiB);
    if (heap != nullptr && infos != nullptr && metas != nullptr && mark_table != nullptr) {
      base = AddressOf(heap);
      info = static_cast<PageInfo*>(infos);
      meta = static_cast<PageMeta*>(metas);
      marks = static_cast<uint8_t*>(mark_table);
      scanned_end.Store(0, platform::memory_order_relaxed);  // no other thread yet
      pointer_free_begin.Store(page_count(), platform::memory_order_relaxed);  // likewise
      return true;
    }
    if (heap != nullptr) platform::Release(heap, bytes);
    if (infos != nullptr) platform::Release(infos, info_bytes);
    if (metas != nullptr) platform::Release(metas, meta_bytes);
    if (mark_table != nullptr) platform::Release(mark_table, pages * kMarkBytesPerPage);
  }
  bytes = 0;
  return false;
}

bool AddressSpace::CommitMore(Side side, PageNumber pages) {
  GLEANER_DCHECK(pages % kPagesPerChunk == 0, "commit of %u pages", pages);
  platform::LockGuard guard(g_commit_lock);
  // Relaxed: written under the lock that is held.
  const PageNumber low = scanned_end.Load(platform::memory_order_relaxed);
  const PageNumber high = pointer_free_begin.Load(platform::memory_order_relaxed);
  if (high - low < pages) return false;
  const PageNumber first = side == Side::kScanned ? low : high - pages;
  if (!CommitTable(info, sizeof(PageInfo), first, pages) ||
      !CommitTable(meta, sizeof(PageMeta), first, pages) ||
      !CommitTable(marks, kMarkBytesPerPage, first, pages) ||
      !platform::Commit(PointerAt<void>(AddressOfPage(first)), size_t{pages} << kPageShift,
                        executable)) {
    return false;
  }
  const size_t used = size_t{side == Side::kScanned ? low : page_count() - high} << kPageShift;
  if (huge_pages && used + (size_t{pages} << kPageShift) > kHugePagesFromBytes) {
    platform::AdviseHugePages(PointerAt<void>(AddressOfPage(first)), size_t{pages} << kPageShift);
    if (used > kHugeMarksFromBytes) {
      platform::AdviseHugePages(MarksOf(first), size_t{pages} * kMarkBytesPerPage);
    }
  }
  // Release: a sweep or a root scan that sees the new frontier (acquire) sees usable tables.
  if (side == Side::kScanned) {
    scanned_end.Store(low + pages, platform::memory_order_release);
  } else {
    pointer_free_begin.Store(high - pages, platform::memory_order_release);
  }
  return true;
}

void AddressSpaceResetLockAfterFork() { g_commit_lock.ResetAfterFork(); }

}  // namespace gleaner::alloc
