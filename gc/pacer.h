// When to collect: the heap may grow by a share of what the last collection found live.
//
// What libgc would spend on padding comes on top and counts as live: a heap of pairs takes half of
// the memory, and part of the rest buys time.
//
// With libgc's free_space_divisor d (default 3) the allowance between two collections is
//   (kScannedWeight * live bytes that may hold pointers
//    + kPointerFreeWeight * live pointer-free bytes + bytes of roots
//    + kProcessWeight * what else the process has resident) / d
// so that a program tuned for libgc keeps its balance of time and memory. The weights are chosen so
// that the peak memory is libgc's (docs/performance.md). Where several threads stand still for more
// than a third of the time, the allowance rises by steps to one and a half of this, and falls again
// below a fifth: a pause costs the time of all of them. It is never less than
//   - min_allowance_bytes;
//   - the memory that is resident and wholly free, less an eighth: using it costs nothing, and like
//     libgc we do not collect while the heap is not full. The eighth is more than threads can
//     overshoot by. Where objects do not fit into the free pages the heap would grow all the same,
//     and with it what is free the next time: as soon as it grows, this rule holds no longer. What
//     is free beyond several times the live bytes is surplus, though: it is not waited for, and
//     goes back to the system when it stays.
// A heap that the program asked for (GC_expand_hp) is used up before it is collected, like libgc's:
// up to that size it may grow without being asked for its share, and the allowance is what fits
// into it if nothing is lost in pages that are partly used, so that a collection comes when there
// are no pages left. Where that is too late (PacerConfig::early), what is free in pages that are
// partly used counts half, and an eighth is left as above; and there the allowance is no more than
// what in that sense fits into the largest heap that the program allows.
//
// What is born while a cycle marks concurrently stays until the next one, dead or alive. It
// counts as allocated since, not as live: so the allowance is what is allocated from the beginning
// of one cycle to that of the next. Where several threads are busy, such a cycle takes more of the
// processors' time than a stop would, and gets more memory for it: one part in kConcurrentShare of
// the live bytes and of the allowance.
#pragma once

#include "platform/atomic.h"

namespace gleaner::gc {

struct PacerConfig {
  size_t min_allowance_bytes = 0;
  size_t free_space_divisor = 3;
  // If not 0: collect every so many bytes, whatever is live (for tests).
  size_t stress_bytes = 0;
  size_t initial_heap_bytes = 0;
  // Collections are to come before there is no page left: cycles that concurrent mark, and
  // minor ones.
  bool early = false;
  size_t max_heap_bytes = 0;  // the heap's limit; 0 is none
  // What the process has resident besides the heap.
  uint64_t process_bytes = 0;
};

// What a collection found.
struct PacerInput {
  uint64_t live_scanned_bytes = 0;
  uint64_t live_pointer_free_bytes = 0;
  // What libgc would spend on padding: a granule for each object that just fills one. Where it is
  // mostly such objects, like pairs, libgc's heap is twice as large.
  uint64_t unpadded_bytes = 0;
  uint64_t root_bytes = 0;
  uint64_t free_resident_bytes = 0;  // in pages without any object
  uint64_t resident_bytes = 0;       // all of the heap
  size_t threads = 1;
  // Of what was allocated since the last collection, an eighth or more is not the busiest thread's.
  bool several_busy = false;
  uint64_t pause_ns = 0;        // of this collection, until now
  uint64_t since_last_ns = 0;   // from the end of the last one to its beginning
  bool concurrent = false;      // it marked concurrently, or the last full one did
  uint64_t in_cycle_bytes = 0;  // of what it found, allocated since it began; 0 unless beside

  void TakeLiveFrom(const PacerInput& other) {
    live_scanned_bytes = other.live_scanned_bytes;
    live_pointer_free_bytes = other.live_pointer_free_bytes;
    unpadded_bytes = other.unpadded_bytes;
    concurrent = other.concurrent;
  }
};

class Pacer {
 public:
  // Before the first collection, and whenever the configuration changes. Guarded by the collector
  // lock, as the next two.
  void Configure(const PacerConfig& config);
  // The program wants a heap of at least that size.
  void ExpandHeapTo(size_t bytes);
  // The heap's size as far as the program asked for it; any thread.
  size_t wanted_bytes() const {
    return wanted_bytes_.Load(platform::memory_order_relaxed);
  }  // a count
  // After a collection, with the world stopped.
  void StartCycle(const PacerInput& found);

  // The sweep that went on beside the program is over: what it found replaces what was estimated at
  // the last StartCycle. Guarded by the collector lock.
  void Amend(uint64_t live_scanned_bytes, uint64_t live_pointer_free_bytes, uint64_t unpadded_bytes,
             uint64_t free_resident_bytes);
  const PacerInput& found() const { return found_; }

  // Threads report four times as often, and after `bytes` at the latest, until the next StartCycle.
  // Guarded by the collector lock.
  void ReportAfter(size_t bytes) {
    if (most_report_bytes_ == bytes) return;
    most_report_bytes_ = bytes;
    SetAllowance();
  }

  // Whether there has been so much surplus for several collections that it should go back.
  bool HasLastingSurplus() const { return surplus_cycles_ >= kSurplusCycles; }

  // A thread reports net allocation; `resident_bytes` is the heap's size now. True if a collection
  // is due.
  bool OnAllocated(ptrdiff_t bytes, size_t resident_bytes) {
    // Relaxed: a count; a thread that sees it late collects a little late.
    const ptrdiff_t allocated = allocated_.FetchAdd(bytes, platform::memory_order_relaxed) + bytes;
    return IsDue(allocated) ||
           (allocated >= share_.Load(platform::memory_order_relaxed) &&
            resident_bytes > grown_beyond_.Load(platform::memory_order_relaxed));
  }
  // A heap of so many resident bytes may become this large before anybody asks again.
  size_t MayGrowTo(size_t resident_bytes) const {
    const size_t step = resident_bytes / 16;
    return NotBelowWanted(resident_bytes + (step < kMinGrowthStep ? kMinGrowthStep : step));
  }
  // The larger of `bytes` and the size that the program asked for.
  size_t NotBelowWanted(size_t bytes) const {
    const size_t wanted = wanted_bytes();
    return bytes < wanted ? wanted : bytes;
  }
  // Whether the heap should be collected before it grows any further.
  bool IsShareUsed() const {
    return allocated() >= share_.Load(platform::memory_order_relaxed);  // as allocated()
  }
  // The program registered something that a collection would let go of, as much as if `bytes` had
  // been allocated: true if a collection is due. Unlike allocation, that never makes one due as
  // long as there is room in the heap.
  bool OnPressure(ptrdiff_t bytes) {
    pressure_.FetchAdd(bytes, platform::memory_order_relaxed);  // likewise
    return IsDue(allocated());
  }
  // Net bytes since the last collection, or since the beginning of its cycle, as far as reported.
  ptrdiff_t allocated() const {
    return allocated_.Load(platform::memory_order_relaxed);
  }  // a count
  // The same without what was born in the last cycle. Guarded by the collector lock.
  ptrdiff_t AllocatedSinceStop() const {
    return allocated() - static_cast<ptrdiff_t>(found_.in_cycle_bytes);
  }
  ptrdiff_t allowance() const {
    return allowance_.Load(platform::memory_order_relaxed);
  }  // likewise

 private:
  static constexpr size_t kMaxReportBytes = 1 * kMiB;
  static constexpr int kSurplusCycles = 6;
  static constexpr size_t kMinGrowthStep = 128 * kKiB;
  bool IsDue(ptrdiff_t allocated) const {
    // Relaxed: as in OnAllocated.
    const ptrdiff_t allowance = allowance_.Load(platform::memory_order_relaxed);
    return allocated >= allowance ||
           (allocated >= room_.Load(platform::memory_order_relaxed) &&
            allocated + pressure_.Load(platform::memory_order_relaxed) >= allowance);  // likewise
  }
  void DiscountBorn();
  void NoteSurplus();
  void NoteCost();
  void SetAllowance();
  uint64_t MaxUsefulFreeBytes() const;
  uint64_t BytesThatFit(uint64_t heap_bytes) const;

  // Guarded by the collector lock.
  PacerConfig config_;
  PacerInput found_;
  size_t most_report_bytes_ = kMaxReportBytes;
  int surplus_cycles_ = 0;
  int surplus_cycles_before_ = 0;  // the last collection
  double cost_factor_ = 1;         // of scanned bytes, from 1 to kMaxCostFactor: see NoteCost

  // Read by any thread. Any thread adds to allocated_ and pressure_, which the collecting thread
  // sets to 0 with the world stopped; the others are written under the collector lock.
  platform::Atomic<size_t> wanted_bytes_{0};  // grows only
  platform::Atomic<ptrdiff_t> allocated_{0};
  platform::Atomic<ptrdiff_t> pressure_{0};
  platform::Atomic<ptrdiff_t> allowance_{PTRDIFF_MAX};
  // A heap of this many resident bytes has grown since the last collection: by more than the few
  // pages that threads take at a time.
  platform::Atomic<size_t> grown_beyond_{SIZE_MAX};
  platform::Atomic<ptrdiff_t> share_{PTRDIFF_MAX};  // the allowance without the free memory
  platform::Atomic<ptrdiff_t> room_{PTRDIFF_MAX};   // what fits into memory that is there already
};

}  // namespace gleaner::gc
