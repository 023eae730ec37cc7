// Allocation, coalescing and splitting for policies that join a freed block with both neighbours.
// `Policy` derives from FitSpace<Policy> and has
//   BlockId Find(count, alignment)  returns the free block to take, or kNone; does not take it
//   AddFree(block), RemoveFree(block)  a block becomes free, or allocated, for the policy
// all bound at compile time.
//
// Invariants:
//   [inv.tree-fit-neighbours] two blocks that touch are never both free;
//   [inv.tree-fit-units]      block_list.h.
//
// Not thread-safe: the lock of the owning space guards all calls.
#pragma once

#include "alloc/fits/block_list.h"

namespace gleaner::alloc {

template <class Policy>
class FitSpace : public BlockList {
 public:
  // Adds [start, start + count) as free space, joined to the last block if that is free and touches
  // it. False, with nothing changed, if there is no metadata for another block.
  // pre: count > 0; start is not below the end of what was added before.
  [[nodiscard]] bool Extend(uint64_t start, uint64_t count);

  // Allocates at least `count` units from a multiple of `alignment` on; kNone if the policy finds
  // no free block. CountOf tells how many were given: more than `count` only when the rest was
  // below min_split or there was no metadata to split it off. Without metadata for the gap that an
  // alignment leaves on the left, only blocks that begin at a multiple of it serve.
  // pre: count > 0; alignment is a power of two.
  BlockId Allocate(uint64_t count, uint64_t alignment = 1);

  // Frees an allocated block. Needs no metadata.
  void Free(BlockId block);

  // Keeps the first `count` units of an allocated block and frees the rest. A rest that cannot join
  // a free right neighbour stays if it is below min_split or there is no metadata for it.
  // pre: 0 < count <= CountOf(block).
  void Shrink(BlockId block, uint64_t count);

  // Grows an allocated block in place to at least `count` units at the cost of a free right
  // neighbour; a rest below min_split comes along. False, with nothing changed, if it cannot.
  // Needs no metadata. True if the block is that large already.
  bool TryGrow(BlockId block, uint64_t count);
  // Whether TryGrow could succeed after a large enough Extend.
  bool IsLastAllocated(BlockId block) const {
    const BlockId right = nodes_[block].next;
    return right == kNone || (IsFreeAndTouches(right, block, right) && nodes_[right].next == kNone);
  }

 protected:
  // Fatal if two free blocks touch. Returns the number of free blocks.
  uint32_t CheckNeighbours() const;

 private:
  Policy& policy() { return static_cast<Policy&>(*this); }
  // Frees the units of an allocated block beyond `keep`, if they are at least min_split.
  void GiveBackRest(BlockId block, uint64_t keep);
  void MakeFree(BlockId block) {
    if (kVerifyBuild) {
      const BlockId left = nodes_[block].prev, right = nodes_[block].next;
      GLEANER_CHECK(!IsFreeAndTouches(left, left, block) && !IsFreeAndTouches(right, block, right),
                    "tree-fit: block %u freed beside a free block [inv.tree-fit-neighbours]",
                    block);
    }
    policy().AddFree(block);
    free_units_ += nodes_[block].count;
  }
  void MakeAllocated(BlockId block) {
    policy().RemoveFree(block);
    free_units_ -= nodes_[block].count;
  }
};

template <class Policy>
bool FitSpace<Policy>::Extend(uint64_t start, uint64_t count) {
  CheckExtend(start, count);
  const BlockId last = nodes_[0].prev;
  if (nodes_[last].height != 0 && EndOf(last) == start) {
    MakeAllocated(last);
    SetCount(last, nodes_[last].count + count);
    MakeFree(last);
  } else {
    const BlockId block = NewBlock(start, count, last);
    if (block == kNone) return false;
    MakeFree(block);
  }
  total_units_ += count;
  return true;
}

template <class Policy>
BlockId FitSpace<Policy>::Allocate(uint64_t count, uint64_t alignment) {
  GLEANER_CHECK(count > 0 && IsPowerOfTwo(alignment), "tree-fit: Allocate(%llu, alignment %llu)",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(alignment));
  BlockId block = policy().Find(count, alignment);
  if (block == kNone) return kNone;
  MakeAllocated(block);
  const uint64_t gap = AlignUp(nodes_[block].start, alignment) - nodes_[block].start;
  if (gap != 0) {
    const BlockId left = block;
    block = SplitOff(left, gap);
    MakeFree(left);
  }
  GiveBackRest(block, count);
  return block;
}

template <class Policy>
void FitSpace<Policy>::Free(BlockId block) {
  CheckAllocated(block, "Free");
  const BlockId left = nodes_[block].prev;
  if (IsFreeAndTouches(left, left, block)) {
    MakeAllocated(left);
    SetCount(left, nodes_[left].count + nodes_[block].count);
    DropBlock(block);
    block = left;
  }
  const BlockId right = nodes_[block].next;
  if (IsFreeAndTouches(right, block, right)) {
    MakeAllocated(right);
    SetCount(block, nodes_[block].count + nodes_[right].count);
    DropBlock(right);
  }
  MakeFree(block);
}

template <class Policy>
void FitSpace<Policy>::Shrink(BlockId block, uint64_t count) {
  CheckAllocated(block, "Shrink");
  const uint64_t have = nodes_[block].count;
  GLEANER_CHECK(count > 0 && count <= have, "tree-fit: Shrink of %llu units to %llu",
                static_cast<unsigned long long>(have), static_cast<unsigned long long>(count));
  if (count == have) return;
  const BlockId right = nodes_[block].next;
  if (IsFreeAndTouches(right, block, right)) {
    MakeAllocated(right);
    nodes_[right].start -= have - count;
    SetCount(right, nodes_[right].count + (have - count));
    SetCount(block, count);
    MakeFree(right);
  } else {
    GiveBackRest(block, count);
  }
}

template <class Policy>
bool FitSpace<Policy>::TryGrow(BlockId block, uint64_t count) {
  CheckAllocated(block, "TryGrow");
  const uint64_t have = nodes_[block].count;
  if (count <= have) return true;
  const uint64_t missing = count - have;
  const BlockId right = nodes_[block].next;
  if (!IsFreeAndTouches(right, block, right) || nodes_[right].count < missing) return false;
  MakeAllocated(right);
  const uint64_t rest = nodes_[right].count - missing;
  if (rest >= min_split_) {
    nodes_[right].start += missing;
    SetCount(right, rest);
    SetCount(block, count);
    MakeFree(right);
  } else {
    SetCount(block, count + rest);
    DropBlock(right);
  }
  return true;
}

template <class Policy>
void FitSpace<Policy>::GiveBackRest(BlockId block, uint64_t keep) {
  if (nodes_[block].count - keep < min_split_) return;
  const BlockId rest = SplitOff(block, keep);
  if (rest != kNone) MakeFree(rest);
}

template <class Policy>
uint32_t FitSpace<Policy>::CheckNeighbours() const {
  BlockId left = kNone;
  ForEachBlock([&](BlockId b) {
    GLEANER_CHECK(nodes_[b].height == 0 || !IsFreeAndTouches(left, left, b),
                  "tree-fit: blocks %u and %u are both free [inv.tree-fit-neighbours]", left, b);
    left = b;
  });
  return CheckList();
}

}  // namespace gleaner::alloc
