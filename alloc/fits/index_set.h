// A set of small numbers that finds the next and the previous member in a few instructions: a
// bitmap, a bitmap of its words that are not zero, and one word over that.
//
// Plain data, all zero bytes when empty. Not thread-safe.
#pragma once

#include <bit>

#include "platform/os/base.h"

namespace gleaner::alloc {

// A set of numbers in [0, kSize).
template <uint32_t kSize>
class IndexSet {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  bool empty() const { return top_ == 0; }
  bool Contains(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void Insert(uint32_t i) {
    words_[i / 64] |= Bit(i);
    middle_[i / 64 / 64] |= Bit(i / 64);
    top_ |= Bit(i / 64 / 64);
  }
  void Erase(uint32_t i) {
    if ((words_[i / 64] &= ~Bit(i)) != 0) return;
    if ((middle_[i / 64 / 64] &= ~Bit(i / 64)) != 0) return;
    top_ &= ~Bit(i / 64 / 64);
  }
  void Clear() { *this = IndexSet(); }

  // The first member at or above i; kNone if there is none. pre: i <= kSize.
  uint32_t Next(uint32_t i) const {
    if (i >= kSize) return kNone;
    uint32_t word = i / 64;
    uint64_t bits = words_[word] & ~(Bit(i) - 1);
    if (bits == 0) {
      uint32_t middle = word / 64;
      uint64_t words = middle_[middle] & Above(word);
      if (words == 0) {
        const uint64_t middles = top_ & Above(middle);
        if (middles == 0) return kNone;
        middle = Lowest(middles);
        words = middle_[middle];
      }
      word = middle * 64 + Lowest(words);
      bits = words_[word];
    }
    return word * 64 + Lowest(bits);
  }
  // The last member below `end`; kNone if there is none. pre: end <= kSize.
  uint32_t Previous(uint32_t end) const {
    if (end == 0) return kNone;
    const uint32_t i = end - 1;
    uint32_t word = i / 64;
    uint64_t bits = words_[word] & ~Above(i);
    if (bits == 0) {
      uint32_t middle = word / 64;
      uint64_t words = middle_[middle] & (Bit(word) - 1);
      if (words == 0) {
        const uint64_t middles = top_ & (Bit(middle) - 1);
        if (middles == 0) return kNone;
        middle = Highest(middles);
        words = middle_[middle];
      }
      word = middle * 64 + Highest(words);
      bits = words_[word];
    }
    return word * 64 + Highest(bits);
  }

 private:
  static constexpr uint32_t kWords = (kSize + 63) / 64;
  static constexpr uint32_t kMiddle = (kWords + 63) / 64;
  static_assert(kMiddle <= 64);

  static uint64_t Bit(uint32_t i) { return uint64_t{1} << (i % 64); }
  static uint64_t Above(uint32_t i) { return ~uint64_t{1} << (i % 64); }  // bits above that of i
  static uint32_t Lowest(uint64_t bits) { return static_cast<uint32_t>(std::countr_zero(bits)); }
  static uint32_t Highest(uint64_t bits) {
    return 63 - static_cast<uint32_t>(std::countl_zero(bits));
  }

  uint64_t top_ = 0;               // bit m: middle_[m] != 0
  uint64_t middle_[kMiddle] = {};  // bit w % 64 of [w / 64]: words_[w] != 0
  uint64_t words_[kWords] = {};
};

}  // namespace gleaner::alloc
