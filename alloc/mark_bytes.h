// Searching and counting in the mark bytes of one page.
//
// Other threads may store 0 to single bytes meanwhile (GC_free), so the words are read atomically;
// a byte that changes during the search is found or not, and both are right. The loads are acquire
// and pair with the release in FreeObject: the freeing thread's accesses to the object come before
// its slot is found free.
#pragma once

#include <cstring>

#include "alloc/page.h"
#include "platform/common/bits.h"
#include "platform/faults/delays.h"

namespace gleaner::alloc {

namespace internal {
inline constexpr uint64_t kHighs = 0x8080808080808080u;

// Acquire: pairs with the release in FreeObject (head of this file).
inline uint64_t LoadMarks(const uint8_t* marks) {
#ifdef __SANITIZE_THREAD__
  // The sanitizer sees no synchronisation between a word that is read and a byte that was written.
  uint64_t word = 0;
  for (unsigned i = 0; i < 8; ++i) {
    word |= uint64_t{__atomic_load_n(marks + i, __ATOMIC_ACQUIRE)} << (8 * i);
  }
  return word;
#else
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(marks), __ATOMIC_ACQUIRE);
#endif
}
// Sets bit 7 of each byte that is not zero.
constexpr uint64_t OccupiedBytes(uint64_t word) {
  return (((word & ~kHighs) + ~kHighs) | word) & kHighs;
}

// Index + 1 of the last byte of [0, end) for which `Select` has bit 7 set, or 0.
template <uint64_t (*Select)(uint64_t)>
inline uint32_t FindLast(const uint8_t* marks, uint32_t end) {
  for (uint32_t top = end; top != 0;) {
    const uint32_t base = (top - 1) & ~7u;
    // Bytes from `top` on do not count.
    const uint64_t keep = ~uint64_t{0} >> (8 * (8 - (top - base)));
    const uint64_t found = Select(LoadMarks(marks + base)) & keep;
    if (found != 0) return base + 8 - static_cast<uint32_t>(__builtin_clzll(found)) / 8;
    top = base;
  }
  return 0;
}
constexpr uint64_t FreeBytes(uint64_t word) { return ~OccupiedBytes(word) & kHighs; }
}  // namespace internal

// Gives `count` bytes the value `mark`. pre: the slots are the caller's. A sweeper that saw a large
// object in the page, which has been freed since, may still read a byte: the new value is as little
// dead as the old one, and it leaves both alone.
inline void SetMarks(uint8_t* marks, uint32_t count, uint8_t mark) {
#ifdef __SANITIZE_THREAD__
  // Relaxed: the reader needs nothing but the byte.
  for (uint32_t i = 0; i < count; ++i) __atomic_store_n(marks + i, mark, __ATOMIC_RELAXED);
#else
  memset(marks, mark, count);
#endif
}

// One more than the index of the last free slot below `end`; 0 if there is none. The array is
// 8-byte aligned and readable up to the next multiple of 8.
inline uint32_t FindLastFree(const uint8_t* marks, uint32_t end) {
  return internal::FindLast<internal::FreeBytes>(marks, end);
}
// One more than the index of the last slot below `end` that is not free; 0 if there is none.
inline uint32_t FindLastOccupied(const uint8_t* marks, uint32_t end) {
  return internal::FindLast<internal::OccupiedBytes>(marks, end);
}

// The functions below work on mark bytes [inv.mark-byte], which have at most one bit each.

// Keeps the bytes whose value is in the mask `live`, turns all others into 0, and returns the
// number kept. pre: the world is stopped or no other thread knows the page; the array is 16-byte
// aligned and its bytes from `count` up to the next multiple of 16 are 0 or may become 0.
inline uint32_t NormaliseMarks(uint8_t* marks, uint32_t count, uint8_t live) {
  using Vector = uint8_t __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16)));
  const Vector keep = Vector{} + live;
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; i += 16) {
    auto* at = reinterpret_cast<Vector*>(marks + i);
    *at &= keep;
    const auto is_free = reinterpret_cast<Vector>(*at == 0);
    const auto ones = reinterpret_cast<Words>(~is_free & 1);
    total += SumOfBytes(ones[0] + ones[1]);  // 16 at most
  }
  return static_cast<uint32_t>(total);
}

// Turns every byte whose value is in the mask `from` into `to`. pre: as for NormaliseMarks.
inline void Recolour(uint8_t* marks, uint32_t count, uint8_t from, uint8_t to) {
  using Vector = uint8_t __attribute__((vector_size(16)));
  for (uint32_t i = 0; i < count; i += 16) {
    auto* at = reinterpret_cast<Vector*>(marks + i);
    const auto found = reinterpret_cast<Vector>((*at & (Vector{} + from)) != 0);
    *at = (*at & ~found) | (found & (Vector{} + to));
  }
}

// Turns every byte whose value is in the mask `dead` into 0, adds their number to `*cleared` and
// returns the number of bytes left.
// Other threads may turn the other bytes into 0 meanwhile. The array is 8-byte aligned and its
// bytes from `count` up to the next multiple of 8 are 0.
inline uint32_t ClearDead(uint8_t* marks, uint32_t count, uint8_t dead, uint32_t* cleared) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < count; i += 8) {
    const uint64_t word = internal::LoadMarks(marks + i);
    if (word == 0) continue;
    platform::MaybeDelay();
    uint64_t dead_bytes = internal::OccupiedBytes(word & (dead * kByteOnes));
    const uint64_t live_bytes = internal::OccupiedBytes(word) & ~dead_bytes;
    left += static_cast<uint32_t>(SumOfBytes(live_bytes >> 7));
    *cleared += static_cast<uint32_t>(SumOfBytes(dead_bytes >> 7));
    // Relaxed, both stores: the sweeper publishes the bytes when it lists the page.
    if (live_bytes == 0) {
      // No other thread writes to this word: it has no live object to free, and no slot is handed
      // out.
      __atomic_store_n(reinterpret_cast<uint64_t*>(marks + i), 0, __ATOMIC_RELAXED);
      continue;
    }
    for (; dead_bytes != 0; dead_bytes &= dead_bytes - 1) {
      const auto byte = static_cast<uint32_t>(__builtin_ctzll(dead_bytes)) / 8;
      __atomic_store_n(marks + i + byte, kFreeSlot, __ATOMIC_RELAXED);  // published by the list
    }
  }
  return left;
}

// The number of bytes below `end` that are not free, and whose value is not in the mask `dead`.
// Other threads may change bytes meanwhile: each counts as it was at some instant. The array is
// 8-byte aligned and its bytes from `end` up to the next multiple of 8 are 0.
inline uint32_t CountInUse(const uint8_t* marks, uint32_t end, uint8_t dead) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < end; i += 8) {
    const uint64_t word = internal::LoadMarks(marks + i) & ~(dead * kByteOnes);
    count += SumOfBytes(internal::OccupiedBytes(word) >> 7);
  }
  return static_cast<uint32_t>(count);
}

}  // namespace gleaner::alloc
