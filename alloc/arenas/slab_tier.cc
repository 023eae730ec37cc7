#include "alloc/arenas/slab_tier.h"

#include "platform/common/bits.h"

namespace gleaner::alloc {

bool SlabTier::Init(Addr begin, size_t bytes, uint32_t unit_shift, size_t threshold_bytes) {
  GLEANER_CHECK(max_units_ == 0 && unit_shift >= kMinUnitShift && unit_shift <= kMaxUnitShift &&
                    threshold_bytes <= kMaxThresholdBytes,
                "slab tier: Init for units of 2^%u bytes, threshold %zu", unit_shift,
                threshold_bytes);
  const size_t max = bytes / 64 / kMinSlots;
  const size_t max_bytes = threshold_bytes < max ? threshold_bytes : max;
  if (max_bytes >> unit_shift == 0) return true;
  first_grain_ = begin / kGrainBytes;
  const size_t grains = (begin + bytes - 1) / kGrainBytes - first_grain_ + 1;
  if (!slabs_.Reserve(grains + 1) || !slabs_.EnsureCommitted(1) || !slab_at_.Reserve(grains) ||
      !slab_at_.EnsureCommitted(grains)) {
    Destroy();
    return false;
  }
  unit_shift_ = unit_shift;
  max_units_ = max_bytes >> unit_shift;
  fresh_ = 1;
  return true;
}

void SlabTier::Destroy() {
  slabs_.Release();
  slab_at_.Release();
  max_units_ = slab_bytes_ = 0;
  slab_count_ = 0;
  fresh_ = 1;
  unused_ = kNone;
  for (SlabId& slab : partial_) slab = kNone;
  for (SlabId& slab : empty_) slab = kNone;
}

size_t SlabTier::SlabBytes(uint32_t size_class) const {
  const size_t wanted = std::bit_ceil((UnitsOfClass(size_class) << unit_shift_) * kSlotsWanted);
  return wanted < kGrainBytes ? kGrainBytes : wanted < kMaxSlabBytes ? wanted : kMaxSlabBytes;
}

SlabTier::Slot SlabTier::Allocate(uint32_t size_class) {
  SlabId id = partial_[size_class];
  if (id == kNone) {
    id = empty_[size_class];
    if (id == kNone) return {0, 0, false};
    empty_[size_class] = kNone;
    PushPartial(id);
  }
  Slab& slab = slabs_[id];
  const auto word = static_cast<uint32_t>(std::countr_zero(slab.free_words));
  uint64_t& free_slots = slab.free_slots[word];
  const uint32_t slot = word * 64 + static_cast<uint32_t>(std::countr_zero(free_slots));
  free_slots &= free_slots - 1;
  if (free_slots == 0) slab.free_words &= ~(1u << word);
  if (--slab.free == 0) RemovePartial(id);
  const bool fresh = slot >= slab.used_to;
  if (fresh) slab.used_to = slot + 1;
  const size_t bytes = SlotBytes(slab);
  return {slab.begin + slot * bytes, bytes, fresh && slab.zero};
}

bool SlabTier::AddSlab(uint32_t size_class, Addr begin, BlockId block, bool zero) {
  SlabId id = unused_;
  if (id != kNone) {
    unused_ = slabs_[id].behind;
  } else {
    if (!slabs_.EnsureCommitted(size_t{fresh_} + 1)) return false;
    id = fresh_++;
  }
  const size_t bytes = SlabBytes(size_class);
  const auto slots = static_cast<uint32_t>(bytes / (UnitsOfClass(size_class) << unit_shift_));
  Slab& slab = slabs_[id];
  slab = Slab{};
  slab.begin = begin;
  slab.block = block;
  slab.size_class = size_class;
  slab.slots = slab.free = slots;
  slab.zero = zero;
  for (uint32_t word = 0; word * 64 < slots; ++word) {
    const uint32_t rest = slots - word * 64;
    slab.free_slots[word] = rest >= 64 ? ~uint64_t{0} : (uint64_t{1} << rest) - 1;
    slab.free_words |= 1u << word;
  }
  for (size_t at = 0; at < bytes; at += kGrainBytes) {
    slab_at_[(begin + at) / kGrainBytes - first_grain_] = id;
  }
  slab_bytes_ += bytes;
  ++slab_count_;
  PushPartial(id);
  return true;
}

size_t SlabTier::SlotInUseAt(const Slab& slab, Addr a, size_t slot_bytes) {
  // 32 bits, because their division is faster.
  const auto offset = static_cast<uint32_t>(a - slab.begin);
  const uint32_t slot = offset / static_cast<uint32_t>(slot_bytes);
  const bool in_use = slot * slot_bytes == offset && slot < slab.slots &&
                      (slab.free_slots[slot / 64] >> (slot % 64) & 1) == 0;
  return in_use ? slot : slab.slots;
}

size_t SlabTier::SlotBytesAt(SlabId id, Addr a) const {
  const Slab& slab = slabs_[id];
  const size_t bytes = SlotBytes(slab);
  return SlotInUseAt(slab, a, bytes) != slab.slots ? bytes : 0;
}

size_t SlabTier::Free(SlabId id, Addr a, BlockId* dropped) {
  Slab& slab = slabs_[id];
  const size_t bytes = SlotBytes(slab), slot = SlotInUseAt(slab, a, bytes);
  *dropped = BlockList::kNone;
  if (GLEANER_UNLIKELY(slot == slab.slots)) return 0;
  slab.free_slots[slot / 64] |= uint64_t{1} << (slot % 64);
  slab.free_words |= 1u << (slot / 64);
  if (slab.free++ == 0) PushPartial(id);
  if (slab.free != slab.slots) return bytes;
  RemovePartial(id);
  SlabId& empty = empty_[slab.size_class];
  if (empty != kNone) {
    *dropped = DropSlab(id);
  } else {
    empty = id;
  }
  return bytes;
}

BlockId SlabTier::DropEmptySlab() {
  for (SlabId& empty : empty_) {
    if (empty == kNone) continue;
    const SlabId id = empty;
    empty = kNone;
    return DropSlab(id);
  }
  return BlockList::kNone;
}

BlockId SlabTier::DropSlab(SlabId id) {
  Slab& slab = slabs_[id];
  const size_t bytes = SlabBytes(slab.size_class);
  for (size_t at = 0; at < bytes; at += kGrainBytes) {
    slab_at_[(slab.begin + at) / kGrainBytes - first_grain_] = kNone;
  }
  slab_bytes_ -= bytes;
  --slab_count_;
  slab.slots = 0;
  slab.behind = unused_;
  unused_ = id;
  return slab.block;
}

void SlabTier::PushPartial(SlabId id) {
  Slab& slab = slabs_[id];
  SlabId& head = partial_[slab.size_class];
  slab.before = kNone;
  slab.behind = head;
  if (head != kNone) slabs_[head].before = id;
  head = id;
}

void SlabTier::RemovePartial(SlabId id) {
  const Slab& slab = slabs_[id];
  if (slab.before != kNone) {
    slabs_[slab.before].behind = slab.behind;
  } else {
    partial_[slab.size_class] = slab.behind;
  }
  if (slab.behind != kNone) slabs_[slab.behind].before = slab.before;
}

uint64_t SlabTier::UsedBytesForTesting() const {
  uint64_t bytes = 0;
  for (SlabId id = 1; id < fresh_; ++id) {
    if (slabs_[id].slots != 0)
      bytes += (slabs_[id].slots - slabs_[id].free) * SlotBytes(slabs_[id]);
  }
  return bytes;
}

void SlabTier::CheckForTesting() const {
  uint64_t bytes = 0;
  uint32_t waiting = 0;
  for (SlabId id = 1; id < fresh_; ++id) {
    const Slab& slab = slabs_[id];
    if (slab.slots == 0) continue;
    bytes += SlabBytes(slab.size_class);
    waiting += slab.free != 0 ? 1 : 0;
    uint32_t free = 0;
    for (uint32_t word = 0; word < kWords; ++word) {
      free += static_cast<uint32_t>(CountBits(slab.free_slots[word]));
      GLEANER_CHECK(((slab.free_words >> word & 1) != 0) == (slab.free_slots[word] != 0),
                    "slab tier: the summary of slab %u is wrong about word %u", id, word);
    }
    GLEANER_CHECK(free == slab.free && SlabAt(slab.begin) == id,
                  "slab tier: slab %u has %u free slots, %u counted", id, free, slab.free);
  }
  GLEANER_CHECK(bytes == slab_bytes_, "slab tier: %llu bytes of slabs, %llu counted",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(slab_bytes_));
  uint32_t listed = 0;
  for (uint32_t size_class = 0; size_class < kClasses; ++size_class) {
    for (SlabId id = partial_[size_class]; id != kNone; id = slabs_[id].behind, ++listed) {
      GLEANER_CHECK(slabs_[id].size_class == size_class && slabs_[id].free != 0,
                    "slab tier: slab %u is in the list of class %u", id, size_class);
    }
    const SlabId empty = empty_[size_class];
    if (empty == kNone) continue;
    ++listed;
    GLEANER_CHECK(slabs_[empty].free == slabs_[empty].slots, "slab tier: slab %u is not empty",
                  empty);
  }
  GLEANER_CHECK(listed == waiting, "slab tier: %u slabs have free slots, %u are listed", waiting,
                listed);
}

}  // namespace gleaner::alloc
