// First fit over a free list in address order: a policy for comparison with tree-fit.
//
// Free blocks are linked by address. A request takes the first free block that holds it; a freed
// block finds its place by a search backwards for the nearest free block. Both are linear in the
// blocks passed; splitting and coalescing are those of tree-fit.
//
// Not thread-safe: the lock of the owning space guards all calls.
#pragma once

#include "alloc/fits/fit_space.h"

namespace gleaner::alloc {

class FirstFit : public FitSpace<FirstFit> {
 public:
  // As TreeFit::Init.
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
