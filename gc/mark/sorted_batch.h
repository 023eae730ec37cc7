// Ranges to scan in the order of their addresses, while much is grey.
//
// When the stack of a worker is deep, its newest ranges are sorted by region of the heap and
// scanned as a batch; what they refer to goes to the stack meanwhile. Memory is then read nearly in
// order, where the stack alone would read it at random. Go's collector "Green Tea" has the same aim
// (golang/go issue 73581): it queues pages, and keeps a colour for grey objects. Here an object is
// black from the moment it is found, as ever, and a batch holds ranges, as the stack does.
//
// Order gains the more, the denser the ranges are. Density is ranges per page of the heap. The
// batches of all workers together hold at most 32 ranges a page, which take 1/64 of the heap's
// bytes. A worker makes a batch when it has its share of 8 ranges a page. None is made in a heap
// that a processor's caches may hold, nor by more than four workers, whose shares are too thin
// (docs/figures/performance.md, "In the order of addresses"). The heap is here what is committed of
// it for objects that are scanned.
#pragma once

#include "alloc/address_space.h"
#include "gc/mark/range_stack.h"

namespace gleaner::gc {

// Owner only, as the stack.
class SortedBatch {
 public:
  static constexpr size_t kHeapBytesPerRange = 512;

  // For heaps of up to `heap_bytes`, shared by `workers`. Without address space or memory no batch
  // is made.
  void Init(size_t heap_bytes, int workers) {
    workers_ = static_cast<size_t>(workers);
    (void)ranges_.Reserve(heap_bytes / kHeapBytesPerRange / workers_);
  }
  // The heap has `heap_bytes`, whose addresses are in the `address_bytes` from `base` on.
  // min_ranges: of a batch; 0 if the heap decides. pre: empty.
  void BeginCycle(Addr base, size_t address_bytes, size_t heap_bytes, size_t min_ranges);
  void BeginCycle(Addr base, size_t heap_bytes, size_t min_ranges) {
    BeginCycle(base, heap_bytes, heap_bytes, min_ranges);
  }
  // Gives the memory back. pre: empty.
  void Release() { ranges_.Release(); }

  bool empty() const { return next_ == end_; }
  size_t size() const { return static_cast<size_t>(end_ - next_); }
  // A stack with fewer ranges is scanned as it is. SIZE_MAX if no batch can be made.
  size_t min() const { return min_; }
  size_t max() const { return max_; }
  // Takes the newest ranges of the stack, max() at most. False, and nothing is taken, if there is
  // no memory (then min() is SIZE_MAX), or if must_pause returns true. That is asked every
  // kStepRanges, which take 1 us, or 100 us where memory is touched for the first time. pre: empty.
  template <class MustPause>
  [[nodiscard]] bool Fill(RangeStack* stack, const MustPause& must_pause);
  // pre, for both: not empty.
  PackedRange Take() { return *next_++; }
  PackedRange TakeLast() { return *--end_; }
  void Clear() { next_ = end_; }

 private:
  static constexpr size_t kRegions = 1024;
  static constexpr size_t kMinHeapBytes = 32 * kMiB;
  static constexpr size_t kMaxWorkers = 4;
  static constexpr size_t kMinPart = 4;  // of max()
  static constexpr size_t kStepRanges = 128;

  size_t RegionOf(PackedRange range) const {
    const size_t region = (range.begin() - base_) >> shift_;
    return region < kRegions ? region : kRegions - 1;
  }

  Addr base_ = 0;
  unsigned shift_ = 0;  // a region has 2^shift_ bytes
  size_t workers_ = 1;
  size_t min_ = SIZE_MAX;
  size_t max_ = 0;
  PackedRange* next_ = nullptr;
  PackedRange* end_ = nullptr;
  alloc::ReservedArray<PackedRange> ranges_;
  uint32_t place_[kRegions] = {};  // while sorting: of the region's next range
};

inline void SortedBatch::BeginCycle(Addr base, size_t address_bytes, size_t heap_bytes,
                                    size_t min_ranges) {
  base_ = base;
  shift_ = alloc::kPageShift;
  while (address_bytes >> shift_ >= kRegions) ++shift_;
  max_ = heap_bytes / kHeapBytesPerRange / workers_;
  if (max_ > UINT32_MAX) max_ = UINT32_MAX;
  min_ = min_ranges;
  if (min_ == 0 && heap_bytes >= kMinHeapBytes && workers_ <= kMaxWorkers) min_ = max_ / kMinPart;
  if (min_ == 0 || min_ > max_ || max_ > ranges_.max()) min_ = SIZE_MAX;
}

template <class MustPause>
bool SortedBatch::Fill(RangeStack* stack, const MustPause& must_pause) {
  const size_t count = stack->size() < max_ ? stack->size() : max_;
  if (!ranges_.EnsureCommitted(count)) {
    min_ = SIZE_MAX;
    return false;
  }
  const PackedRange* from = stack->newest(count);
  for (uint32_t& place : place_) place = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % kStepRanges == 0 && must_pause()) return false;
    ++place_[RegionOf(from[i])];
  }
  uint32_t sum = 0;
  for (uint32_t& place : place_) {
    const uint32_t in_region = place;
    place = sum;
    sum += in_region;
  }
  PackedRange* const to = ranges_.data();
  for (size_t i = 0; i < count; ++i) {
    if (i % kStepRanges == 0 && must_pause()) return false;
    to[place_[RegionOf(from[i])]++] = from[i];
  }
  stack->DropNewest(count);
  next_ = to;
  end_ = to + count;
  return true;
}

}  // namespace gleaner::gc
