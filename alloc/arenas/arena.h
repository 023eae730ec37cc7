// Arenas: allocation from one range of memory, the arena's own or the program's, by a policy of the
// program's choice.
//
// This is SWAlloc's interface (a pool, allocate with an alignment, free) over tree-fit, or over one
// of the policies it is compared with. Nothing is stored in the range itself: blocks, slabs and
// tables are elsewhere. Units are 256 bytes as in the paper, or another power of two; unit numbers
// are addresses divided by the unit, so alignments hold for addresses.
//
// One allocation:
//   1. the request is rounded up to units; small ones (slab_tier.h) take a slot of a slab, and
//      their class a new slab, which is a block of step 2, if it needs one;
//   2. others, and small ones for which there is no slab, take a block of the policy's;
//   3. if there is none, slabs that are empty go back, and step 2 is tried once more;
//   4. the block goes into the table (block_table.h) by which Free finds it again, and into the
//      books of what is resident (residency.h), if the memory is the arena's own.
//
// Allocate and Free cost O(log n) with tree-fit, n being the number of blocks; dropping a class's
// empty slab in step 3 costs O(1) for each of at most 53 classes.
//
// Invariants:
//   [inv.arena-bytes]   bytes in blocks handed out = the sum over slots and blocks in use;
//   [inv.arena-blocks]  every allocated block of the policy is in the table or a slab, not both.
//
// Thread-safety: with ArenaConfig::thread_safe everything but Destroy; else one thread at a time.
// What is discarded by the decay is discarded under the lock; memory is zeroed outside of it.
#pragma once

#include "alloc/arenas/block_table.h"
#include "alloc/arenas/slab_tier.h"
#include "alloc/fits/buddy.h"
#include "alloc/fits/first_fit.h"
#include "alloc/fits/tree_fit.h"
#include "alloc/residency.h"
#include "platform/lock.h"

namespace gleaner::alloc {

enum class ArenaPolicy : uint8_t { kBinned, kPlainTree, kFirstFit, kBuddy };

struct ArenaConfig {
  ArenaPolicy policy = ArenaPolicy::kBinned;
  bool thread_safe = false;
  bool huge_pages = false;    // of own memory
  size_t unit_bytes = 256;    // a power of two, 16 to 4,096
  size_t small_bytes = 0;     // blocks up to this come from slabs; 0 to 256 KiB
  size_t resident_bytes = 0;  // free memory that stays resident, of own memory
  uint64_t decay_ns = 0;      // residency.h
};

class Arena {
 public:
  // An arena of `bytes`, rounded up to OS pages, of its own memory. Null if the system refuses.
  // pre: bytes > 0.
  static Arena* Create(size_t bytes, const ArenaConfig& config);
  // An arena in [begin, begin + bytes), which stays the caller's and holds at least one whole unit.
  // It need not be zero. Null if the system refuses metadata.
  static Arena* CreateOn(Addr begin, size_t bytes, const ArenaConfig& config);
  // Gives everything back but the caller's memory.
  void Destroy();

  // The least block is one unit. Null if no block can be had. Alignment: a power of two; up to the
  // unit it is met anyway. `zeroed` asks for memory that reads as zero.
  void* Allocate(size_t bytes, size_t alignment, bool zeroed);

  enum class FreeResult : uint8_t {
    kFreed,
    kOutside,       // not in the arena's memory
    kNotAllocated,  // not the begin of a block: freed before, or never one
  };
  FreeResult Free(Addr a);  // anything but kFreed changes nothing

  // Bytes of the block that begins at the address, rounded as they were handed out; 0 if none does.
  size_t BlockBytes(Addr a);

  // Gives all free memory back to the system, empty slabs too. Returns bytes of address space:
  // those that were not resident count. 0 in the caller's memory.
  size_t Trim();

  Addr begin() const { return begin_; }  // of the first unit

  struct Stats {
    size_t pool_bytes;    // usable
    size_t used_bytes;    // in blocks and slots in use, as rounded
    size_t largest_free;  // bytes of the largest block that could be had, without alignment
    size_t slab_bytes;    // in slabs, slots in use included
    size_t idle_bytes;    // free in whole 2 MiB, resident as far as it was touched
    uint64_t discarded_bytes;
    size_t metadata_bytes;
    uint64_t used_blocks, free_blocks;  // free_blocks: of the policy
    uint64_t allocations, frees, failures, bad_frees;
  };
  Stats GetStats();

  void LockForFork();
  void UnlockAfterFork();
  void CheckForTesting();

 private:
  // The lock if the arena has one.
  class Guard {
   public:
    explicit Guard(Arena& arena) : lock_(arena.config_.thread_safe ? &arena.lock_ : nullptr) {
      if (lock_ != nullptr) lock_->Acquire();
    }
    ~Guard() {
      if (lock_ != nullptr) lock_->Release();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    platform::Lock* const lock_;
  };
  struct Block {
    Addr begin;  // 0: none
    size_t bytes;
    Residency::Range unknown;  // outside of it the block is known to be zero
  };

  constexpr Arena() = default;
  static Arena* New(const ArenaConfig& config);
  bool Init(Addr begin, size_t bytes);
  bool InitSpace(uint32_t max_blocks);

  // Steps 1, and 2 to 4. `id` may be null.
  Block TakeSmall(uint32_t size_class);
  Block TakeBlock(uint64_t units, uint64_t alignment, BlockId* id);
  void ReturnBlock(BlockId block);
  bool DropEmptySlabs();

  bool uses_tree() const { return config_.policy <= ArenaPolicy::kPlainTree; }
  BlockId SpaceAllocate(uint64_t units, uint64_t alignment);
  void SpaceFree(BlockId block);
  // The two comparison policies, out of the way of the others.
  BlockId OtherAllocate(uint64_t units, uint64_t alignment);
  void OtherFree(BlockId block);
  uint64_t SpaceLargestFree() const;

  ArenaConfig config_;
  platform::Lock lock_{platform::LockRank::kArena};
  Addr begin_ = 0, end_ = 0;  // whole units
  size_t own_bytes_ = 0;      // of the mapping; 0: the memory is the caller's
  uint32_t unit_shift_ = 0;

  // Guarded by lock_, or by the caller, all that follows.
  uint64_t used_bytes_ = 0;
  uint64_t used_blocks_ = 0;
  uint64_t allocations_ = 0, frees_ = 0, failures_ = 0, bad_frees_ = 0;
  BlockList* blocks_ = nullptr;  // the space in use, of the three
  BlockTable table_;
  Residency residency_;
  SlabTier slabs_;
  FirstFit first_fit_;
  Buddy buddy_;
  TreeFit tree_;
};

}  // namespace gleaner::alloc
