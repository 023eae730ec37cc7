// Tree-fit: best fit among the free blocks of a space, by balanced trees.
//
// The model is SWAlloc's: blocks in a doubly linked list by address, free blocks in a balanced tree
// by size, split when the rest is worth a block, coalesced with both neighbours when freed. It
// departs from the paper in three ways. Metadata is out of band (block_list.h); the gap that an
// alignment leaves on the left is a free block at once, not padding that waits for its owner; the
// tree is cut into bins by size.
//
// A bin is a range of sizes: one size each while sizes are small, then a fixed number of equal
// ranges per doubling. Each bin holds an AVL tree ordered by (size, start), and a bitmap tells
// which bins hold anything. A request looks in its own bin for the first block that is large
// enough, else takes the first block of the next bin in use. Bins are ordered by size, so this is
// the block that a single tree of all free blocks would give. FitPolicy::kPlainTree is this single
// tree, as in the paper: the same code with one bin.
//
// n is the number of free blocks. Every operation costs O(log n), of which O(1) is list work:
// Allocate, Free, Shrink, TryGrow and Extend descend at most three trees, an aligned Allocate at
// most 2 * kAlignedProbes + 5.
//
// Invariants, in addition to those of fit_space.h and block_list.h:
//   [inv.tree-fit-best]   the block found for a size is the one a linear search finds: the smallest
//                         that is large enough, the lowest address among equals.
//
// An aligned request takes the first block that holds it, at a multiple of the alignment, of these:
// the kAlignedProbes smallest blocks that are large enough; the best fit for count + alignment - 1
// units, which holds the request wherever the block begins; the kAlignedProbes largest blocks. So a
// request is refused only if no free block has count + alignment - 1 units.
//
// Not thread-safe: the lock of the owning space guards all calls.
#pragma once

#include <bit>

#include "alloc/fits/fit_space.h"
#include "alloc/fits/index_set.h"

namespace gleaner::alloc {

enum class FitPolicy : uint8_t {
  kBinned,     // a bitmap of bins, a small tree in each
  kPlainTree,  // one tree, as in the paper
};

class TreeFit : public FitSpace<TreeFit> {
 public:
  static constexpr uint32_t kAlignedProbes = 16;

  // Makes an empty space. Reserves metadata for `max_blocks` blocks, free and allocated together,
  // and commits it as needed; false if the system refuses. A rest of fewer than `min_split` units
  // is not split off but stays with the block before it. pre: not initialised; 0 < max_blocks <
  // UINT32_MAX; min_split > 0.
  [[nodiscard]] bool Init(FitPolicy policy, uint32_t max_blocks, uint64_t min_split = 1);

  // Gives the metadata back. Init may be called again.
  void Destroy();

  uint64_t largest_free() const;  // 0 if nothing is free; O(log n)

  // Checks every invariant and the shape of lists, bins and trees; Fatal if one is broken.
  void CheckForTesting() const;
  // Tree nodes looked at since Init, by searches, insertions and removals.
  uint64_t TreeStepsForTesting() const { return tree_steps_; }

 private:
  friend class FitSpace<TreeFit>;

  // 256 bins to a doubling: measured 19 % faster than 64 with 16,384 resident blocks, as fast with
  // 256, for 37 KiB more per space.
  static constexpr uint32_t kSubBinBits = 8;
  static constexpr uint32_t kSubBins = 1u << kSubBinBits;
  static constexpr uint32_t kLevels =
      64 - static_cast<uint32_t>(std::countl_zero(kMaxUnits)) - kSubBinBits + 1;
  static constexpr uint32_t kBins = kLevels * kSubBins;
  // An AVL tree of 2^32 nodes is at most 1.4405 * 32 high.
  static constexpr uint32_t kMaxHeight = 47;
  // The verify build compares with a linear search in spaces of fewer blocks than this.
  static constexpr uint32_t kLinearCheckBlocks = 256;

  // In a free block, `height` is the height of its subtree, and `child` has the roots of the
  // smaller and of the larger blocks. Node 0 means "no child" and has height 0; no tree operation
  // writes to it.

  // For FitSpace.
  BlockId Find(uint64_t count, uint64_t alignment);
  void AddFree(BlockId block);
  void RemoveFree(BlockId block);

  // The bin of a size. Larger sizes have bins of the same or a higher index.
  uint32_t BinOf(uint64_t count) const;

  // The first free block in (size, start) order at or above (count, start).
  BlockId FirstAtLeast(uint64_t count, uint64_t start) const;
  // The last free block in (size, start) order below (count, start).
  BlockId LastBelow(uint64_t count, uint64_t start) const;
  BlockId Successor(BlockId block) const {
    return FirstAtLeast(nodes_[block].count, nodes_[block].start + 1);
  }
  BlockId Predecessor(BlockId block) const {
    return LastBelow(nodes_[block].count, nodes_[block].start);
  }
  BlockId FindAligned(uint64_t count, uint64_t alignment);
  BlockId LinearSearch(uint64_t count, uint64_t alignment, bool may_split) const;
  // Aborts unless the search for `count` units, which found `block`, is as good as a linear search.
  void CheckFound(BlockId block, uint64_t count, uint64_t alignment);

  // One AVL tree, given by the link to its root.
  bool Precedes(BlockId a, BlockId b) const {
    const Node &x = nodes_[a], &y = nodes_[b];
    return x.count != y.count ? x.count < y.count : x.start < y.start;
  }
  void TreeInsert(BlockId* root, BlockId block);
  void TreeRemove(BlockId* root, BlockId block);
  void SetHeight(BlockId block);
  // Rotates: the child of *link on `side` takes the place of *link and gets it as a child.
  void Lift(BlockId* link, uint32_t side);
  // Rebalances the nodes at path[0..depth), the deepest first, after a subtree of the deepest has
  // grown or shrunk by a level. Ends at the first node whose height has not changed.
  void Rebalance(BlockId* const* path, uint32_t depth);
  // Checks a tree. `*last` is the last block before the tree in (size, start) order. Returns the
  // number of nodes.
  uint32_t CheckTree(BlockId node, uint32_t bin, BlockId* last) const;

  // All guarded by the owning space's lock.
  mutable uint64_t tree_steps_ = 0;
  FitPolicy policy_ = FitPolicy::kBinned;
  IndexSet<kBins> bins_in_use_;  // bins with a root
  BlockId roots_[kBins] = {};
};

extern template class FitSpace<TreeFit>;

}  // namespace gleaner::alloc
