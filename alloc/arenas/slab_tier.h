// The lower of an arena's two tiers: small blocks of a few sizes, cut from slabs that are blocks of
// the upper tier.
//
// Sizes are in the arena's units: each number of units to 8, then four to a doubling. A slab holds
// slots of one size, 16 of them if that makes 16 KiB to 2 MiB, and begins at a multiple of 16 KiB.
// Which slots are free is a bitmap outside the slab; a table with an entry for every 16 KiB of the
// range tells which slab an address belongs to. Allocate and Free are O(1), adding and dropping a
// slab O(slab bytes / 16 KiB).
//
// A class hands out slots of partly used slabs first, beginning with the slab that got its first
// free slot last, and then of its empty slab. It keeps one empty slab at most, for the next
// allocations.
//
// Not thread-safe: the arena's lock guards the tier.
#pragma once

#include <bit>

#include "alloc/fits/block_list.h"

namespace gleaner::alloc {

// Names a slab while it exists.
using SlabId = uint32_t;

class SlabTier {
 public:
  static constexpr SlabId kNone = 0;
  static constexpr uint32_t kNoClass = UINT32_MAX;
  static constexpr size_t kGrainBytes = 16 * kKiB;
  static constexpr size_t kMaxSlabBytes = 2 * kMiB;
  static constexpr size_t kMaxThresholdBytes = 256 * kKiB;
  static constexpr uint32_t kMinUnitShift = 4, kMaxUnitShift = 12;

  constexpr SlabTier() = default;
  SlabTier(const SlabTier&) = delete;
  SlabTier& operator=(const SlabTier&) = delete;

  // Prepares for slabs in [begin, begin + bytes), with units of 2^unit_shift bytes. Blocks are
  // small up to `threshold_bytes`, or up to an eighth of a 64th of the range if that is less. False
  // if there is no memory for the tables. pre: not initialised; the bounds of unit_shift and
  // threshold_bytes above.
  [[nodiscard]] bool Init(Addr begin, size_t bytes, uint32_t unit_shift, size_t threshold_bytes);
  void Destroy();

  // The class whose slots hold `units` at a multiple of `alignment` units; kNoClass if the block is
  // not small. pre: units > 0; alignment is a power of two.
  uint32_t ClassOf(uint64_t units, uint64_t alignment) const {
    if (units > max_units_ || alignment > max_units_) return kNoClass;
    uint64_t wanted = AlignUp(units, alignment);
    uint32_t size_class = ClassOfUnits(wanted);
    while ((UnitsOfClass(size_class) & (alignment - 1)) != 0) ++size_class;
    return UnitsOfClass(size_class) <= max_units_ && alignment << unit_shift_ <= kGrainBytes
               ? size_class
               : kNoClass;
  }

  struct Slot {
    Addr begin;  // 0 if there is none
    size_t bytes;
    bool zero;  // the slot is known to be zero
  };
  // Allocates a slot of the class; none if the class has no slab with a free slot.
  Slot Allocate(uint32_t size_class);

  size_t SlabBytes(uint32_t size_class) const;
  // Makes the block, SlabBytes(size_class) long from `begin` on, a slab of the class. `zero` says
  // that the block is known to be zero. False if there is no metadata.
  [[nodiscard]] bool AddSlab(uint32_t size_class, Addr begin, BlockId block, bool zero);

  // The slab at the address; kNone if there is none. pre: the address is in the range.
  SlabId SlabAt(Addr a) const {
    return max_units_ == 0 ? kNone : slab_at_[a / kGrainBytes - first_grain_];
  }
  // The bytes of the slot in use that begins at the address; 0 if none does. pre: SlabAt(a) ==
  // slab.
  size_t SlotBytesAt(SlabId slab, Addr a) const;
  // Frees the slot in use that begins at the address and returns its bytes; 0, with nothing
  // changed, if none does. *dropped becomes the block of a slab that the class needs no more, which
  // the caller frees, or BlockList::kNone. pre: SlabAt(a) == slab.
  size_t Free(SlabId slab, Addr a, BlockId* dropped);

  // Drops an empty slab and returns its block, which the caller frees; BlockList::kNone if there is
  // no empty slab.
  BlockId DropEmptySlab();

  uint64_t slab_bytes() const { return slab_bytes_; }
  uint32_t slab_count() const { return slab_count_; }
  size_t MetadataBytes() const {
    return slabs_.committed() * sizeof(Slab) + slab_at_.committed() * sizeof(SlabId);
  }
  void CheckForTesting() const;
  uint64_t UsedBytesForTesting() const;  // in slots in use

 private:
  static constexpr uint32_t kExactClasses = 8;
  static constexpr uint32_t kSlotsWanted = 16;
  static constexpr uint32_t kMinSlots = 8;
  static constexpr uint32_t kMaxSlots = kGrainBytes >> kMinUnitShift;
  static constexpr uint32_t kWords = kMaxSlots / 64;

  struct Slab {
    Addr begin;
    BlockId block;
    SlabId before, behind;  // neighbours in partial_; `behind` also chains unused_
    uint32_t size_class;
    uint32_t slots, free;
    uint32_t used_to;     // slots from this one on were never handed out
    bool zero;            // slots that were never handed out are zero
    uint32_t free_words;  // bit w: free_slots[w] != 0
    uint64_t free_slots[kWords];
  };

  static constexpr uint32_t ClassOfUnits(uint64_t units) {
    if (units <= kExactClasses) return static_cast<uint32_t>(units - 1);
    const auto shift = static_cast<uint32_t>(std::bit_width(units - 1)) - 3;
    return kExactClasses + (shift - 1) * 4 + static_cast<uint32_t>((units - 1) >> shift) - 4;
  }
  static constexpr uint64_t UnitsOfClass(uint32_t size_class) {
    if (size_class < kExactClasses) return size_class + 1;
    const uint32_t above = size_class - kExactClasses;
    return uint64_t{above % 4 + 5} << (above / 4 + 1);
  }
  static constexpr uint32_t kClasses =
      kExactClasses + 4 * (std::bit_width((kMaxThresholdBytes >> kMinUnitShift) - 1) - 3) + 1;

  size_t SlotBytes(const Slab& slab) const { return UnitsOfClass(slab.size_class) << unit_shift_; }
  // The index of the slot in use that begins at the address; slab.slots if none does.
  static size_t SlotInUseAt(const Slab& slab, Addr a, size_t slot_bytes);
  void PushPartial(SlabId slab);
  void RemovePartial(SlabId slab);
  BlockId DropSlab(SlabId slab);

  ReservedArray<Slab> slabs_;      // by SlabId; entry 0 is unused
  ReservedArray<SlabId> slab_at_;  // the slab of each 16 KiB of the range
  uint64_t max_units_ = 0;         // the longest small block; 0: no block is small
  uint32_t unit_shift_ = 0;
  SlabId fresh_ = 1;  // entries of slabs_ from this one on were never used
  SlabId unused_ = kNone;
  size_t first_grain_ = 0;
  uint64_t slab_bytes_ = 0;
  uint32_t slab_count_ = 0;
  SlabId partial_[kClasses] = {};  // by class: slabs with a free slot, except empty_'s
  SlabId empty_[kClasses] = {};
};

}  // namespace gleaner::alloc
