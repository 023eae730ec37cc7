// First fit over a free list in address order: a policy to compare tree-fit with.
//
// Free blocks are linked by address. A request takes the first that holds it; a freed block finds
// its place by going back through the blocks before it until one is free. Both are O(m) in the
// blocks passed; splitting and coalescing are those of tree-fit.
//
// Not thread-safe: the lock of the space it belongs to guards it.
#pragma once

#include "alloc/fits/fit_space.h"

namespace gleaner::alloc {

class FirstFit : public FitSpace<FirstFit> {
 public:
  // As TreeFit's.
  [[nodiscard]] bool Init(uint32_t max_blocks, uint64_t min_split = 1) {
    return InitList(max_blocks, min_split);
  }
  void Destroy() { DestroyList(); }
  uint64_t largest_free() const;  // O(n)

  void CheckForTesting() const;

 private:
  friend class FitSpace<FirstFit>;

  // In a free block, `height` is 1 and `child` the free blocks before and behind it. Node 0 is the
  // head of the circular list.
  enum : uint32_t { kBefore, kBehind };

  // For FitSpace.
  BlockId Find(uint64_t count, uint64_t alignment);
  void AddFree(BlockId block);
  void RemoveFree(BlockId block);
};

extern template class FitSpace<FirstFit>;

}  // namespace gleaner::alloc
