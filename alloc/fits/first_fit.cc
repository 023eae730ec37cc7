#include "alloc/fits/first_fit.h"

namespace gleaner::alloc {

BlockId FirstFit::Find(uint64_t count, uint64_t alignment) {
  if (count > free_units_) return kNone;
  const bool may_split = alignment == 1 || HasSpareNode();
  BlockId block = nodes_[0].child[kBehind];
  while (block != kNone && !Holds(block, count, alignment, may_split)) {
    block = nodes_[block].child[kBehind];
  }
  return block;
}

void FirstFit::AddFree(BlockId block) {
  BlockId before = nodes_[block].prev;
  while (before != kNone && nodes_[before].height == 0) before = nodes_[before].prev;
  const BlockId behind = nodes_[before].child[kBehind];
  nodes_[block].height = 1;
  nodes_[block].child[kBefore] = before;
  nodes_[block].child[kBehind] = behind;
  nodes_[before].child[kBehind] = block;
  nodes_[behind].child[kBefore] = block;
}

void FirstFit::RemoveFree(BlockId block) {
  const BlockId before = nodes_[block].child[kBefore], behind = nodes_[block].child[kBehind];
  nodes_[block].height = 0;
  nodes_[before].child[kBehind] = behind;
  nodes_[behind].child[kBefore] = before;
}

uint64_t FirstFit::largest_free() const {
  uint64_t largest = 0;
  ForEachFree([&](uint64_t, uint64_t count) { largest = count > largest ? count : largest; });
  return largest;
}

void FirstFit::CheckForTesting() const {
  const uint32_t free_blocks = CheckNeighbours();
  if (nodes_.data() == nullptr) return;
  uint32_t linked = 0;
  BlockId before = kNone;
  for (BlockId b = nodes_[0].child[kBehind]; b != kNone; before = b, b = nodes_[b].child[kBehind]) {
    GLEANER_CHECK(nodes_[b].height == 1 && nodes_[b].child[kBefore] == before &&
                      (before == kNone || nodes_[before].start < nodes_[b].start),
                  "first-fit: the free list is broken at block %u", b);
    ++linked;
  }
  GLEANER_CHECK(linked == free_blocks, "first-fit: %u blocks in the list, %u free", linked,
                free_blocks);
}

template class FitSpace<FirstFit>;

}  // namespace gleaner::alloc
