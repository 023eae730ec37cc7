// Tree-fit: which units of a space are in use, and best fit among the free ones.
//
// The model is SWAlloc's: blocks in a doubly linked list by address, free blocks in a balanced tree
// by size, split when the rest is worth a block, coalesced with both neighbours when freed. It
// departs from the paper in three ways. Metadata is out of band, so this class never touches the
// memory it manages and deals in unit numbers only; the gap that an alignment leaves on the left is
// a free block at once, not padding that waits for its owner; the tree is cut into bins by size.
//
// A bin is a range of sizes: one size each while sizes are small, then a fixed number of equal
// ranges per doubling. Each bin holds an AVL tree ordered by (size, start), and a two-level bitmap
// tells which bins hold anything. A request looks in its own bin for the first block that is large
// enough, else takes the first block of the next bin in use. Bins are ordered like sizes, so this
// is the block that one tree over everything would give. FitPolicy::kPlainTree is that one tree,
// the paper's: the same code with a single bin.
//
// n is the number of free blocks. Allocate without alignment, Free, Shrink, TryGrow and Extend cost
// O(log n), of which O(1) is list work.
//
// Invariants:
//   [inv.tree-fit-neighbours] two blocks that touch are never both free;
//   [inv.tree-fit-best]       the block found for a size is the one a linear search finds: the
//                             smallest that is large enough, the lowest address among equals;
//   [inv.tree-fit-units]      free units + units of allocated blocks = units ever added.
//
// Not thread-safe: the lock of the space it belongs to guards it.
#pragma once

#include <bit>

#include "alloc/meta.h"
#include "platform/base.h"

namespace gleaner::alloc {

// Names a block, free or allocated. An allocated block keeps its id until it is freed.
using BlockId = uint32_t;

enum class FitPolicy : uint8_t {
  kBinned,     // a two-level bitmap of bins, a small tree in each
  kPlainTree,  // one tree, as in the paper
};

class TreeFit {
 public:
  static constexpr BlockId kNone = 0;
  // Unit numbers, ends of regions included, stay at or below this.
  static constexpr uint64_t kMaxUnits = (uint64_t{1} << 56) - 1;
  static constexpr uint32_t kAlignedProbes = 16;

  constexpr TreeFit() = default;
  TreeFit(const TreeFit&) = delete;
  TreeFit& operator=(const TreeFit&) = delete;

  // An empty space. Reserves metadata for `max_blocks` blocks, free and allocated together, and
  // commits it as it is needed; false if the system refuses. A rest of fewer than `min_split` units
  // is not split off but stays with the block in front of it.
  // pre: not initialised; 0 < max_blocks < UINT32_MAX; min_split > 0.
  [[nodiscard]] bool Init(FitPolicy policy, uint32_t max_blocks, uint64_t min_split = 1);

  // Gives the metadata back. Init may follow.
  void Destroy();

  // Adds [start, start + count) as free space, joined to the last block if that is free and touches
  // it. False, with nothing changed, if there is no metadata for another block.
  // pre: count > 0; start is not below the end of what was added before.
  [[nodiscard]] bool Extend(uint64_t start, uint64_t count);

  // Allocates at least `count` units from a multiple of `alignment` on; kNone if no free block can
  // hold them. CountOf tells how many were given: more than `count` only when the rest was below
  // min_split or there was no metadata to split it off.
  //
  // Unaligned, this is best fit. Aligned, it takes the first of the kAlignedProbes best blocks that
  // can hold the request where it lies; failing that, the best fit for count + alignment - 1 units,
  // which holds it wherever it lies: O(log n) so far. Only if there is none so large does it go on
  // through the m remaining blocks of at least `count` units, O(m log n), so that it fails only
  // when no block can hold the request. Without metadata for the gap on the left only blocks that
  // begin at a multiple of `alignment` can.
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

  uint64_t StartOf(BlockId block) const { return InUse(block).start; }
  uint64_t CountOf(BlockId block) const { return InUse(block).count; }
  bool IsFree(BlockId block) const { return InUse(block).height != 0; }

  uint64_t free_units() const { return free_units_; }
  uint64_t total_units() const { return total_units_; }
  uint32_t block_count() const { return block_count_; }  // free and allocated
  uint64_t largest_free() const;                         // 0 if nothing is free; O(log n)

  // Calls f(start, count) for every free block in address order. f must not change the space.
  template <class F>
  void ForEachFree(F f) const {
    for (BlockId b = FirstBlock(); b != kNone; b = nodes_[b].next) {
      if (nodes_[b].height != 0) f(nodes_[b].start, uint64_t{nodes_[b].count});
    }
  }

  // Checks every invariant and the shape of lists, bins and trees; Fatal if one is broken.
  void CheckForTesting() const;
  // Tree nodes looked at since Init, by searches, insertions and removals.
  uint64_t TreeStepsForTesting() const { return tree_steps_; }

 private:
  // 64 bins to a doubling, and to a word of the bitmap: measured 15-35 % faster than 16, for 10 KiB
  // more per space.
  static constexpr uint32_t kSubBinBits = 6;
  static constexpr uint32_t kSubBins = 1u << kSubBinBits;
  static constexpr uint32_t kLevels =
      64 - static_cast<uint32_t>(std::countl_zero(kMaxUnits)) - kSubBinBits + 1;
  static_assert(kSubBins <= 64 && kLevels <= 64);
  static constexpr uint32_t kBins = kLevels * kSubBins;
  // An AVL tree of 2^32 nodes is at most 1.4405 * 32 high.
  static constexpr uint32_t kMaxHeight = 47;
  // The verify build compares with a linear search in spaces of fewer blocks than this.
  static constexpr uint32_t kLinearCheckBlocks = 256;

  // A block. `count` and `height` tell its state:
  //   unused     count == 0; `next` chains the unused nodes
  //   allocated  count > 0, height == 0
  //   free       count > 0, height > 0: the height of its subtree
  // Node 0 is the head of the circular address list, ends at unit 0, and stands for "no child" at
  // height 0; no tree operation writes to it.
  struct Node {
    uint64_t start;
    uint64_t count : 56;
    uint64_t height : 8;
    BlockId prev, next;  // address order
    BlockId child[2];    // smaller, larger; free blocks only
  };
  static_assert(sizeof(Node) == 32);

  const Node& InUse(BlockId block) const {
    GLEANER_DCHECK(block != kNone && block < fresh_ && nodes_[block].count != 0,
                   "tree-fit: %u is not a block", block);
    return nodes_[block];
  }
  BlockId FirstBlock() const { return nodes_.data() == nullptr ? kNone : nodes_[0].next; }
  uint64_t EndOf(BlockId block) const { return nodes_[block].start + nodes_[block].count; }
  bool IsFreeAndTouches(BlockId free, BlockId left, BlockId right) const {
    return nodes_[free].height != 0 && EndOf(left) == nodes_[right].start;
  }
  void SetCount(BlockId block, uint64_t count) { nodes_[block].count = count & kMaxUnits; }
  void CheckAllocated(BlockId block, const char* call) const;

  // False if neither an unused node is left nor a fresh one can be had.
  bool HasSpareNode();
  // An allocated block behind `after` in the list; kNone if there is no node.
  BlockId NewBlock(uint64_t start, uint64_t count, BlockId after);
  // Takes an allocated block off the list; its units must have gone to another.
  void DropBlock(BlockId block);
  // Cuts an allocated block after `keep` units and returns the right part, allocated too; kNone,
  // with nothing changed, if there is no node.
  BlockId SplitOff(BlockId block, uint64_t keep);
  // Frees what an allocated block has beyond `keep` units, if that is worth a block.
  void GiveBackRest(BlockId block, uint64_t keep);

  // Bins. A bin's index rises with the sizes in it.
  uint32_t BinOf(uint64_t count) const;
  uint32_t NextBinInUse(uint32_t bin) const;  // at or above `bin`; kBins if none
  void AddFree(BlockId block);                // a block that was allocated
  void RemoveFree(BlockId block);             // leaves it allocated

  // The first free block in (size, start) order at or above (count, start).
  BlockId FirstAtLeast(uint64_t count, uint64_t start) const;
  BlockId Successor(BlockId block) const {
    return FirstAtLeast(nodes_[block].count, nodes_[block].start + 1);
  }
  // Whether the free block holds `count` units at a multiple of `alignment`.
  bool Holds(BlockId block, uint64_t count, uint64_t alignment, bool may_split) const {
    const uint64_t start = AlignUp(nodes_[block].start, alignment);
    if (start != nodes_[block].start && !may_split) return false;
    return start <= EndOf(block) && EndOf(block) - start >= count;
  }
  BlockId FindAligned(uint64_t count, uint64_t alignment);
  BlockId LinearSearch(uint64_t count, uint64_t alignment, bool may_split) const;

  // One AVL tree, given by the link to its root.
  bool Precedes(BlockId a, BlockId b) const {
    const Node &x = nodes_[a], &y = nodes_[b];
    return x.count != y.count ? x.count < y.count : x.start < y.start;
  }
  void TreeInsert(BlockId* root, BlockId block);
  void TreeRemove(BlockId* root, BlockId block);
  void SetHeight(BlockId block);
  // Rotates: the child on `side` takes the place of *link, which becomes its child.
  void Lift(BlockId* link, uint32_t side);
  // Mends the nodes at path[0..depth), the deepest first, after a subtree of the deepest has grown
  // or shrunk by a level; ends at the first that is as high as it was.
  void Rebalance(BlockId* const* path, uint32_t depth);
  // `*last` is the block before this tree in (size, start) order. Returns the tree's nodes.
  uint32_t CheckTree(BlockId node, uint32_t bin, BlockId* last) const;

  // Guarded by the space's lock, all of them.
  ReservedArray<Node> nodes_;
  uint64_t free_units_ = 0;
  uint64_t total_units_ = 0;
  uint64_t min_split_ = 1;
  mutable uint64_t tree_steps_ = 0;
  uint32_t block_count_ = 0;
  uint32_t fresh_ = 0;      // nodes from here on were never used
  BlockId unused_ = kNone;  // chain of nodes to use again
  FitPolicy policy_ = FitPolicy::kBinned;
  uint64_t levels_in_use_ = 0;          // bit l: bins_in_use_[l] != 0
  uint64_t bins_in_use_[kLevels] = {};  // bit s of [l]: roots_[l * kSubBins + s] != kNone
  BlockId roots_[kBins] = {};
};

}  // namespace gleaner::alloc
