// Ranges of memory to scan, in one word each, and a worker's private stack of them.
//
//   63                    20 19        0
//   | address / 16 (44 bit) | granules |      granules of 16 bytes, so up to 16 MiB a range
#pragma once

#include "alloc/meta.h"
#include "alloc/size_class.h"

namespace gleaner::gc {

class PackedRange {
 public:
  static constexpr unsigned kGranuleBits = 20;
  static constexpr size_t kMaxBytes =
      ((size_t{1} << kGranuleBits) - 1) * alloc::kGranuleBytes;

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

// Owner only. Taken from at both ends: the owner pops the newest, what others are given is the
// oldest, near the roots, and so stands for the largest subgraphs (thesis, lazy task creation).
class RangeStack {
 public:
  [[nodiscard]] bool Init(size_t max_entries) { return entries_.Reserve(max_entries); }

  bool empty() const { return bottom_ == top_; }
  size_t size() const { return top_ - bottom_; }

  // False when the memory for the stack is used up; the range is not pushed then.
  [[nodiscard]] bool Push(PackedRange range) {
    if (GLEANER_UNLIKELY(top_ == entries_.committed()) && !entries_.EnsureCommitted(top_ + 1)) {
      return false;
    }
    entries_[top_++] = range;
    return true;
  }
  // pre: not empty.
  PackedRange Pop() {
    const PackedRange range = entries_[--top_];
    if (top_ == bottom_) top_ = bottom_ = 0;
    return range;
  }
  // pre: not empty.
  PackedRange TakeOldest() {
    const PackedRange range = entries_[bottom_++];
    if (top_ == bottom_) top_ = bottom_ = 0;
    return range;
  }
  size_t peak_bytes() const { return entries_.committed() * sizeof(PackedRange); }

 private:
  alloc::ReservedArray<PackedRange> entries_;
  size_t bottom_ = 0;
  size_t top_ = 0;
};

}  // namespace gleaner::gc
