// Sweep: from mark bytes to page lists, without touching an object.
//
// With the world stopped, after the flip of the epoch and the revival of the threads' runs: the
// mark bytes of every page are normalised (bytes of dead slots become 0) and counted, and the page
// is classified:
//
//   no live slot            free page of its owner (or of the shared list, policy PS)
//   enough free slots       partial page of its owner
//   else                    full: unlisted until objects in it are freed
//   a thread's current page stays where it is
//
// Free runs are found later, by the allocating thread, one by one.
//
// Concurrent sweep: in the stop the number of the sweep is raised, which makes all pages unswept,
// and the threads' current pages are swept. The other pages are swept afterwards, in steps, by
// threads that need pages, by the driver, and by the thread that collects next. Until all steps are
// done alloc::g_dead_mark has the values of dead slots. Rules, besides [inv.swept-list]:
//   - only dead bytes are written: GC_free may turn live bytes into 0 meanwhile;
//   - a thread claims the pages of a step, so each page has one sweeper. A large object is freed by
//     the thread that turns its byte from dead into 0. (A byte of 0 may be a GC_free under way. If
//     a fork cut that GC_free off, the next sweep in a stop frees the object.)
//   - the order of stores is bytes, listing, swept (release), list. In the child of a fork all
//     steps begin again; a page whose step was cut off is unswept or, at worst, on no list;
//   - a mutator sweeps in a critical section, so no step is under way in a stop.
//
// An unreachable object whose kind has a disclaim procedure is not freed in the sweep: its byte
// becomes kDisclaiming. When the world runs again, with the collector lock held, Disclaim calls the
// procedure, which may touch the object and what it refers to and may take locks. Then the byte
// becomes the epoch, or the slot is freed as by GC_free. The totals count such an object as free,
// so freeing it is not counted. While there are such kinds, sweeps are done in the stop.
//
// Call order: Begin, Run by each worker, Disclaim; or BeginConcurrentWorldStopped, Step until it
// returns false, and when IsDone EndConcurrent and TotalsOfSteps. Begin,
// BeginConcurrentWorldStopped and EndConcurrent under the collector lock.
#pragma once

#include "alloc/address_space.h"
#include "platform/os/lock.h"

namespace gleaner::gc {

struct alignas(kCacheLineBytes) SweepTotals {
  uint64_t live_scanned_bytes = 0;  // in live objects that may hold pointers
  uint64_t live_pointer_free_bytes = 0;
  uint64_t live_objects = 0;
  uint64_t used_pages = 0;  // pages with live objects

  void Add(const SweepTotals& other) {
    live_scanned_bytes += other.live_scanned_bytes;
    live_pointer_free_bytes += other.live_pointer_free_bytes;
    live_objects += other.live_objects;
    used_pages += other.used_pages;
  }
  uint64_t live_bytes() const { return live_scanned_bytes + live_pointer_free_bytes; }
};

class Sweeper {
 public:
  // Before the workers start. Frees the slots whose mark byte has a bit of `dead`, and no others.
  void Begin(uint8_t dead);
  // Any worker: sweeps until no page is left to claim, adding to `totals`.
  void Run(SweepTotals* totals);
  // Calls the disclaim procedures. pre: the sweep is over, the world runs, the collector lock is
  // held.
  void Disclaim();
  // Pages that this sweep covers.
  size_t pages() const { return pages_; }

  // --- The concurrent sweep ---
  // After the flip, with the world stopped; runs are revived and lists dropped.
  void BeginConcurrentWorldStopped(uint8_t dead);
  // Sweeps kPagesPerStep pages. False if none is left to claim. Any thread; a mutator in a critical
  // section.
  bool Step();
  // Whether BeginConcurrentWorldStopped was called and EndConcurrent was not. Any thread: a hint
  // without the collector lock.
  bool IsConcurrent() const {
    return is_concurrent_.Load(platform::memory_order_relaxed);  // the stop orders what Step reads
  }
  // Whether all steps are done.
  bool IsDone() const {
    // Acquire: pairs with the end of each step, whose totals and bytes are then visible.
    return steps_left_.Load(platform::memory_order_acquire) == 0;
  }
  // Pages of steps that are not done. Any thread: a snapshot.
  size_t UnsweptPages() const {
    // Relaxed: nothing is read that the steps have written.
    return IsConcurrent() ? steps_left_.Load(platform::memory_order_relaxed) * kPagesPerStep : 0;
  }
  // Guarded by the collector lock. pre: IsDone().
  void EndConcurrent();
  // The sum of the steps' totals. False if a fork has cut off some steps. Guarded by the collector
  // lock. pre: IsDone().
  bool TotalsOfSteps(SweepTotals* totals) const;
  void ResetAfterFork();

 private:
  static constexpr size_t kPagesPerClaim = 256;
  static constexpr size_t kPagesPerStep = 16;  // some 2 us

  bool Claim(size_t pages, alloc::PageNumber* begin, alloc::PageNumber* end);
  void SweepConcurrently(alloc::PageNumber page, SweepTotals* totals);

  void SweepPages(alloc::PageNumber begin, alloc::PageNumber end, SweepTotals* totals);
  void SweepPage(alloc::PageNumber page, SweepTotals* totals);
  uint32_t MarkForDisclaim(alloc::PageNumber page, uint32_t slots);

  uint8_t dead_ = 0;                 // values of dead slots, as a mask
  size_t pages_ = 0;                 // pages to sweep
  alloc::PageNumber begin_[2] = {};  // committed pages, by space
  alloc::PageNumber end_[2] = {};
  platform::Tickets<size_t> next_{0};  // claims of pages

  platform::Atomic<bool> is_concurrent_{false};  // written under the collector lock
  platform::Atomic<size_t> steps_left_{0};
  bool totals_are_whole_ = true;  // no fork has cut off a step
  // Guards totals_, the sum of the steps' totals. The end of each step publishes it by steps_left_.
  platform::Lock totals_lock_{platform::LockRank::kOwner};
  SweepTotals totals_;
};

}  // namespace gleaner::gc
