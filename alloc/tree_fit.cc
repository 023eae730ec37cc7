#include "alloc/tree_fit.h"

namespace gleaner::alloc {

bool TreeFit::Init(FitPolicy policy, uint32_t max_blocks, uint64_t min_split) {
  GLEANER_CHECK(nodes_.data() == nullptr, "tree-fit: Init of a space in use");
  GLEANER_CHECK(max_blocks > 0 && max_blocks < UINT32_MAX, "tree-fit: Init for %u blocks",
                max_blocks);
  GLEANER_CHECK(min_split > 0, "tree-fit: Init with a min_split of 0");
  if (!nodes_.Reserve(size_t{max_blocks} + 1)) return false;
  if (!nodes_.EnsureCommitted(1)) {
    nodes_.Release();
    return false;
  }
  policy_ = policy;
  min_split_ = min_split;
  fresh_ = 1;  // node 0, all zero, is the empty list
  return true;
}

void TreeFit::Destroy() {
  nodes_.Release();
  free_units_ = total_units_ = tree_steps_ = 0;
  block_count_ = fresh_ = 0;
  unused_ = kNone;
  levels_in_use_ = 0;
  for (uint64_t& bins : bins_in_use_) bins = 0;
  for (BlockId& root : roots_) root = kNone;
}

bool TreeFit::Extend(uint64_t start, uint64_t count) {
  GLEANER_CHECK(count > 0 && count <= kMaxUnits && start <= kMaxUnits - count,
                "tree-fit: Extend by %llu units at %llu", static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(start));
  const BlockId last = nodes_[0].prev;
  GLEANER_CHECK(start >= EndOf(last), "tree-fit: Extend at %llu, below the end %llu",
                static_cast<unsigned long long>(start),
                static_cast<unsigned long long>(EndOf(last)));
  if (nodes_[last].height != 0 && EndOf(last) == start) {
    RemoveFree(last);
    SetCount(last, nodes_[last].count + count);
    AddFree(last);
  } else {
    const BlockId block = NewBlock(start, count, last);
    if (block == kNone) return false;
    AddFree(block);
  }
  total_units_ += count;
  return true;
}

BlockId TreeFit::Allocate(uint64_t count, uint64_t alignment) {
  GLEANER_CHECK(count > 0 && IsPowerOfTwo(alignment), "tree-fit: Allocate(%llu, alignment %llu)",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(alignment));
  BlockId block = alignment == 1 ? FirstAtLeast(count, 0) : FindAligned(count, alignment);
  if (kVerifyBuild && block_count_ < kLinearCheckBlocks) {
    const BlockId linear = LinearSearch(count, alignment, HasSpareNode());
    GLEANER_CHECK(alignment == 1 ? block == linear : (block == kNone) == (linear == kNone),
                  "tree-fit: found %u, a linear search %u [inv.tree-fit-best]", block, linear);
  }
  if (block == kNone) return kNone;
  RemoveFree(block);
  const uint64_t gap = AlignUp(nodes_[block].start, alignment) - nodes_[block].start;
  if (gap != 0) {
    const BlockId left = block;
    block = SplitOff(left, gap);
    AddFree(left);
  }
  GiveBackRest(block, count);
  return block;
}

void TreeFit::Free(BlockId block) {
  CheckAllocated(block, "Free");
  const BlockId left = nodes_[block].prev;
  if (IsFreeAndTouches(left, left, block)) {
    RemoveFree(left);
    SetCount(left, nodes_[left].count + nodes_[block].count);
    DropBlock(block);
    block = left;
  }
  const BlockId right = nodes_[block].next;
  if (IsFreeAndTouches(right, block, right)) {
    RemoveFree(right);
    SetCount(block, nodes_[block].count + nodes_[right].count);
    DropBlock(right);
  }
  AddFree(block);
}

void TreeFit::Shrink(BlockId block, uint64_t count) {
  CheckAllocated(block, "Shrink");
  const uint64_t have = nodes_[block].count;
  GLEANER_CHECK(count > 0 && count <= have, "tree-fit: Shrink of %llu units to %llu",
                static_cast<unsigned long long>(have), static_cast<unsigned long long>(count));
  if (count == have) return;
  const BlockId right = nodes_[block].next;
  if (IsFreeAndTouches(right, block, right)) {
    RemoveFree(right);
    nodes_[right].start -= have - count;
    SetCount(right, nodes_[right].count + (have - count));
    SetCount(block, count);
    AddFree(right);
  } else {
    GiveBackRest(block, count);
  }
}

bool TreeFit::TryGrow(BlockId block, uint64_t count) {
  CheckAllocated(block, "TryGrow");
  const uint64_t have = nodes_[block].count;
  if (count <= have) return true;
  const uint64_t missing = count - have;
  const BlockId right = nodes_[block].next;
  if (!IsFreeAndTouches(right, block, right) || nodes_[right].count < missing) return false;
  RemoveFree(right);
  const uint64_t rest = nodes_[right].count - missing;
  if (rest >= min_split_) {
    nodes_[right].start += missing;
    SetCount(right, rest);
    SetCount(block, count);
    AddFree(right);
  } else {
    SetCount(block, count + rest);
    DropBlock(right);
  }
  return true;
}

uint64_t TreeFit::largest_free() const {
  if (levels_in_use_ == 0) return 0;
  const auto level = 63 - static_cast<uint32_t>(std::countl_zero(levels_in_use_));
  const auto sub = 63 - static_cast<uint32_t>(std::countl_zero(bins_in_use_[level]));
  BlockId node = roots_[level * kSubBins + sub];
  while (nodes_[node].child[1] != kNone) node = nodes_[node].child[1];
  return nodes_[node].count;
}

void TreeFit::CheckAllocated(BlockId block, const char* call) const {
  GLEANER_CHECK(
      block != kNone && block < fresh_ && nodes_[block].count != 0 && nodes_[block].height == 0,
      "tree-fit: %s of %u, which is not an allocated block", call, block);
}

bool TreeFit::HasSpareNode() {
  return unused_ != kNone || nodes_.EnsureCommitted(size_t{fresh_} + 1);
}

BlockId TreeFit::NewBlock(uint64_t start, uint64_t count, BlockId after) {
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

void TreeFit::DropBlock(BlockId block) {
  Node& node = nodes_[block];
  nodes_[node.prev].next = node.next;
  nodes_[node.next].prev = node.prev;
  node.count = 0;
  node.next = unused_;
  unused_ = block;
  --block_count_;
}

BlockId TreeFit::SplitOff(BlockId block, uint64_t keep) {
  const BlockId rest = NewBlock(nodes_[block].start + keep, nodes_[block].count - keep, block);
  if (rest != kNone) SetCount(block, keep);
  return rest;
}

void TreeFit::GiveBackRest(BlockId block, uint64_t keep) {
  if (nodes_[block].count - keep < min_split_) return;
  const BlockId rest = SplitOff(block, keep);
  if (rest != kNone) AddFree(rest);
}

uint32_t TreeFit::BinOf(uint64_t count) const {
  if (policy_ == FitPolicy::kPlainTree) return 0;
  if (count < kSubBins) return static_cast<uint32_t>(count);
  // Level l > 0 holds the sizes of kSubBinBits + l significant bits, a bin the sizes that agree in
  // the first kSubBinBits + 1 of them.
  const uint32_t shift = 63 - static_cast<uint32_t>(std::countl_zero(count)) - kSubBinBits;
  return (shift << kSubBinBits) + static_cast<uint32_t>(count >> shift);
}

uint32_t TreeFit::NextBinInUse(uint32_t bin) const {
  if (bin >= kBins) return kBins;
  uint32_t level = bin / kSubBins;
  uint64_t bins = bins_in_use_[level] & (~uint64_t{0} << (bin % kSubBins));
  if (bins == 0) {
    const uint64_t levels = levels_in_use_ & (~uint64_t{1} << level);
    if (levels == 0) return kBins;
    level = static_cast<uint32_t>(std::countr_zero(levels));
    bins = bins_in_use_[level];
  }
  return level * kSubBins + static_cast<uint32_t>(std::countr_zero(bins));
}

void TreeFit::AddFree(BlockId block) {
  if (kVerifyBuild) {
    const BlockId left = nodes_[block].prev, right = nodes_[block].next;
    GLEANER_CHECK(!IsFreeAndTouches(left, left, block) && !IsFreeAndTouches(right, block, right),
                  "tree-fit: block %u freed beside a free block [inv.tree-fit-neighbours]", block);
  }
  const uint32_t bin = BinOf(nodes_[block].count);
  TreeInsert(&roots_[bin], block);
  bins_in_use_[bin / kSubBins] |= uint64_t{1} << (bin % kSubBins);
  levels_in_use_ |= uint64_t{1} << (bin / kSubBins);
  free_units_ += nodes_[block].count;
}

void TreeFit::RemoveFree(BlockId block) {
  const uint32_t bin = BinOf(nodes_[block].count);
  TreeRemove(&roots_[bin], block);
  if (roots_[bin] == kNone) {
    uint64_t& bins = bins_in_use_[bin / kSubBins];
    bins &= ~(uint64_t{1} << (bin % kSubBins));
    if (bins == 0) levels_in_use_ &= ~(uint64_t{1} << (bin / kSubBins));
  }
  free_units_ -= nodes_[block].count;
}

BlockId TreeFit::FirstAtLeast(uint64_t count, uint64_t start) const {
  if (count > free_units_) return kNone;
  const uint32_t bin = BinOf(count);
  BlockId best = kNone;
  uint64_t steps = 0;
  for (BlockId b = roots_[bin]; b != kNone; ++steps) {
    const Node& node = nodes_[b];
    const bool enough = node.count > count || (node.count == count && node.start >= start);
    if (enough) best = b;
    b = node.child[enough ? 0 : 1];
  }
  if (best == kNone) {
    const uint32_t next = NextBinInUse(bin + 1);
    if (next != kBins) {
      for (BlockId b = roots_[next]; b != kNone; b = nodes_[b].child[0], ++steps) best = b;
    }
  }
  tree_steps_ += steps;
  return best;
}

BlockId TreeFit::FindAligned(uint64_t count, uint64_t alignment) {
  const bool may_split = HasSpareNode();
  BlockId block = FirstAtLeast(count, 0);
  for (uint32_t i = 0; i < kAlignedProbes; ++i, block = Successor(block)) {
    if (block == kNone || Holds(block, count, alignment, may_split)) return block;
  }
  const BlockId roomy = FirstAtLeast(count + alignment - 1, 0);
  if (roomy != kNone && Holds(roomy, count, alignment, may_split)) return roomy;
  while (block != kNone && !Holds(block, count, alignment, may_split)) block = Successor(block);
  return block;
}

BlockId TreeFit::LinearSearch(uint64_t count, uint64_t alignment, bool may_split) const {
  BlockId best = kNone;
  for (BlockId b = FirstBlock(); b != kNone; b = nodes_[b].next) {
    if (nodes_[b].height != 0 && Holds(b, count, alignment, may_split) &&
        (best == kNone || Precedes(b, best))) {
      best = b;
    }
  }
  return best;
}

// Insertion and removal keep the links they went through and mend heights from the last one up.
void TreeFit::TreeInsert(BlockId* root, BlockId block) {
  BlockId* path[kMaxHeight];
  uint32_t depth = 0;
  BlockId* link = root;
  while (*link != kNone) {
    path[depth++] = link;
    link = &nodes_[*link].child[Precedes(block, *link) ? 0 : 1];
  }
  *link = block;
  Node& node = nodes_[block];
  node.child[0] = node.child[1] = kNone;
  node.height = 1;
  tree_steps_ += depth + 1;
  Rebalance(path, depth);
}

void TreeFit::TreeRemove(BlockId* root, BlockId block) {
  BlockId* path[kMaxHeight];
  uint32_t depth = 0;
  BlockId* link = root;
  while (*link != block) {
    path[depth++] = link;
    link = &nodes_[*link].child[Precedes(block, *link) ? 0 : 1];
  }
  Node& node = nodes_[block];
  if (node.child[0] == kNone || node.child[1] == kNone) {
    *link = node.child[0] + node.child[1];  // one of them is 0
  } else {
    // The next larger block takes the place of this one.
    path[depth++] = link;
    const uint32_t below = depth;
    BlockId* heir_link = &node.child[1];
    while (nodes_[*heir_link].child[0] != kNone) {
      path[depth++] = heir_link;
      heir_link = &nodes_[*heir_link].child[0];
    }
    const BlockId heir = *heir_link;
    *heir_link = nodes_[heir].child[1];
    nodes_[heir].child[0] = node.child[0];
    nodes_[heir].child[1] = node.child[1];
    nodes_[heir].height = node.height;
    *link = heir;
    if (depth > below) path[below] = &nodes_[heir].child[1];
  }
  node.height = 0;
  tree_steps_ += depth + 1;
  Rebalance(path, depth);
}

void TreeFit::SetHeight(BlockId block) {
  Node& node = nodes_[block];
  const uint64_t left = nodes_[node.child[0]].height, right = nodes_[node.child[1]].height;
  node.height = ((left > right ? left : right) + 1) & 0xff;
}

void TreeFit::Lift(BlockId* link, uint32_t side) {
  const BlockId top = *link;
  const BlockId up = nodes_[top].child[side];
  nodes_[top].child[side] = nodes_[up].child[1 - side];
  nodes_[up].child[1 - side] = top;
  *link = up;
  SetHeight(top);
  SetHeight(up);
}

void TreeFit::Rebalance(BlockId* const* path, uint32_t depth) {
  while (depth-- > 0) {
    BlockId* const link = path[depth];
    Node& node = nodes_[*link];
    const uint64_t old_height = node.height;
    const uint64_t left = nodes_[node.child[0]].height, right = nodes_[node.child[1]].height;
    if (left > right + 1 || right > left + 1) {
      const uint32_t side = left > right ? 0 : 1;
      const Node& high = nodes_[node.child[side]];
      if (nodes_[high.child[1 - side]].height > nodes_[high.child[side]].height) {
        Lift(&node.child[side], 1 - side);
      }
      Lift(link, side);
    } else {
      SetHeight(*link);
    }
    if (nodes_[*link].height == old_height) return;
  }
}

uint32_t TreeFit::CheckTree(BlockId node, uint32_t bin, BlockId* last) const {
  if (node == kNone) return 0;
  const Node& n = nodes_[node];
  const uint64_t left = nodes_[n.child[0]].height, right = nodes_[n.child[1]].height;
  GLEANER_CHECK(
      n.height == (left > right ? left : right) + 1 && left <= right + 1 && right <= left + 1,
      "tree-fit: the tree of bin %u is out of balance at block %u", bin, node);
  uint32_t nodes = CheckTree(n.child[0], bin, last);
  GLEANER_CHECK(BinOf(n.count) == bin, "tree-fit: block %u is in bin %u", node, bin);
  GLEANER_CHECK(*last == kNone || Precedes(*last, node),
                "tree-fit: blocks %u and %u are out of order in bin %u [inv.tree-fit-best]", *last,
                node, bin);
  *last = node;
  nodes += CheckTree(n.child[1], bin, last) + 1;
  return nodes;
}

void TreeFit::CheckForTesting() const {
  if (nodes_.data() == nullptr) return;
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
    GLEANER_CHECK(!IsFreeAndTouches(left, left, b),
                  "tree-fit: blocks %u and %u are both free [inv.tree-fit-neighbours]", left, b);
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

  BlockId last = kNone;
  uint32_t in_trees = 0;
  for (uint32_t bin = 0; bin < kBins; ++bin) {
    const uint64_t bins = bins_in_use_[bin / kSubBins];
    GLEANER_CHECK((roots_[bin] != kNone) == ((bins >> (bin % kSubBins) & 1) != 0) &&
                      (bins != 0) == ((levels_in_use_ >> (bin / kSubBins) & 1) != 0),
                  "tree-fit: the bitmap is wrong about bin %u", bin);
    in_trees += CheckTree(roots_[bin], bin, &last);
  }
  GLEANER_CHECK(in_trees == free_blocks, "tree-fit: %u blocks in trees, %u free", in_trees,
                free_blocks);

  if (block_count_ >= kLinearCheckBlocks) return;
  for (BlockId b = nodes_[0].next; b != kNone; b = nodes_[b].next) {
    for (uint64_t count = nodes_[b].count; count < nodes_[b].count + 2; ++count) {
      const BlockId best = FirstAtLeast(count, 0), linear = LinearSearch(count, 1, true);
      GLEANER_CHECK(best == linear, "tree-fit: found %u, a linear search %u [inv.tree-fit-best]",
                    best, linear);
    }
  }
}

}  // namespace gleaner::alloc
