// Searching and counting in the mark bytes of one page.
//
// Other threads may store 0 to single bytes meanwhile (GC_free), so the words are read atomically;
// a byte that changes under the search is found or not, and both are right. Acquire: what the freeing
// thread did to the object is over before its slot is found free (pairs with the release in Free).
#pragma once

#include <cstring>

#include "alloc/page.h"

namespace gleaner::alloc {

namespace internal {
inline constexpr uint64_t kOnes = 0x0101010101010101u;
inline constexpr uint64_t kHighs = 0x8080808080808080u;

inline uint64_t LoadMarks(const uint8_t* marks) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(marks), __ATOMIC_ACQUIRE);
}
// Bit 7 of each byte that is zero; exact below and at the lowest zero byte.
constexpr uint64_t ZeroBytes(uint64_t word) { return (word - kOnes) & ~word & kHighs; }
}  // namespace internal

// First index in [from, count) whose byte is zero, or count. The array is 8-byte aligned and
// readable up to the next multiple of 8.
inline uint32_t FindFree(const uint8_t* marks, uint32_t from, uint32_t count) {
  uint32_t base = from & ~7u;
  // Bytes below `from` count as occupied.
  uint64_t skip = (from & 7) != 0 ? (uint64_t{1} << ((from & 7) * 8)) - 1 : 0;
  for (; base < count; base += 8, skip = 0) {
    const uint64_t zero = internal::ZeroBytes(internal::LoadMarks(marks + base) | skip);
    if (zero != 0) {
      const auto index = base + static_cast<uint32_t>(__builtin_ctzll(zero)) / 8;
      return index < count ? index : count;
    }
  }
  return count;
}

// First index in [from, count) whose byte is not zero, or count.
inline uint32_t FindOccupied(const uint8_t* marks, uint32_t from, uint32_t count) {
  uint32_t base = from & ~7u;
  uint64_t keep = ~uint64_t{0} << ((from & 7) * 8);
  for (; base < count; base += 8, keep = ~uint64_t{0}) {
    const uint64_t word = internal::LoadMarks(marks + base) & keep;
    if (word != 0) {
      const auto index = base + static_cast<uint32_t>(__builtin_ctzll(word)) / 8;
      return index < count ? index : count;
    }
  }
  return count;
}

// Turns every byte that is not `epoch` into 0 and returns how many are `epoch`.
// pre: the world is stopped or nobody else knows the page; count bytes, array as above.
inline uint32_t NormaliseMarks(uint8_t* marks, uint32_t count, uint8_t epoch) {
  uint32_t live = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_live = marks[i] == epoch;
    marks[i] = is_live ? epoch : kFreeSlot;
    live += is_live ? 1 : 0;
  }
  return live;
}

}  // namespace gleaner::alloc
