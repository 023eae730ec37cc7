#include "alloc/address_space.h"

#include "alloc/metadata/meta.h"
#include "platform/costs/machine_costs.h"
#include "platform/nodes/topology.h"
#include "platform/os/clock.h"

namespace gleaner::alloc {

constinit AddressSpace g_space;

namespace {

// Huge pages are requested once a space is larger than this: in a smaller space a mostly unused 2
// MiB page would cost more memory than it saves time.
constexpr size_t kHugePagesFromBytes = 16 * kMiB;
// One huge page of mark bytes serves 32 MiB of heap.
constexpr size_t kHugeMarksFromBytes = 64 * kMiB;

constinit platform::Lock g_commit_lock(platform::LockRank::kCommit);

using platform::kHugePageBytes;

// Finds out whether the system provides huge pages quickly, by touching one. After a slow huge page
// (MachineCosts::AreHugePagesSlow) the next few chunks get none, twice as many each time. Guarded
// by g_commit_lock.
class HugePageProbe {
 public:
  // Requests huge pages for [p, p + bytes), which is about to be used for the first time, if they
  // are quick.
  void Advise(void* p, size_t bytes) {
    if (chunks_to_skip_ != 0) {
      --chunks_to_skip_;
      return;
    }
    const uint64_t begin = platform::NowNs();
    platform::AdviseHugePages(p, kHugePageBytes);
    *static_cast<volatile char*>(p) = 0;
    platform::g_machine_costs.SetFirstHugeTouch(platform::NowNs() - begin);
    if (platform::g_machine_costs.AreHugePagesSlow()) {
      chunks_to_skip_ = next_skip_;
      if (next_skip_ < kMaxSkip) next_skip_ *= 2;
    } else {
      next_skip_ = kMinSkip;
      platform::AdviseHugePages(p, bytes);
    }
  }

 private:
  static constexpr uint32_t kMinSkip = 8;
  static constexpr uint32_t kMaxSkip = 512;
  uint32_t chunks_to_skip_ = 0;
  uint32_t next_skip_ = kMinSkip;
};
constinit HugePageProbe g_huge_pages;

// A gap below the heap that is never committed; platform::TrackingConfig::base needs it.
constexpr size_t kGuardBytes = 2 * kMiB;

size_t UsualReservation() {
  constexpr size_t kMin = 64 * kGiB;
  constexpr size_t kMax = 1024 * kGiB;
  const size_t memory = platform::MemoryAndSwapBytes();
  if (memory >= kMax / 4) return kMax;
  return memory <= kMin / 4 ? kMin : AlignUp(4 * memory, kGiB);
}

template <class T>
size_t TableBytes(size_t pages) {
  return AlignUp(pages * sizeof(T), platform::OsPageBytes());
}

size_t NodeTableBytes(size_t pages) { return AlignUp(pages, platform::OsPageBytes()); }

// Commits the OS pages that these bytes lie in.
bool CommitBytes(const void* p, size_t bytes) {
  const Addr begin = AlignDown(AddressOf(p), platform::OsPageBytes());
  const Addr end = AlignUp(AddressOf(p) + bytes, platform::OsPageBytes());
  return platform::Commit(PointerAt<void>(begin), end - begin);
}

// Commits the table's part for these pages. All markers use the tables, so where there are several
// memory nodes the tables lie on all of them evenly: else the node of the thread that has touched
// them first would have to serve all markers (Endo's thesis, mark bits distributed over nodes).
bool CommitTable(void* table, size_t element_bytes, PageNumber first, PageNumber pages) {
  void* part = static_cast<char*>(table) + first * element_bytes;
  if (!platform::Commit(part, pages * element_bytes)) return false;
  if (!g_space.table_nodes.IsEmpty()) {
    (void)platform::SetNodePolicy(part, pages * element_bytes, platform::NodePolicy::kInterleave,
                                  g_space.table_nodes);
  }
  return true;
}

// The nodes on which fresh memory of the heap may be, by the heap's placement and the policy of the
// calling thread.
platform::NodeSet NodesOfHeap(const Placement& placement) {
  if (placement.pattern == Pattern::kBind || placement.pattern == Pattern::kInterleave) {
    return UsableNodes(placement);
  }
  platform::NodeSet nodes;
  const platform::NodePolicy policy = platform::PolicyOfThread(&nodes);
  const bool keeps_to_nodes =
      policy == platform::NodePolicy::kBind || policy == platform::NodePolicy::kInterleave;
  return keeps_to_nodes ? nodes : UsableNodes({});
}

}  // namespace

bool AddressSpace::Init(size_t max_bytes, size_t min_bytes, bool use_huge_pages) {
  huge_pages = use_huge_pages;
  if (platform::HasSeveralNodes()) {
    const platform::NodeSet heap_nodes = NodesOfHeap(placement);
    if (heap_nodes.Count() > 1) table_nodes = heap_nodes;
  }
  if (max_bytes == 0) max_bytes = UsualReservation();
  platform::NoticeAddressSpaceLimit();
  // A heap cannot exceed the limit on address space, so its tables need not cover more.
  const size_t limit = platform::AddressSpaceLimit();
  if (max_bytes > limit) max_bytes = limit;
  constexpr size_t kChunkBytes = size_t{kPagesPerChunk} << kPageShift;
  for (; max_bytes >= min_bytes; max_bytes /= 2) {
    bytes = AlignDown(max_bytes, kChunkBytes);  // both spaces grow by whole chunks
    const size_t pages = bytes >> kPageShift;
    const size_t os_page = platform::OsPageBytes();
    constexpr auto kBothEnds = platform::CommitFrom::kBothEnds;
    void* heap = platform::Reserve(kGuardBytes + bytes, 2 * kMiB, kBothEnds);
    void* infos = platform::ReserveZeroes(TableBytes<PageInfo>(pages), kBothEnds);
    void* metas = platform::Reserve(TableBytes<PageMeta>(pages), os_page, kBothEnds);
    void* mark_table = platform::Reserve(pages * kMarkBytesPerPage, 2 * kMiB, kBothEnds);
    base = heap == nullptr ? 0 : AddressOf(heap) + kGuardBytes;
    info = static_cast<PageInfo*>(infos);
    meta = static_cast<PageMeta*>(metas);
    marks = static_cast<uint8_t*>(mark_table);
    scanned_end.Store(0, platform::memory_order_relaxed);                    // no other thread yet
    pointer_free_begin.Store(page_count(), platform::memory_order_relaxed);  // not shared yet
    if (base != 0 && info != nullptr && meta != nullptr && marks != nullptr &&
        CanCommit(min_bytes)) {
      return true;
    }
    Release();
  }
  return false;
}

void AddressSpace::InitNodes() {
  if (!platform::HasSeveralNodes()) return;
  nodes = static_cast<uint8_t*>(platform::Reserve(
      NodeTableBytes(page_count()), platform::OsPageBytes(), platform::CommitFrom::kBothEnds));
  platform::NodeSet ignored;
  by_node = nodes != nullptr && placement.pattern == Pattern::kLocal &&
            platform::PolicyOfThread(&ignored) == platform::NodePolicy::kLocal;
}

void AddressSpace::ApplyPlacement(PageNumber first, PageNumber pages) const {
  if (placement.pattern == Pattern::kLocal || placement.pattern == Pattern::kBlockCyclic) return;
  // Nobody to tell here: TryPlacement has told what the system says.
  (void)PlaceUntouched(PointerAt<void>(AddressOfPage(first)), size_t{pages} << kPageShift,
                       placement);
}

bool AddressSpace::WantsHugePages(PageNumber page) const {
  // Relaxed: the page is committed, on one side or the other, for good.
  const bool is_scanned = page < scanned_end.Load(platform::memory_order_relaxed);
  const PageNumber from_end = is_scanned ? page : page_count() - 1 - page;
  return huge_pages && (size_t{from_end} + 1) << kPageShift > kHugePagesFromBytes;
}

void AddressSpace::Release() {
  const size_t pages = page_count();
  if (base != 0) platform::Release(PointerAt<void>(base - kGuardBytes), kGuardBytes + bytes);
  if (info != nullptr) platform::Release(info, TableBytes<PageInfo>(pages));
  if (meta != nullptr) platform::Release(meta, TableBytes<PageMeta>(pages));
  if (marks != nullptr) platform::Release(marks, pages * kMarkBytesPerPage);
  if (nodes != nullptr) platform::Release(nodes, NodeTableBytes(pages));
  base = bytes = 0;
  info = nullptr;
  meta = nullptr;
  marks = nodes = nullptr;
  by_node = false;
  scanned_end.Store(0, platform::memory_order_relaxed);         // no other thread uses it
  pointer_free_begin.Store(0, platform::memory_order_relaxed);  // no other thread uses it
  fast_free_end.Store(0, platform::memory_order_relaxed);       // no other thread uses it
}

bool AddressSpace::CanCommit(size_t wanted) {
  if (platform::AddressSpaceLimit() == SIZE_MAX) return true;
  void* p = platform::Reserve(wanted, platform::OsPageBytes());
  if (p == nullptr) return false;
  const bool committed = platform::Commit(p, wanted);
  platform::Release(p, wanted);
  return committed;
}

bool AddressSpace::CommitMore(Space space, PageNumber pages) {
  GLEANER_DCHECK(pages % kPagesPerChunk == 0, "commit of %u pages", pages);
  platform::LockGuard guard(g_commit_lock);
  // Relaxed: written only under g_commit_lock, which this thread holds.
  const PageNumber low = scanned_end.Load(platform::memory_order_relaxed);
  const PageNumber high = pointer_free_begin.Load(platform::memory_order_relaxed);
  if (high - low < pages) return false;
  const PageNumber first = space == Space::kScanned ? low : high - pages;
  if (!CommitTable(info, sizeof(PageInfo), first, pages) ||
      !CommitTable(meta, sizeof(PageMeta), first, pages) ||
      !CommitTable(marks, kMarkBytesPerPage, first, pages) ||
      !platform::Commit(PointerAt<void>(AddressOfPage(first)), size_t{pages} << kPageShift,
                        executable) ||
      (nodes != nullptr && !CommitBytes(nodes + first, pages))) {
    return false;
  }
  ApplyPlacement(first, pages);
  const size_t used = size_t{space == Space::kScanned ? low : page_count() - high} << kPageShift;
  if (used > kHugeMarksFromBytes) {
    platform::AdviseHugePages(&info[first], size_t{pages} * sizeof(PageInfo));
  }
  if (huge_pages && used + (size_t{pages} << kPageShift) > kHugePagesFromBytes) {
    g_huge_pages.Advise(PointerAt<void>(AddressOfPage(first)), size_t{pages} << kPageShift);
    if (used > kHugeMarksFromBytes) {
      platform::AdviseHugePages(MarksOf(first), size_t{pages} * kMarkBytesPerPage);
    }
  }
  // Release, for all three: a thread that loads the new frontier with acquire can use the tables
  // below it.
  if (space == Space::kScanned) {
    scanned_end.Store(low + pages, platform::memory_order_release);
    if (fast_free) fast_free_end.Store(low + pages, platform::memory_order_release);  // usable
  } else {
    pointer_free_begin.Store(high - pages, platform::memory_order_release);  // usable tables
  }
  return true;
}

void AddressSpaceResetLockAfterFork() { g_commit_lock.ResetAfterFork(); }

}  // namespace gleaner::alloc
