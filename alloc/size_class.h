// Size classes: which slot size serves a request.
//
// 16-byte steps to 128, then four per doubling to 1 KiB; above that, the sizes that cut a page into
// 14, 12, 10, 9, 8 ... 2 slots, so that no page ends in waste worth mentioning. A
// slot has no padding byte: powers of two stay powers of two.
#pragma once

#include <array>

#include "platform/os/base.h"

namespace gleaner::alloc {

inline constexpr size_t kGranuleBytes = 16;
inline constexpr size_t kPageShift = 14;
// A page is the BIBOP unit: one size class, one kind. "OS page" always means the kernel's.
inline constexpr size_t kPageBytes = size_t{1} << kPageShift;

inline constexpr std::array<uint16_t, 31> kSlotBytes = {
    16,  32,  48,  64,   80,   96,   112,  128,  160,  192,  224,  256,  320,  384,  448, 512,
    640, 768, 896, 1024, 1168, 1360, 1632, 1808, 2048, 2336, 2720, 3264, 4096, 5456, 8192};
inline constexpr size_t kClassCount = kSlotBytes.size();
inline constexpr size_t kMaxSmallBytes = kSlotBytes.back();
inline constexpr size_t kMaxSlotsPerPage = kPageBytes / kSlotBytes.front();

namespace internal {
using ClassTable = std::array<uint8_t, kMaxSmallBytes / kGranuleBytes + 1>;
constexpr ClassTable MakeClassTable() {
  ClassTable table{};
  size_t size_class = 0;
  for (size_t granules = 0; granules < table.size(); ++granules) {
    if (granules * kGranuleBytes > kSlotBytes[size_class]) ++size_class;
    table[granules] = static_cast<uint8_t>(size_class);
  }
  return table;
}
extern ClassTable g_class_table;
}  // namespace internal

// pre: bytes <= kMaxSmallBytes. Zero bytes get the smallest slot.
inline size_t SizeClassOf(size_t bytes) {
  return internal::g_class_table[(bytes + kGranuleBytes - 1) / kGranuleBytes];
}

// The class whose slots have exactly `slot_bytes`, a power of two up to kMaxSmallBytes. These slots
// divide the page, so they are aligned to their size.
constexpr size_t SizeClassOfSlot(size_t slot_bytes) {
  size_t size_class = 0;
  while (kSlotBytes[size_class] != slot_bytes) ++size_class;
  return size_class;
}

// Gives every small object, except the largest ones, at least a granule more than requested. For
// programs that write past the end of their objects without harm under libgc, which adds a byte to
// each request and rounds up. Before the first allocation.
void WidenSizeClasses();

// Division of an offset in a page by a slot size, as a multiplication: with r = floor(2^32/size) +
// 1, (offset * r) >> 32 is exact for offset < 2^14, since r exceeds 2^32/size by less than one and
// 2^14 / 2^32 is below 1/8192, the least distance of a quotient from the next integer.
constexpr uint32_t ReciprocalOf(size_t slot_bytes) {
  return static_cast<uint32_t>((uint64_t{1} << 32) / slot_bytes + 1);
}
constexpr uint32_t SlotIndex(size_t offset_in_page, uint32_t reciprocal) {
  return static_cast<uint32_t>((offset_in_page * reciprocal) >> 32);
}

}  // namespace gleaner::alloc
