// Ranges of memory to scan, in one word each, and a worker's private stack of them.
//
//   63                    20 19        0
//   | address / 16 (44 bit) | granules |      granules of 16 bytes, so up to 16 MiB a range
#pragma once

#include <cstring>

#include "alloc/metadata/meta.h"
#include "alloc/size_class.h"

namespace gleaner::gc {

class PackedRange {
 public:
  static constexpr unsigned kGranuleBits = 20;
  static constexpr size_t kMaxBytes = ((size_t{1} << kGranuleBits) - 1) * alloc::kGranuleBytes;

  constexpr PackedRange() = default;
  // pre: both multiples of 16, bytes <= kMaxBytes.
  constexpr PackedRange(Addr begin, size_t bytes)
      : bits_((begin / alloc::kGranuleBytes) << kGranuleBits | bytes / alloc::kGranuleBytes) {}

  constexpr Addr begin() const { return (bits_ >> kGranuleBits) * alloc::kGranuleBytes; }
  constexpr size_t bytes() const {
    return (bits_ & ((uint64_t{1} << kGranuleBits) - 1)) * alloc::kGranuleBytes;
  }
  constexpr uint64_t bits() const { return bits_; }
  static constexpr PackedRange FromBits(uint64_t bits) {
    PackedRange r;
    r.bits_ = bits;
    return r;
  }

 private:
  uint64_t bits_ = 0;
};

// Owner only. The owner pops the newest range, and gives the oldest ranges to others: these are
// near the roots and stand for the largest subgraphs (thesis, lazy task creation).
class RangeStack {
 public:
  [[nodiscard]] bool Init(size_t max_entries) {
    if (!entries_.Reserve(max_entries)) return false;
    // With some memory committed now, marking can go on when the system refuses memory later.
    if (!entries_.EnsureCommitted(max_entries < kFirstEntries ? max_entries : kFirstEntries)) {
      entries_.Release();
      return false;
    }
    bottom_ = top_ = entries_.data();
    limit_ = entries_.data() + entries_.committed();
    return true;
  }

  bool empty() const { return bottom_ == top_; }
  size_t size() const { return static_cast<size_t>(top_ - bottom_); }

  // False when the memory for the stack is used up; then the range is not pushed.
  [[nodiscard]] GLEANER_ALWAYS_INLINE bool Push(PackedRange range) {
    if (GLEANER_UNLIKELY(top_ == limit_) && !Grow()) return false;
    *top_++ = range;
    return true;
  }
  // pre, for both: not empty.
  PackedRange Pop() { return *--top_; }
  PackedRange TakeOldest() { return *bottom_++; }
  // The newest `count` ranges, oldest of them first. pre: there are as many; for both.
  const PackedRange* newest(size_t count) const { return top_ - count; }
  void DropNewest(size_t count) { top_ -= count; }
  // Gives the memory back.
  void Release() { entries_.Release(); }
  // Drops all ranges, and makes the whole memory usable again.
  void Rewind() { bottom_ = top_ = entries_.data(); }

 private:
  static constexpr size_t kFirstEntries = 4096;

  GLEANER_COLD bool Grow() {
    const size_t used = static_cast<size_t>(top_ - entries_.data());
    if (bottom_ != entries_.data() && size() <= used / 2) {
      memmove(entries_.data(), bottom_, size() * sizeof(PackedRange));
      top_ -= bottom_ - entries_.data();
      bottom_ = entries_.data();
      return true;
    }
    if (!entries_.EnsureCommitted(used + 1)) return false;
    limit_ = entries_.data() + entries_.committed();
    return true;
  }

  PackedRange* bottom_ = nullptr;
  PackedRange* top_ = nullptr;
  PackedRange* limit_ = nullptr;  // end of committed memory
  alloc::ReservedArray<PackedRange> entries_;
};

}  // namespace gleaner::gc
