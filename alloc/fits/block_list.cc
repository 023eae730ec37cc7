#include "alloc/fits/block_list.h"

namespace gleaner::alloc {

bool BlockList::InitList(uint32_t max_blocks, uint64_t min_split) {
  GLEANER_CHECK(nodes_.data() == nullptr, "tree-fit: Init of a space in use");
  GLEANER_CHECK(max_blocks > 0 && max_blocks < UINT32_MAX, "tree-fit: Init for %u blocks",
                max_blocks);
  GLEANER_CHECK(min_split > 0, "tree-fit: Init with a min_split of 0");
  if (!nodes_.Reserve(size_t{max_blocks} + 1)) return false;
  if (!nodes_.EnsureCommitted(1)) {
    nodes_.Release();
    return false;
  }
  min_split_ = min_split;
  fresh_ = 1;  // node 0, all zero, is the empty list
  return true;
}

bool BlockList::HasFreshNode() {
  const size_t wanted = fresh_ + 1 + kNodesAhead;
  return nodes_.EnsureCommitted(wanted < nodes_.max() ? wanted : nodes_.max())
             ? fresh_ < nodes_.max()
             : nodes_.EnsureCommitted(size_t{fresh_} + 1);
}

void BlockList::DestroyList() {
  nodes_.Release();
  free_units_ = total_units_ = 0;
  block_count_ = fresh_ = 0;
  unused_ = kNone;
}

void BlockList::CheckAllocated(BlockId block, const char* call) const {
  GLEANER_CHECK(
      block != kNone && block < fresh_ && nodes_[block].count != 0 && nodes_[block].height == 0,
      "tree-fit: %s of %u, which is not an allocated block", call, block);
}

void BlockList::CheckExtend(uint64_t start, uint64_t count) const {
  GLEANER_CHECK(count > 0 && count <= kMaxUnits && start <= kMaxUnits - count,
                "tree-fit: Extend by %llu units at %llu", static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(start));
  const uint64_t end = EndOf(nodes_[0].prev);
  GLEANER_CHECK(start >= end, "tree-fit: Extend at %llu, below the end %llu",
                static_cast<unsigned long long>(start), static_cast<unsigned long long>(end));
}

uint32_t BlockList::CheckList() const {
  if (nodes_.data() == nullptr) return 0;
  uint64_t free_units = 0, units = 0;
  uint32_t blocks = 0, free_blocks = 0;
  BlockId left = kNone;
  for (BlockId b = nodes_[0].next; b != kNone; left = b, b = nodes_[b].next) {
    const Node& node = nodes_[b];
    GLEANER_CHECK(b < fresh_ && node.count != 0 && node.prev == left && node.start >= EndOf(left),
                  "tree-fit: the list is broken at block %u", b);
    ++blocks;
    units += node.count;
    if (node.height == 0) continue;
    ++free_blocks;
    free_units += node.count;
  }
  GLEANER_CHECK(nodes_[0].prev == left && blocks == block_count_,
                "tree-fit: %u blocks in the list, %u counted", blocks, block_count_);
  GLEANER_CHECK(
      units == total_units_ && free_units == free_units_,
      "tree-fit: %llu units of %llu, free %llu of %llu [inv.tree-fit-units]",
      static_cast<unsigned long long>(units), static_cast<unsigned long long>(total_units_),
      static_cast<unsigned long long>(free_units), static_cast<unsigned long long>(free_units_));

  uint32_t unused = 0;
  for (BlockId b = unused_; b != kNone; b = nodes_[b].next) {
    GLEANER_CHECK(b < fresh_ && nodes_[b].count == 0, "tree-fit: block %u is not unused", b);
    ++unused;
  }
  GLEANER_CHECK(blocks + unused + 1 == fresh_, "tree-fit: %u nodes, %u blocks, %u unused", fresh_,
                blocks, unused);
  return free_blocks;
}

}  // namespace gleaner::alloc
