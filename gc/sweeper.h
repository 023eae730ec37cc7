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
// An unreachable object whose kind has a disclaim procedure is not free yet: its byte becomes
// kDisclaiming. When the world runs again, and the collector lock is still held, Disclaim asks the
// procedure, which may touch the object and what it refers to and may take locks; then the byte
// becomes the epoch, or the slot is given back as by GC_free.
#pragma once

#include "alloc/address_space.h"
#include "platform/atomic.h"

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
  // Before the workers start.
  void Begin();
  // Any worker: sweeps until nothing is left to claim, adding to `totals`.
  void Run(SweepTotals* totals);
  // Asks the disclaim procedures. pre: the sweep is over, the world runs, the collector lock is
  // held.
  void Disclaim();
  // Pages there are to sweep.
  size_t pages() const { return pages_; }

 private:
  static constexpr size_t kPagesPerClaim = 256;

  void SweepPages(alloc::PageNumber begin, alloc::PageNumber end, SweepTotals* totals);
  void SweepPage(alloc::PageNumber page, SweepTotals* totals);

  size_t pages_ = 0;
  alloc::PageNumber begin_[2] = {};
  alloc::PageNumber end_[2] = {};
  platform::Atomic<size_t> next_{0};
};

}  // namespace gleaner::gc
