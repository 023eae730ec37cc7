// Blocks that are no slots: spans of pages of the page space.
//
// A block begins at a page, whose descriptor is kLarge and has all data of the block. The other
// pages of the block have no data, so that a span costs O(log n) whatever its length.
//
// *Medium* blocks, of up to 1 MiB, have size classes that follow those of the slots, four for each
// doubling. Freed medium blocks wait in magazines as slots do, then on a shelf that all threads
// share: one stack for each class, with a limit for the bytes of all. The descriptor of a block on
// the shelf names the magazine of kLargeClass (magazines.h).
//
// Thread-safe: a block belongs to the program, or to the thread whose magazine has it; the shelf
// has a lock, and so has the page space.
#pragma once

#include <bit>

#include "alloc/address_space.h"

namespace gleaner::malloc_proxy {

using alloc::PageNumber;

// The space of the reservation that malloc uses: the one in which spans can grow in place.
inline constexpr alloc::Space kSpace = alloc::Space::kScanned;

inline constexpr size_t kMediumClasses = 20;
inline constexpr size_t kMaxMediumBytes = 1 * kMiB;
// Classes of slots, then of medium blocks, then kLargeClass for all other blocks.
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
// The class of a medium block, by its pages less one.
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

// The error in a call that frees a block.
enum class BlockError : uint8_t {
  kNone,
  kNoBlock,  // no block begins at the address
  kNotOut    // the block is free already
};

// Allocates a block at a multiple of `alignment`, a power of two. Null if there is no memory. With
// `zeroed`, its first `bytes` read as zero. A medium class determines the size; then `alignment` is
// at most a page. All other blocks have kLargeClass.
void* AllocateSpan(size_t size_class, size_t bytes, size_t alignment, bool zeroed);

// Frees a block of kLargeClass. pre: p lies in the heap.
[[nodiscard]] BlockError FreeSpan(void* p);

// Usable bytes; 0 if no medium or large block begins at `p`. pre: p lies in the heap.
size_t SpanBytes(const void* p);

// Resizes a block of kLargeClass in place; false if that is not possible. pre: bytes > 0.
bool ResizeSpan(void* p, size_t bytes);

// Moves a block of kLargeClass to a larger one, by moving page tables instead of bytes, and frees
// the old block. Null, with the block unchanged, if that is not possible.
void* MoveSpan(void* p, size_t bytes);

// Freed medium blocks that all threads share. Any thread.
class Shelf {
 public:
  // Takes up to `want` blocks of a class and returns their number.
  static size_t Take(size_t size_class, void** out, size_t want);
  // Puts blocks on the shelf. Blocks for which there is no room return to the page space. On an
  // error `*wrong` is the wrong block, and the blocks after it are not freed.
  [[nodiscard]] static BlockError Put(size_t size_class, void** blocks, size_t count, void** wrong);
  // Returns all blocks to the page space.
  static void Clear();
  static size_t Bytes();

  static void LockForFork();
  static void UnlockAfterFork();
};

}  // namespace gleaner::malloc_proxy
