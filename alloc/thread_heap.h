// A thread's part of the heap: bump runs, partial pages and free pages, and the policies by which
// free pages move between threads (Endo's thesis, allocator: AL, PS, LPS).
//
// Allocation. The thread bumps a pointer through a *run*: adjacent free slots of one page, found in
// the page's mark bytes and set to the mark of new objects in one fill when the run is taken. A
// page without objects is one run and is not searched [inv.free-page]. Memory is zeroed a *window*
// ahead. With a heap profile a window also ends before the next object to be sampled (sampler.h).
// Runs are used downwards:
//
//        | not searched yet | run taken: bytes = g_allocation_colour                    |... page
//                           | run, not zeroed | window, zeroed    | handed out |
//                           ^ run.begin       ^ bump.limit        ^ bump.cur
//
// Downwards, because a root that points to the base of an object also keeps the slot below it, as a
// pointer one past that slot's end. With downward allocation that slot holds the object allocated
// next, often a child. With upward allocation it holds the object allocated before, which may be
// the root of a dead structure (measured: GCBench then keeps its dead stretch tree, 16 MB, for
// ever).
//
// What the collector does with a stopped thread's runs [inv.run]: the fast path may have been
// stopped between loading bump.cur and storing it, so [limit, cur) stays the thread's across a
// collection: free while the collector marks, with the mark of new objects afterwards. The thread
// reaches [begin, limit) only through the slow path, a critical section, so the collector takes it
// back by moving run.begin to bump.limit.
//
// What the child of a fork does with the runs of the parent's other threads. Such a thread may have
// been at any step of its slow path; the child sees its stores up to one of them, in order. The
// order is such that [begin, cur), if it is a range of slots of run.page, holds unused slots only,
// and all of them that are marked. The child gives these slots back, as when a thread ends.
//   - A run is taken (TakeRun) by storing cur and limit, then begin, then the marks. After the
//     first store cur is not above the old begin, which is above or at the new run's end, or is
//     kNoRun, which is below all pages: there is no range. After the second the range is the new
//     run: its marks are still 0 or some are set, and no other thread allocates in the page.
//   - A page is left by forgetting it, or without unused slots: cur = begin.
//   - A page is begun by setting cur and begin to kNoRun, then run.page.
//   - The fast path stores cur before the program gets the slot.
// An object that was handed out and has not reached the program yet has no reference.
//
// On a miss the thread tries in this order: the rest of the run, the next run of the page, its
// partial pages, one step of a concurrent sweep, its free pages, more steps of that sweep, partial
// pages of abandoned heaps, and then by policy:
//   AL   all-local: new pages from the system.
//   PS   page-shared: free pages live in one shared list; then new pages.
//   LPS  locality-aware page-shared: if taking a new page would raise consumption above k * max(l),
//        free pages of other threads, else new pages. l is the number of pages in use (what PS
//        would consume), max over the run so far [inv.lps-bound].
// When the system has no more pages, free pages of other threads serve under any policy.
//
// Where there are several memory nodes (page_node.h), a thread wants pages of its node. Under LPS
// each node has a list of free pages besides those of the threads: pages whose memory is on the
// node, and whose last owner runs elsewhere. A thread looks there before it takes new pages, and
// takes pages of others, if it must, from the nearest node first. Under AL it takes no page of
// another node at all while the system has more.
#pragma once

#include "alloc/address_space.h"
#include "alloc/page_node.h"
#include "alloc/sampler.h"
#include "platform/os/lock.h"

namespace gleaner::alloc {

enum class Policy : uint8_t { kLps, kAllLocal, kPageShared };

struct Bump {
  Addr cur;
  Addr limit;
  size_t slot_bytes;
};

struct Run {
  Addr begin;
  PageNumber page;
  uint32_t next_slot;  // the search for the next run continues below this slot
  bool known_zero;
  uint16_t taken;  // slots of the page taken in runs, and still counted as free [inv.free-slots]
  // Free slots that the page counted when the thread took it; 0 if a sweep has counted since.
  uint16_t counted;
};

// cur and limit of a bump without a run. At least the largest slot, since TryBump subtracts before
// it compares; below every page, since GiveBackAfterFork tells a run from none by its address. An
// exhausted bump has cur = limit.
inline constexpr Addr kNoRun = kPageBytes;
static_assert(kNoRun >= kMaxSmallBytes);

// Whether a page's free slots are so many that the page is worth a search for them.
inline constexpr uint32_t kShareOfFree = 8;  // of what GC_free gives back
constexpr bool IsWorthListing(uint32_t free, uint32_t slots, uint32_t share) {
  return free != 0 && free * share >= slots;
}

class ThreadHeap {
 public:
  // Makes the placeholder of threads that have no heap yet.
  constexpr ThreadHeap();
  // pre: in zeroed memory.
  explicit ThreadHeap(uint16_t index);

  // The fast path: the next slot of the window, if there is one. No atomics, no shared memory, no
  // calls. Owner thread only.
  GLEANER_ALWAYS_INLINE bool TryBump(Kind kind, size_t size_class, void** out) {
    Bump& bump = bumps[static_cast<size_t>(kind)][size_class];
    const Addr p = bump.cur - bump.slot_bytes;
    if (GLEANER_UNLIKELY(p < bump.limit)) return false;
    bump.cur = p;
    *out = PointerAt<void>(p);
    return true;
  }
  // Memory for a slot; null when the heap is exhausted. May collect. Owner thread only, outside
  // critical sections.
  void* Allocate(Kind kind, size_t size_class) {
    void* p;
    if (GLEANER_UNLIKELY(static_cast<size_t>(kind) >= kinds_)) PrepareKinds(kind);
    return GLEANER_LIKELY(TryBump(kind, size_class, &p)) ? p : AllocateSlow(kind, size_class);
  }
  // Memory for a slot without a collection; null if that is not possible. Owner thread only. pre:
  // the thread has had memory of the kind; inside a critical section.
  void* TryAllocate(Kind kind, size_t size_class);

  // Reports what was allocated since the last report if that is g_poll_bytes or more, less what was
  // freed. May run a step of a cycle, a collection, and the program's finalizers on the caller's
  // stack. Owner thread only, no lock held, outside critical sections.
  void Poll();

  // --- For the collector, with the world stopped. ---
  // Takes the part of each run back that the thread's fast path cannot reach, and hides the rest
  // from the marker (head of this file).
  void RetireRunsWorldStopped();
  // Gives the slots that the thread still holds the mark of new objects (g_allocation_colour). Only
  // the heap's own thread need be stopped.
  void ReviveRunsStopped();
  // Calls f(page) for each page the thread allocates in.
  template <class F>
  void ForEachCurrentPageWorldStopped(const F& f) const {
    for (size_t kind = 0; kind < kinds_; ++kind) {
      for (const Run& run : runs[kind]) {
        if (run.page != kNoPage) f(run.page);
      }
    }
  }
  // Empties the lists of partial pages; the sweep builds them anew.
  void DropListsWorldStopped();
  // Adds a page to the list of its kind and class. The page's standing says kPartial already. By
  // any of the threads that sweep.
  void PushPartialWorldStopped(PageNumber page);
  // Adds a page to the free pages. Any thread, several at once.
  void PushFree(PageNumber page);
  // Gives the heap's free pages back to the page space. Any thread.
  void FlushFreePages(Space space);
  // Puts a page that is swept and not current where its free slots say: to the free pages if all
  // are free, unless a cycle marks concurrently; to the partial pages if one part in `share` is.
  // False, and nothing is done, if the heap does not own the page. Any thread.
  bool Settle(PageNumber page, uint32_t share);
  // Ends the concurrent sweep of a page of the heap's, in which the sweeper has turned `cleared`
  // mark bytes to 0, and settles the page. The page's sweeper only.
  void EndSweep(PageNumber page, uint32_t cleared, uint32_t share);
  // Returns a page without objects, in state kTaken: one of the thread's free pages, or one from
  // where the policy says. kNoPage if there is none. Owner thread only.
  PageNumber TakeFree(Space space);

  // --- The page lists. ---
  PageNumber free_pages(Space space) const { return free_count_[static_cast<size_t>(space)].Get(); }

  // Owner thread, and the collector with the world stopped.
  Bump bumps[kMaxKinds][kClassCount];
  Run runs[kMaxKinds][kClassCount];
  ptrdiff_t unpolled_bytes = 0;  // allocated less freed since the last report (Poll)
  // Counts. The owner adds to them (AddToOwn), any thread may read them.
  uint64_t allocated_bytes = 0;  // since the heap was made; runs count when taken
  uint64_t freed_bytes = 0;      // by GC_free
  uint64_t pages_taken = 0;      // in which the thread has begun to allocate small objects
  uint64_t remote_pages = 0;     // of these, another thread had touched first

  // The span that the owner has taken and has not made a large object of yet. The owner does that
  // outside critical sections, so a signal handler may fork in between: the child then continues
  // with the span. Owner thread only.
  PageNumber span_in_hand = kNoPage;

  // Null unless the heap profile samples. The pointer is constant once the heap has an owner; then
  // the owner uses the sampler.
  Sampler* sampler = nullptr;

  uint16_t index = 0;  // constant

  // The node on which the owner ran when it last needed a page; of the list of a node, that node.
  // kNoNode where there is one. Any thread reads it.
  NodeMark node() const { return node_.Get(); }

 private:
  friend class ThreadHeaps;

  constexpr void ResetRow(size_t kind);
  // Prepares the rows up to this kind. The memory of unused kinds' rows is never touched.
  GLEANER_COLD void PrepareKinds(Kind last);
  GLEANER_NOINLINE void* AllocateSlow(Kind kind, size_t size_class);
  void OpenWindow(Kind kind, size_t size_class, Bump& bump, const Run& run);
  GLEANER_NOINLINE void OpenSampledWindow(Kind kind, size_t size_class, Bump& bump, const Run& run);
  // Finds the next run of run.page, and takes it; false if the page has no free slot left.
  bool TakeNextRun(Bump& bump, Run& run);
  // Takes the slots [begin, end) of run.page, which are free, as the run.
  void TakeRun(Bump& bump, Run& run, uint32_t begin, uint32_t end);
  // The slots [begin, end) that the thread holds and has not handed out, and the mark bytes of
  // their page.
  struct Unused {
    uint8_t* marks;
    uint32_t begin;
    uint32_t end;
  };
  static Unused UnusedOf(const Bump& bump, const Run& run);
  // The page to allocate in next, kNoPage if there is none, and whether it has no objects.
  PageNumber NextPage(Kind kind, size_t size_class, Run& run, bool* is_empty);
  // A partial page of the thread's; sweeps for one if there is none.
  PageNumber FindPartial(Kind kind, size_t size_class);
  void Format(PageNumber page, Kind kind, size_t size_class, Run& run);
  void CountPage(PageNumber page);
  // Where there are several nodes: records on which one the owner runs.
  void RecordNode();
  // Whether the page's memory is known to be on another node.
  bool IsElsewhere(PageNumber page) const;
  // Gives up run.page, of which `taken` slots are not free any more, and settles it.
  void StopUsing(Run& run, int taken, uint32_t share);
  void Retire();
  // In the child of a fork, where the owner has vanished at any of its steps: frees its unused
  // slots and forgets its pages.
  void GiveBackAfterFork();
  // Takes a partial page for the heap `taker`: the page is current then.
  PageNumber PopPartial(Kind kind, size_t size_class, const ThreadHeap& taker);
  // All: under lock_. SettleLocked returns whether the caller is to put the page, which has become
  // free, on another heap's list.
  bool SettleLocked(PageNumber page, Standing now, uint32_t share);
  PageNumber PopPartialLocked(Kind kind, size_t size_class, const ThreadHeap& taker);
  void PushPartialLocked(PageNumber page);
  void UnlinkPartialLocked(PageNumber page);
  void PushFreeLocked(PageNumber page);
  PageNumber PopFree(Space space);
  // A page for TakeFresh, from the page space.
  PageNumber TakeFromSpace(Space space, bool* untouched, PageNumber* given_away);
  // Where TakeFree looks when the thread has no free page.
  PageNumber TakeFreeOfOthers(Space space);
  PageNumber TakeFresh(Space space);
  // Aborts if a list of partial or free pages is broken. Returns the number of pages on the lists
  // of partial pages.
  size_t CheckListsForTesting() const;

  // Heads of the lists of partial pages. Written under lock_, or with the world stopped.
  platform::Atomic<PageNumber> partial_[kMaxKinds][kClassCount];

  platform::Lock lock_{platform::LockRank::kOwner};
  // Rows of bumps, runs and partial_ that are ready. Written by the owner only; grows.
  size_t kinds_ = kBuiltInKinds;

  PageNumber free_head_[2];                   // guarded by lock_
  platform::Hint<PageNumber> free_count_[2];  // written under lock_
  platform::Hint<bool> abandoned_{false};     // written under lock_
  // Written by the owner, or before another thread knows the heap.
  platform::Hint<NodeMark> node_{kNoNode};
  PageNumber batch_ = 1;  // pages per TakeFresh; owner, or stopped world
};

// The calling thread's heap. A thread that has none yet has a placeholder whose every bump is
// exhausted, so that the fast path needs no test for null.
extern __thread ThreadHeap* t_heap;
// The placeholder.
extern ThreadHeap g_no_heap;

}  // namespace gleaner::alloc
