#include "alloc/arenas/arena.h"

#include <cstring>
#include <new>

#include "platform/os/clock.h"

namespace gleaner::alloc {
namespace {

// The arena's own memory is reserved at multiples of this, so that all of it but its end can be
// huge pages.
constexpr size_t kOwnAlignment = Residency::kChunkBytes;

size_t ArenaMappingBytes() { return AlignUp(sizeof(Arena), platform::OsPageBytes()); }

}  // namespace

Arena* Arena::New(const ArenaConfig& config) {
  void* p = platform::Reserve(ArenaMappingBytes(), platform::OsPageBytes());
  if (p == nullptr) return nullptr;
  if (!platform::Commit(p, ArenaMappingBytes())) {
    platform::Release(p, ArenaMappingBytes());
    return nullptr;
  }
  auto* arena = new (p) Arena;
  arena->config_ = config;
  arena->unit_shift_ = static_cast<uint32_t>(std::countr_zero(config.unit_bytes));
  return arena;
}

Arena* Arena::Create(size_t bytes, const ArenaConfig& config) {
  const size_t os_page = platform::OsPageBytes();
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t own_bytes = AlignUp(bytes, os_page);
  void* p = platform::Reserve(own_bytes, own_bytes < kOwnAlignment ? os_page : kOwnAlignment);
  if (p == nullptr) return nullptr;
  Arena* arena = platform::Commit(p, own_bytes) ? New(config) : nullptr;
  if (arena == nullptr) {
    platform::Release(p, own_bytes);
    return nullptr;
  }
  if (config.huge_pages) platform::AdviseHugePages(p, own_bytes);
  if (config.placement != nullptr) {
    PlacementResult ignored;
    (void)Place(p, own_bytes, *config.placement, &ignored);
  }
  arena->own_bytes_ = own_bytes;
  if (!arena->Init(AddressOf(p), own_bytes) ||
      !arena->residency_.Init(AddressOf(p), own_bytes, config.resident_bytes, config.decay_ns)) {
    arena->Destroy();
    return nullptr;
  }
  return arena;
}

Arena* Arena::CreateOn(Addr begin, size_t bytes, const ArenaConfig& config) {
  Arena* arena = New(config);
  if (arena == nullptr) return nullptr;
  const Addr first = AlignUp(begin, config.unit_bytes);
  if (!arena->Init(first, AlignDown(begin + bytes, config.unit_bytes) - first)) {
    arena->Destroy();
    return nullptr;
  }
  return arena;
}

bool Arena::Init(Addr begin, size_t bytes) {
  begin_ = begin;
  end_ = begin + bytes;
  const uint64_t units = bytes >> unit_shift_;
  // At worst every unit is a block. With metadata for fewer blocks the arena still works, but hands
  // out blocks that it cannot split.
  constexpr uint64_t kMaxBlocks = UINT32_MAX - 1;
  constexpr uint64_t kFewestBlocks = 1024;
  // Buddies cut the range into up to 2 * 64 pieces before the first block is allocated.
  uint64_t max_blocks = units + 2 * 64 < kMaxBlocks ? units + 2 * 64 : kMaxBlocks;
  while (!InitSpace(static_cast<uint32_t>(max_blocks))) {
    if (max_blocks <= kFewestBlocks) return false;
    max_blocks /= 2;
  }
  return slabs_.Init(begin_, bytes, unit_shift_, config_.small_bytes);
}

bool Arena::InitSpace(uint32_t max_blocks) {
  const uint64_t first = begin_ >> unit_shift_, units = (end_ - begin_) >> unit_shift_;
  if (!table_.Init(max_blocks)) return false;
  bool ok = false;
  switch (config_.policy) {
    case ArenaPolicy::kBinned:
    case ArenaPolicy::kPlainTree:
      blocks_ = &tree_;
      ok = tree_.Init(
               config_.policy == ArenaPolicy::kBinned ? FitPolicy::kBinned : FitPolicy::kPlainTree,
               max_blocks) &&
           tree_.Extend(first, units);
      if (!ok) tree_.Destroy();
      break;
    case ArenaPolicy::kFirstFit:
      blocks_ = &first_fit_;
      ok = first_fit_.Init(max_blocks) && first_fit_.Extend(first, units);
      if (!ok) first_fit_.Destroy();
      break;
    case ArenaPolicy::kBuddy:
      blocks_ = &buddy_;
      ok = buddy_.Init(max_blocks) && buddy_.Extend(first, units);
      if (!ok) buddy_.Destroy();
      break;
  }
  if (!ok) table_.Destroy();
  return ok;
}

void Arena::Destroy() {
  slabs_.Destroy();
  residency_.Destroy();
  table_.Destroy();
  tree_.Destroy();
  first_fit_.Destroy();
  buddy_.Destroy();
  if (own_bytes_ != 0) platform::Release(PointerAt<void>(begin_), own_bytes_);
  platform::Release(this, ArenaMappingBytes());
}

inline BlockId Arena::SpaceAllocate(uint64_t units, uint64_t alignment) {
  return GLEANER_LIKELY(uses_tree()) ? tree_.Allocate(units, alignment)
                                     : OtherAllocate(units, alignment);
}

inline void Arena::SpaceFree(BlockId block) {
  if (GLEANER_LIKELY(uses_tree())) {
    tree_.Free(block);
  } else {
    OtherFree(block);
  }
}

GLEANER_NOINLINE BlockId Arena::OtherAllocate(uint64_t units, uint64_t alignment) {
  return config_.policy == ArenaPolicy::kBuddy ? buddy_.Allocate(units, alignment)
                                               : first_fit_.Allocate(units, alignment);
}

GLEANER_NOINLINE void Arena::OtherFree(BlockId block) {
  if (config_.policy == ArenaPolicy::kBuddy) {
    buddy_.Free(block);
  } else {
    first_fit_.Free(block);
  }
}

uint64_t Arena::SpaceLargestFree() const {
  switch (config_.policy) {
    case ArenaPolicy::kFirstFit:
      return first_fit_.largest_free();
    case ArenaPolicy::kBuddy:
      return buddy_.largest_free();
    default:
      return tree_.largest_free();
  }
}

Arena::Block Arena::TakeBlock(uint64_t units, uint64_t alignment, BlockId* id) {
  BlockId block = SpaceAllocate(units, alignment);
  if (GLEANER_UNLIKELY(block == BlockList::kNone)) {
    if (!DropEmptySlabs()) return {};
    block = SpaceAllocate(units, alignment);
    if (block == BlockList::kNone) return {};
  }
  *id = block;
  const Addr begin = blocks_->StartOf(block) << unit_shift_;
  const size_t bytes = blocks_->CountOf(block) << unit_shift_;
  return {begin, bytes,
          residency_.initialised() ? residency_.Take(begin, bytes)
                                   : Residency::Range{begin, begin + bytes}};
}

void Arena::ReturnBlock(BlockId block) {
  if (residency_.initialised()) {
    residency_.Return(blocks_->StartOf(block) << unit_shift_, blocks_->CountOf(block)
                                                                  << unit_shift_);
  }
  SpaceFree(block);
}

bool Arena::DropEmptySlabs() {
  bool any = false;
  for (BlockId block = slabs_.DropEmptySlab(); block != BlockList::kNone;
       block = slabs_.DropEmptySlab()) {
    ReturnBlock(block);
    any = true;
  }
  return any;
}

Arena::Block Arena::TakeSmall(uint32_t size_class) {
  SlabTier::Slot slot = slabs_.Allocate(size_class);
  if (GLEANER_UNLIKELY(slot.begin == 0)) {
    BlockId id;
    const Block slab = TakeBlock(slabs_.SlabBytes(size_class) >> unit_shift_,
                                 SlabTier::kGrainBytes >> unit_shift_, &id);
    if (slab.begin == 0) return {};
    if (!slabs_.AddSlab(size_class, slab.begin, id, slab.unknown.begin == slab.unknown.end)) {
      ReturnBlock(id);
      return {};
    }
    slot = slabs_.Allocate(size_class);
  }
  return {slot.begin, slot.bytes, {slot.begin, slot.zero ? slot.begin : slot.begin + slot.bytes}};
}

void* Arena::Allocate(size_t bytes, size_t alignment, bool zeroed) {
  Block block{};
  {
    Guard guard(*this);
    if (GLEANER_LIKELY(bytes <= end_ - begin_)) {
      const uint64_t units = bytes == 0 ? 1 : (bytes + config_.unit_bytes - 1) >> unit_shift_;
      const uint64_t alignment_units = alignment >> unit_shift_ != 0 ? alignment >> unit_shift_ : 1;
      const uint32_t size_class = slabs_.ClassOf(units, alignment_units);
      if (size_class != SlabTier::kNoClass) block = TakeSmall(size_class);
      if (block.begin == 0) {
        BlockId id;
        block = TakeBlock(units, alignment_units, &id);
        if (block.begin != 0) table_.Insert(*blocks_, id);
      }
    }
    if (GLEANER_UNLIKELY(block.begin == 0)) {
      ++failures_;
      return nullptr;
    }
    ++allocations_;
    ++used_blocks_;
    used_bytes_ += block.bytes;
  }
  if (zeroed && block.unknown.begin != block.unknown.end) {
    memset(PointerAt<void>(block.unknown.begin), 0, block.unknown.end - block.unknown.begin);
  }
  return PointerAt<void>(block.begin);
}

Arena::FreeResult Arena::Free(Addr a) {
  Guard guard(*this);
  if (GLEANER_UNLIKELY(a - begin_ >= end_ - begin_)) {
    ++bad_frees_;
    return FreeResult::kOutside;
  }
  const SlabId slab = slabs_.SlabAt(a);
  size_t bytes;
  BlockId block;
  if (slab != SlabTier::kNone) {
    bytes = slabs_.Free(slab, a, &block);
  } else {
    const bool whole = (a & (config_.unit_bytes - 1)) == 0;
    block = whole ? table_.Find(*blocks_, a >> unit_shift_) : BlockList::kNone;
    bytes = 0;
    if (GLEANER_LIKELY(block != BlockList::kNone)) {
      bytes = blocks_->CountOf(block) << unit_shift_;
      table_.Remove(*blocks_, block);
    }
  }
  if (GLEANER_UNLIKELY(bytes == 0)) {
    ++bad_frees_;
    return FreeResult::kNotAllocated;
  }
  ++frees_;
  --used_blocks_;
  used_bytes_ -= bytes;
  if (block != BlockList::kNone) {
    ReturnBlock(block);
    if (residency_.IsDecayDue()) residency_.Decay(platform::CoarseNowNs());
  }
  return FreeResult::kFreed;
}

size_t Arena::BlockBytes(Addr a) {
  Guard guard(*this);
  if (a - begin_ >= end_ - begin_) return 0;
  const SlabId slab = slabs_.SlabAt(a);
  if (slab != SlabTier::kNone) return slabs_.SlotBytesAt(slab, a);
  if ((a & (config_.unit_bytes - 1)) != 0) return 0;
  const BlockId block = table_.Find(*blocks_, a >> unit_shift_);
  return block == BlockList::kNone ? 0 : blocks_->CountOf(block) << unit_shift_;
}

size_t Arena::Trim() {
  Guard guard(*this);
  DropEmptySlabs();
  return residency_.initialised() ? residency_.Trim() : 0;
}

Arena::Stats Arena::GetStats() {
  Guard guard(*this);
  Stats stats{};
  stats.pool_bytes = end_ - begin_;
  stats.used_bytes = used_bytes_;
  stats.largest_free = SpaceLargestFree() << unit_shift_;
  stats.slab_bytes = slabs_.slab_bytes();
  stats.idle_bytes = residency_.idle_bytes();
  stats.discarded_bytes = residency_.discarded_bytes();
  stats.metadata_bytes = ArenaMappingBytes() + blocks_->MetadataBytes() + table_.MetadataBytes() +
                         residency_.MetadataBytes() + slabs_.MetadataBytes();
  stats.used_blocks = used_blocks_;
  stats.free_blocks = blocks_->block_count() - table_.size() - slabs_.slab_count();
  stats.allocations = allocations_;
  stats.frees = frees_;
  stats.failures = failures_;
  stats.bad_frees = bad_frees_;
  return stats;
}

void Arena::LockForFork() {
  // All arenas' locks have one rank, and TryAcquire is not checked for order. No holder of an
  // arena's lock waits for another lock, so the loop ends.
  while (config_.thread_safe && !lock_.TryAcquire()) platform::CpuRelax();
}

void Arena::UnlockAfterFork() {
  if (config_.thread_safe) lock_.Release();
}

void Arena::CheckForTesting() {
  Guard guard(*this);
  switch (config_.policy) {
    case ArenaPolicy::kFirstFit:
      first_fit_.CheckForTesting();
      break;
    case ArenaPolicy::kBuddy:
      buddy_.CheckForTesting();
      break;
    default:
      tree_.CheckForTesting();
  }
  slabs_.CheckForTesting();
  if (residency_.initialised()) residency_.CheckForTesting();
  uint64_t bytes = slabs_.UsedBytesForTesting();
  uint32_t in_table = 0, in_slabs = 0;
  blocks_->ForEachBlock([&](BlockId block) {
    if (blocks_->IsFree(block)) return;
    const uint64_t start = blocks_->StartOf(block);
    const bool listed = table_.Find(*blocks_, start) == block;
    const SlabId slab = slabs_.SlabAt(start << unit_shift_);
    GLEANER_CHECK(listed != (slab != SlabTier::kNone),
                  "arena: block %u: in the table %d, slab %u [inv.arena-blocks]", block, listed,
                  slab);
    if (listed) {
      ++in_table;
      bytes += blocks_->CountOf(block) << unit_shift_;
    } else {
      ++in_slabs;
    }
  });
  GLEANER_CHECK(in_table == table_.size() && in_slabs == slabs_.slab_count(),
                "arena: %u blocks in the table, %u counted; %u slabs, %u counted", in_table,
                table_.size(), in_slabs, slabs_.slab_count());
  GLEANER_CHECK(bytes == used_bytes_ && used_blocks_ == allocations_ - frees_,
                "arena: %llu bytes in use, %llu counted [inv.arena-bytes]",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(used_bytes_));
}

}  // namespace gleaner::alloc
