// Blocks that are no slots: spans of pages of the page space.
//
// A block begins at a page, whose descriptor is kLarge and has what there is to know; nothing is
// kept for the pages behind it, so that a span costs O(log n) whatever its length.
//
// *Medium* blocks, of up to 1 MiB, have size classes, which go on behind those of the slots; four
// for each doubling. Freed ones wait in magazines as slots do, then on a shelf that all threads
// share: one stack for each class, bounded by bytes altogether. The descriptor of a block on the
// shelf names no magazine (magazines.h).
//
// Thread-safe: a block that is out is the program's, one in a magazine its thread's; the shelf has
// a lock, the page space another.
#pragma once

#include <bit>

#include "alloc/address_space.h"

namespace gleaner::malloc_proxy {

using alloc::PageNumber;

// The one side of the reservation that is used: where spans can grow in place.
inline constexpr alloc::Space kSide = alloc::Space::kScanned;

inline constexpr size_t kMediumClasses = 20;
inline constexpr size_t kMaxMediumBytes = 1 * kMiB;
// Classes of slots and of medium blocks, and one for what is neither.
inline constexpr size_t kFirstMedium = alloc::kClassCount;
inline constexpr size_t kCachedClasses = kFirstMedium + kMediumClasses;
inline constexpr uint8_t kLargeClass = kCachedClasses;

// Pages of a medium block: 1 to 8, then four steps for each doubling.
constexpr PageNumber MediumPages(size_t size_class) {
  const size_t medium = size_class - kFirstMedium;
  if (medium < 8) return static_cast<PageNumber>(medium + 1);
  return static_cast<PageNumber>((medium % 4 + 5) << (medium / 4 - 1));
}
static_assert(MediumPages(kFirstMedium + 7) == 8 && MediumPages(kFirstMedium + 8) == 10 &&
              MediumPages(kFirstMedium + 11) == 16 && MediumPages(kFirstMedium + 12) == 20 &&
              (size_t{MediumPages(kCachedClasses - 1)} << alloc::kPageShift) == kMaxMediumBytes);

namespace internal {
// By pages, less one.
using MediumTable = std::array<uint8_t, kMaxMediumBytes / alloc::kPageBytes>;
inline constexpr MediumTable kMediumTable = [] {
  MediumTable table{};
  size_t size_class = kFirstMedium;
  for (size_t i = 0; i < table.size(); ++i) {
    if (i + 1 > MediumPages(size_class)) ++size_class;
    table[i] = static_cast<uint8_t>(size_class);
  }
  return table;
}();
}  // namespace internal

// pre: 0 < bytes <= kMaxMediumBytes.
inline size_t MediumClassOf(size_t bytes) {
  return internal::kMediumTable[(bytes - 1) >> alloc::kPageShift];
}

// Usable bytes of a block of the class, slot or medium.
constexpr size_t ClassBytes(size_t size_class) {
  return size_class < kFirstMedium ? alloc::kSlotBytes[size_class]
                                   : size_t{MediumPages(size_class)} << alloc::kPageShift;
}

// What was wrong with a block that was given back.
enum class BlockError : uint8_t { kNone, kNoBlock, kNotOut };

// A block at a multiple of `alignment`, a power of two; null if memory cannot be had. With
// `zeroed`, its first `bytes` read as zero. A medium class decides the size and asks for no more
// than a page's alignment; kLargeClass is for all else.
void* AllocateSpan(size_t size_class, size_t bytes, size_t alignment, bool zeroed);

// Gives a block of kLargeClass back. pre: p lies in the heap.
[[nodiscard]] BlockError FreeSpan(void* p);

// Usable bytes; 0 if no block of spans begins at `p`. pre: p lies in the heap.
size_t SpanBytes(const void* p);

// Makes a block of kLargeClass `bytes` large where it is; false if it cannot. pre: bytes > 0.
bool ResizeSpan(void* p, size_t bytes);

// Makes a block of kLargeClass larger elsewhere, by moving page tables instead of bytes, and frees
// the old one. Null, with nothing changed, if that cannot be.
void* MoveSpan(void* p, size_t bytes);

// Freed medium blocks that all threads share.
class Shelf {
 public:
  // Up to `want` blocks of a class; returns how many.
  static size_t Take(size_t size_class, void** out, size_t want);
  // Puts blocks on the shelf; what finds no room there goes back to the page space. On an error
  // `*wrong` is the block, and what follows it is not given back.
  [[nodiscard]] static BlockError Put(size_t size_class, void** blocks, size_t count, void** wrong);
  // Gives all that waits back to the page space.
  static void Clear();
  static size_t Bytes();

  static void LockForFork();
  static void UnlockAfterFork();
};

}  // namespace gleaner::malloc_proxy
