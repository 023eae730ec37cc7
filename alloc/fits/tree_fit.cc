#include "alloc/fits/tree_fit.h"

namespace gleaner::alloc {

bool TreeFit::Init(FitPolicy policy, uint32_t max_blocks, uint64_t min_split) {
  if (!InitList(max_blocks, min_split)) return false;
  policy_ = policy;
  return true;
}

void TreeFit::Destroy() {
  DestroyList();
  tree_steps_ = 0;
  bins_in_use_.Clear();
  for (BlockId& root : roots_) root = kNone;
}

BlockId TreeFit::Find(uint64_t count, uint64_t alignment) {
  const BlockId block = alignment == 1 ? FirstAtLeast(count, 0) : FindAligned(count, alignment);
  if (kVerifyBuild && block_count_ < kLinearCheckBlocks) CheckFound(block, count, alignment);
  return block;
}

void TreeFit::CheckFound(BlockId block, uint64_t count, uint64_t alignment) {
  const BlockId linear = LinearSearch(count, alignment, HasSpareNode());
  const bool as_promised = alignment == 1 ? block == linear
                           : block != kNone
                               ? linear != kNone
                               : linear == kNone || nodes_[linear].count < count + alignment - 1;
  GLEANER_CHECK(as_promised, "tree-fit: found %u, a linear search %u [inv.tree-fit-best]", block,
                linear);
}

uint64_t TreeFit::largest_free() const {
  if (bins_in_use_.empty()) return 0;
  BlockId node = roots_[bins_in_use_.Previous(kBins)];
  while (nodes_[node].child[1] != kNone) node = nodes_[node].child[1];
  return nodes_[node].count;
}

uint32_t TreeFit::BinOf(uint64_t count) const {
  if (policy_ == FitPolicy::kPlainTree) return 0;
  if (count < kSubBins) return static_cast<uint32_t>(count);
  // Level l > 0 holds the sizes of kSubBinBits + l significant bits; a bin holds the sizes with the
  // same first kSubBinBits + 1 bits.
  const uint32_t shift = 63 - static_cast<uint32_t>(std::countl_zero(count)) - kSubBinBits;
  return (shift << kSubBinBits) + static_cast<uint32_t>(count >> shift);
}

void TreeFit::AddFree(BlockId block) {
  const uint32_t bin = BinOf(nodes_[block].count);
  TreeInsert(&roots_[bin], block);
  bins_in_use_.Insert(bin);
}

void TreeFit::RemoveFree(BlockId block) {
  const uint32_t bin = BinOf(nodes_[block].count);
  TreeRemove(&roots_[bin], block);
  if (roots_[bin] == kNone) bins_in_use_.Erase(bin);
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
    const uint32_t next = bins_in_use_.Next(bin + 1);
    if (next != bins_in_use_.kNone) {
      for (BlockId b = roots_[next]; b != kNone; b = nodes_[b].child[0], ++steps) best = b;
    }
  }
  tree_steps_ += steps;
  return best;
}

BlockId TreeFit::LastBelow(uint64_t count, uint64_t start) const {
  const uint32_t bin = BinOf(count);
  BlockId best = kNone;
  uint64_t steps = 0;
  for (BlockId b = roots_[bin]; b != kNone; ++steps) {
    const Node& node = nodes_[b];
    const bool below = node.count < count || (node.count == count && node.start < start);
    if (below) best = b;
    b = node.child[below ? 1 : 0];
  }
  if (best == kNone) {
    const uint32_t previous = bins_in_use_.Previous(bin);
    if (previous != bins_in_use_.kNone) {
      for (BlockId b = roots_[previous]; b != kNone; b = nodes_[b].child[1], ++steps) best = b;
    }
  }
  tree_steps_ += steps;
  return best;
}

BlockId TreeFit::FindAligned(uint64_t count, uint64_t alignment) {
  const bool may_split = HasSpareNode();
  const BlockId smallest = FirstAtLeast(count, 0);
  BlockId block = smallest;
  for (uint32_t i = 0; i < kAlignedProbes; ++i, block = Successor(block)) {
    if (block == kNone || Holds(block, count, alignment, may_split)) return block;
  }
  const BlockId roomy = FirstAtLeast(count + alignment - 1, 0);
  if (roomy != kNone && Holds(roomy, count, alignment, may_split)) return roomy;
  block = LastBelow(kMaxUnits, kMaxUnits);
  for (uint32_t i = 0; i < kAlignedProbes && block != smallest; ++i, block = Predecessor(block)) {
    if (Holds(block, count, alignment, may_split)) return block;
  }
  return kNone;
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

// Insertion and removal note the links that they follow, and correct heights from the last link
// upwards.
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
    // The next larger block takes this block's place.
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
  const uint32_t free_blocks = CheckNeighbours();
  BlockId last = kNone;
  uint32_t in_trees = 0;
  for (uint32_t bin = 0; bin < kBins; ++bin) {
    GLEANER_CHECK((roots_[bin] != kNone) == bins_in_use_.Contains(bin),
                  "tree-fit: the bitmap is wrong about bin %u", bin);
    in_trees += CheckTree(roots_[bin], bin, &last);
  }
  GLEANER_CHECK(in_trees == free_blocks, "tree-fit: %u blocks in trees, %u free", in_trees,
                free_blocks);

  if (block_count_ >= kLinearCheckBlocks) return;
  for (BlockId b = FirstBlock(); b != kNone; b = nodes_[b].next) {
    for (uint64_t count = nodes_[b].count; count < nodes_[b].count + 2; ++count) {
      const BlockId best = FirstAtLeast(count, 0), linear = LinearSearch(count, 1, true);
      GLEANER_CHECK(best == linear, "tree-fit: found %u, a linear search %u [inv.tree-fit-best]",
                    best, linear);
    }
  }
}

template class FitSpace<TreeFit>;

}  // namespace gleaner::alloc
