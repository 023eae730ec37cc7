// Sums over the bits and bytes of a word, inline: without a processor flag std::popcount is a call
// into libgcc.
#pragma once

#include <cstdint>

namespace gleaner {

// A 1 in each byte: multiplied by a byte, the byte in all eight.
inline constexpr uint64_t kByteOnes = 0x0101010101010101u;

// The sum of the eight bytes. pre: it is below 256.
constexpr uint64_t SumOfBytes(uint64_t word) { return (word * kByteOnes) >> 56; }

constexpr uint64_t CountBits(uint64_t x) {
  if (x == 0) return 0;
  x -= (x >> 1) & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
  return SumOfBytes((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu);
}

}  // namespace gleaner
