// Sweep: from mark bytes to page lists, without touching an object.
//
// With the world stopped, after the epoch was flipped and the threads' runs restored: every page's
// bytes are normalised (what is not live becomes 0) and counted, and the page is classified:
//
//   no live slot            free page of its owner (or of the shared list, policy PS)
//   enough free slots       partial page of its owner
//   else                    full: unlisted until objects in it are freed
//   a thread's current page stays where it is
//
// Free runs are found later, by the allocating thread, one by one.
//
// Beside the program: the number of the sweep is raised in the stop, which makes all pages unswept,
// the threads' current pages are swept there, and the rest afterwards, in steps, by threads that
// need pages and by whoever collects next. Until all steps are done dead slots are told by
// alloc::g_dead_mark. Rules, besides [inv.swept-list]:
//   - only dead bytes are written: GC_free may turn live ones into 0 meanwhile;
//   - a page is claimed with its step, so by one thread; a large object is freed by whoever
//     turns its byte from dead into 0. (A byte of 0 may be a GC_free under way. If a fork cut that
//     off, the next sweep in a stop frees the object.)
//   - in the order bytes, listing, swept (release), list: in the child of a fork, where steps begin
//     anew, a page is unswept, or on no list at worst;
//   - a mutator sweeps in a critical section, so in a stop no step is half done.
//
// An unreachable object whose kind has a disclaim procedure is not free yet: its byte becomes
// kDisclaiming. When the world runs again, and the collector lock is still held, Disclaim asks the
// procedure, which may touch the object and what it refers to and may take locks; then the byte
// becomes the epoch, or the slot is given back as by GC_free. The totals count such an object as
// free, so giving it back is not counted. While there are such kinds, sweeps are done in the stop.
#pragma once

#include "alloc/address_space.h"
#include "platform/lock.h"

namespace gleaner::gc {

struct alignas(kCacheLineBytes) SweepTotals {
  uint64_t live_granules = 0;       // objects of a single granule
  uint64_t live_scanned_bytes = 0;  // in objects that may hold pointers
  uint64_t live_pointer_free_bytes = 0;
  uint64_t live_objects = 0;
  uint64_t used_pages = 0;  // with objects, live after this sweep

  void Add(const SweepTotals& other) {
    live_granules += other.live_granules;
    live_scanned_bytes += other.live_scanned_bytes;
    live_pointer_free_bytes += other.live_pointer_free_bytes;
    live_objects += other.live_objects;
    used_pages += other.used_pages;
  }
  uint64_t live_bytes() const { return live_scanned_bytes + live_pointer_free_bytes; }
};

class Sweeper {
 public:
  // Before the workers start. Slots with a value of the mask `dead` are to be free, with no other.
  void Begin(uint8_t dead);
  // Any worker: sweeps until nothing is left to claim, adding to `totals`.
  void Run(SweepTotals* totals);
  // Asks the disclaim procedures. pre: the sweep is over, the world runs, the collector lock is
  // held.
  void Disclaim();
  // Pages there are to sweep.
  size_t pages() const { return pages_; }

  // --- Beside the program ---
  // After the flip, with the world stopped; runs are restored and lists forgotten.
  void BeginConcurrentWorldStopped(uint8_t dead);
  // Sweeps some pages. False if there are none left to claim. Any thread, in a critical section if
  // it is a mutator.
  bool Step();
  // Whether BeginConcurrentWorldStopped was called and EndConcurrent was not. Any thread: a hint
  // without the collector lock.
  bool IsConcurrent() const {
    return is_concurrent_.Load(platform::memory_order_relaxed);
  }  // see above
  // Whether all steps are done.
  bool IsDone() const {
    // Acquire: pairs with the end of each step, whose totals and bytes are then visible.
    return steps_left_.Load(platform::memory_order_acquire) == 0;
  }
  // Guarded by the collector lock, as the next. pre: IsDone().
  void EndConcurrent();
  // What the steps found. False if a fork has cut some off.
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

  uint8_t dead_ = 0;
  size_t pages_ = 0;
  alloc::PageNumber begin_[2] = {};
  alloc::PageNumber end_[2] = {};
  platform::Atomic<size_t> next_{0};

  platform::Atomic<bool> is_concurrent_{false};  // written under the collector lock
  platform::Atomic<size_t> steps_left_{0};
  bool totals_are_whole_ = true;
  // Sums of the steps' totals: counts, published by steps_left_.
  platform::Lock totals_lock_{platform::LockRank::kOwner};
  SweepTotals totals_;
};

}  // namespace gleaner::gc
