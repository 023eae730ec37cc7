// Arenas: allocation from one range of memory, the arena's own or the program's, by a policy that
// the program chooses.
//
// This is SWAlloc's interface (a pool, allocate with an alignment, free) over tree-fit, or over one
// of the policies that tree-fit is compared with. Nothing is stored in the range itself: the
// metadata of blocks, slabs and tables is elsewhere. Units are 256 bytes as in the paper, or
// another power of two; unit numbers are addresses divided by the unit, so alignments hold for
// addresses.
//
// One allocation:
//   1. the request is rounded up to units; small ones (slab_tier.h) take a slot of a slab, and
//      their class a new slab, which is a block of step 2, if it needs one;
//   2. other requests, and small ones without a slab, take a block of the policy's;
//   3. if there is no block, empty slabs are freed, and step 2 is tried once more;
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
// The decay discards memory under the lock; Allocate zeroes memory outside of it.
#pragma once

#include "alloc/arenas/block_table.h"
#include "alloc/arenas/slab_tier.h"
#include "alloc/fits/buddy.h"
#include "alloc/fits/first_fit.h"
#include "alloc/fits/tree_fit.h"
#include "alloc/placement.h"
#include "alloc/residency.h"
#include "platform/os/lock.h"

namespace gleaner::alloc {

enum class ArenaPolicy : uint8_t { kBinned, kPlainTree, kFirstFit, kBuddy };

struct ArenaConfig {
  ArenaPolicy policy = ArenaPolicy::kBinned;
  bool thread_safe = false;
  bool huge_pages = false;    // for the arena's own memory
  size_t unit_bytes = 256;    // a power of two, 16 to 4,096
  size_t small_bytes = 0;     // blocks up to this come from slabs; 0 to 256 KiB
  size_t resident_bytes = 0;  // free memory that stays resident, if the memory is the arena's own
  const Placement* placement = nullptr;  // of its own memory, used by Create; null: none
  uint64_t decay_ns = 0;                 // decay time of more free memory (residency.h)
};

class Arena {
 public:
  // Makes an arena with `bytes` of its own memory, rounded up to OS pages. Null if the system
  // refuses. pre: bytes > 0.
  static Arena* Create(size_t bytes, const ArenaConfig& config);
  // Makes an arena in [begin, begin + bytes), memory of the caller's that holds at least one whole
  // unit and need not be zero. Null if the system refuses metadata.
  static Arena* CreateOn(Addr begin, size_t bytes, const ArenaConfig& config);
  // Gives all memory back except the caller's. pre: no other call is in progress, and none follows.
  void Destroy();

  // Allocates at least `bytes`, one unit at the least. Null if there is no block. `alignment` is a
  // power of two; every block is aligned to the unit. With `zeroed` the memory reads as zero.
  void* Allocate(size_t bytes, size_t alignment, bool zeroed);

  enum class FreeResult : uint8_t {
    kFreed,
    kOutside,       // not in the arena's memory
    kNotAllocated,  // no allocated block begins there
  };
  // Frees the block that begins at the address. Results other than kFreed change nothing.
  FreeResult Free(Addr a);

  // The bytes of the block that begins at the address, as rounded by Allocate; 0 if no block begins
  // there.
  size_t BlockBytes(Addr a);

  // Gives all free memory back to the system, empty slabs included. Returns the bytes of address
  // space discarded, resident or not. 0 if the memory is the caller's.
  size_t Trim();

  Addr begin() const { return begin_; }  // of the first unit

  struct Stats {
    size_t pool_bytes;    // usable
    size_t used_bytes;    // in blocks and slots in use, as rounded
    size_t largest_free;  // bytes of the largest free block
    size_t slab_bytes;    // in slabs, slots in use included
    size_t idle_bytes;    // free in whole pieces of 2 MiB, resident as far as touched
    uint64_t discarded_bytes;
    size_t metadata_bytes;
    uint64_t used_blocks, free_blocks;  // in use; free blocks of the policy
    uint64_t allocations, frees, failures, bad_frees;
  };
  Stats GetStats();

  void LockForFork();
  void UnlockAfterFork();
  void CheckForTesting();

 private:
  // Holds the arena's lock if the arena is thread-safe.
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
    Residency::Range unknown;  // the rest of the block is known to be zero
  };

  constexpr Arena() = default;
  static Arena* New(const ArenaConfig& config);
  bool Init(Addr begin, size_t bytes);
  bool InitSpace(uint32_t max_blocks);

  // TakeSmall is step 1; TakeBlock is steps 2 and 3, and notes residency. `*id` becomes the block.
  Block TakeSmall(uint32_t size_class);
  Block TakeBlock(uint64_t units, uint64_t alignment, BlockId* id);
  void ReturnBlock(BlockId block);
  bool DropEmptySlabs();

  bool uses_tree() const { return config_.policy <= ArenaPolicy::kPlainTree; }
  BlockId SpaceAllocate(uint64_t units, uint64_t alignment);
  void SpaceFree(BlockId block);
  // Allocation by first fit or buddies, apart from the fast path of tree-fit.
  BlockId OtherAllocate(uint64_t units, uint64_t alignment);
  void OtherFree(BlockId block);
  uint64_t SpaceLargestFree() const;

  ArenaConfig config_;
  platform::Lock lock_{platform::LockRank::kArena};
  Addr begin_ = 0, end_ = 0;  // whole units
  size_t own_bytes_ = 0;      // of the arena's mapping; 0: the memory is the caller's
  uint32_t unit_shift_ = 0;

  // All fields below are guarded by lock_, or by the caller if the arena is not thread-safe.
  uint64_t used_bytes_ = 0;
  uint64_t used_blocks_ = 0;
  uint64_t allocations_ = 0, frees_ = 0, failures_ = 0, bad_frees_ = 0;
  BlockList* blocks_ = nullptr;  // the space in use: first_fit_, buddy_ or tree_
  BlockTable table_;
  Residency residency_;
  SlabTier slabs_;
  FirstFit first_fit_;
  Buddy buddy_;
  TreeFit tree_;
};

}  // namespace gleaner::alloc
