// Binary buddies: a policy for comparison with tree-fit.
//
// A block of order k has 2^k units and begins at a multiple of 2^k. A request is rounded up to a
// power of two, and to its alignment; larger blocks are halved until one fits; a freed block is
// joined with its buddy, the other half of the block that both came from, while the buddy is free
// and whole. Free blocks of an order are in a list, the one freed last in front. Since blocks lie
// in address order, a buddy is a neighbour in the block list. Allocate and Free are O(log of the
// space's units).
//
// Invariants:
//   [inv.buddy]  every block is of an order, and two free blocks are never buddies.
//
// Not thread-safe: the lock of the owning space guards all calls.
#pragma once

#include "alloc/fits/block_list.h"

namespace gleaner::alloc {

class Buddy : public BlockList {
 public:
  // As TreeFit::Init, with a min_split of 1.
  [[nodiscard]] bool Init(uint32_t max_blocks) { return InitList(max_blocks, 1); }
  void Destroy();

  // Adds [start, start + count), cut into blocks of the largest orders that fit. False, with
  // nothing changed, if there is no metadata for all of them.
  // pre: count > 0; start is not below the end of what was added before.
  [[nodiscard]] bool Extend(uint64_t start, uint64_t count);

  // Allocates at least `count` units from a multiple of `alignment` on; kNone if no free block is
  // large enough. CountOf tells how many were given: a power of two.
  // pre: count > 0; alignment is a power of two.
  BlockId Allocate(uint64_t count, uint64_t alignment = 1);

  // Frees an allocated block. Needs no metadata.
  void Free(BlockId block);

  uint64_t largest_free() const;  // 0 if nothing is free; O(1)

  void CheckForTesting() const;

 private:
  static constexpr uint32_t kOrders = 56;

  // In a free block, `height` is its order + 1 and `child` its neighbours in the list of that
  // order, kNone at the ends.
  enum : uint32_t { kBefore, kBehind };

  void AddFree(BlockId block);
  void RemoveFree(BlockId block);
  // The buddy of a block if it is free and whole, else kNone.
  BlockId FreeBuddyOf(BlockId block) const;

  uint64_t orders_in_use_ = 0;  // bit k: heads_[k] != kNone
  BlockId heads_[kOrders] = {};
};

}  // namespace gleaner::alloc
