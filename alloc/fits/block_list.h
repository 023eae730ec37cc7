// The blocks of a space of units, free and allocated, in a doubly linked list by address. The
// common base of all fit policies: tree_fit.h, first_fit.h, buddy.h.
//
// Metadata is out of band: the list never touches the memory it describes and knows unit numbers
// only. The policy decides which free block serves a request and how free blocks are found.
//
// Invariants:
//   [inv.tree-fit-units]  free units + units of allocated blocks = units ever added.
//
// Not thread-safe: the lock of the owning space guards all calls.
#pragma once

#include "alloc/metadata/reserved_array.h"
#include "platform/os/base.h"

namespace gleaner::alloc {

// Names a block, free or allocated. An allocated block keeps its id until it is freed.
using BlockId = uint32_t;

class BlockList {
 public:
  static constexpr BlockId kNone = 0;
  // The largest unit number, ends of regions included.
  static constexpr uint64_t kMaxUnits = (uint64_t{1} << 56) - 1;

  constexpr BlockList() = default;
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;

  uint64_t StartOf(BlockId block) const { return InUse(block).start; }
  uint64_t CountOf(BlockId block) const { return InUse(block).count; }
  bool IsFree(BlockId block) const { return InUse(block).height != 0; }

  // Each allocated block has two words for its owner's use; their values after Allocate are
  // undefined.
  BlockId& OwnerWord(BlockId block, uint32_t which) {
    GLEANER_DCHECK(!IsFree(block), "block %u is free: it has no owner", block);
    return nodes_[block].child[which];
  }

  uint64_t free_units() const { return free_units_; }
  uint64_t total_units() const { return total_units_; }
  uint32_t block_count() const { return block_count_; }  // free and allocated
  size_t MetadataBytes() const { return nodes_.committed() * sizeof(Node); }

  // Calls f(start, count) for every free block in address order. f must not change the space.
  template <class F>
  void ForEachFree(F f) const {
    for (BlockId b = FirstBlock(); b != kNone; b = nodes_[b].next) {
      if (nodes_[b].height != 0) f(nodes_[b].start, uint64_t{nodes_[b].count});
    }
  }
  // Calls f(block) for every block in address order.
  template <class F>
  void ForEachBlock(F f) const {
    for (BlockId b = FirstBlock(); b != kNone; b = nodes_[b].next) f(b);
  }

 protected:
  // A block. `count` and `height` tell its state:
  //   unused     count == 0; `next` chains the unused nodes
  //   allocated  count > 0, height == 0; `child` is the owner's
  //   free       count > 0, height > 0; the policy uses `height` and `child`
  // Node 0 is the head of the circular list, ends at unit 0, and means "no block".
  struct Node {
    uint64_t start;
    uint64_t count : 56;
    uint64_t height : 8;
    BlockId prev, next;  // address order
    BlockId child[2];
  };
  static_assert(sizeof(Node) == 32);

  static constexpr size_t kNodesAhead = 128;

  [[nodiscard]] bool InitList(uint32_t max_blocks, uint64_t min_split);
  void DestroyList();

  const Node& InUse(BlockId block) const {
    GLEANER_DCHECK(block != kNone && block < fresh_ && nodes_[block].count != 0,
                   "%u is not a block", block);
    return nodes_[block];
  }
  BlockId FirstBlock() const { return nodes_.data() == nullptr ? kNone : nodes_[0].next; }
  uint64_t EndOf(BlockId block) const { return nodes_[block].start + nodes_[block].count; }
  bool IsFreeAndTouches(BlockId free, BlockId left, BlockId right) const {
    return nodes_[free].height != 0 && EndOf(left) == nodes_[right].start;
  }
  void SetCount(BlockId block, uint64_t count) { nodes_[block].count = count & kMaxUnits; }
  void CheckAllocated(BlockId block, const char* call) const;
  void CheckExtend(uint64_t start, uint64_t count) const;

  // Whether the free block holds `count` units at a multiple of `alignment`.
  bool Holds(BlockId block, uint64_t count, uint64_t alignment, bool may_split) const {
    const uint64_t start = AlignUp(nodes_[block].start, alignment);
    if (start != nodes_[block].start && !may_split) return false;
    return start <= EndOf(block) && EndOf(block) - start >= count;
  }

  // Whether NewBlock would find a node, an unused or a fresh one. Memory for fresh nodes is
  // committed ahead of their use, and each call tries again, so a short refusal by the system does
  // no harm.
  bool HasSpareNode();
  GLEANER_NOINLINE bool HasFreshNode();
  // Adds an allocated block behind `after` in the list; kNone if there is no node.
  BlockId NewBlock(uint64_t start, uint64_t count, BlockId after);
  // Removes an allocated block from the list. pre: its units belong to another block by now.
  void DropBlock(BlockId block);
  // Cuts an allocated block after `keep` units and returns the right part, also allocated; kNone,
  // with nothing changed, if there is no node.
  BlockId SplitOff(BlockId block, uint64_t keep);

  // Checks the shape of the list and the sums; Fatal if one is wrong. Returns the number of free
  // blocks.
  uint32_t CheckList() const;

  ReservedArray<Node> nodes_;
  uint64_t free_units_ = 0;  // maintained by the policy
  uint64_t total_units_ = 0;
  uint64_t min_split_ = 0;  // set by Init; 0 until then keeps a static list in zeroed data
  uint32_t block_count_ = 0;
  uint32_t fresh_ = 0;      // nodes from this one on were never used
  BlockId unused_ = kNone;  // chain of dropped nodes, for reuse
};

inline bool BlockList::HasSpareNode() {
  return GLEANER_LIKELY(unused_ != kNone || fresh_ + kNodesAhead < nodes_.committed()) ||
         HasFreshNode();
}

inline BlockId BlockList::NewBlock(uint64_t start, uint64_t count, BlockId after) {
  if (!HasSpareNode()) return kNone;
  BlockId block = unused_;
  if (block != kNone) {
    unused_ = nodes_[block].next;
  } else {
    block = fresh_++;
  }
  const BlockId next = nodes_[after].next;
  nodes_[block].start = start;
  SetCount(block, count);
  nodes_[block].prev = after;
  nodes_[block].next = next;
  nodes_[after].next = block;
  nodes_[next].prev = block;
  ++block_count_;
  return block;
}

inline void BlockList::DropBlock(BlockId block) {
  Node& node = nodes_[block];
  nodes_[node.prev].next = node.next;
  nodes_[node.next].prev = node.prev;
  node.count = 0;
  node.next = unused_;
  unused_ = block;
  --block_count_;
}

inline BlockId BlockList::SplitOff(BlockId block, uint64_t keep) {
  const BlockId rest = NewBlock(nodes_[block].start + keep, nodes_[block].count - keep, block);
  if (rest != kNone) SetCount(block, keep);
  return rest;
}

}  // namespace gleaner::alloc
