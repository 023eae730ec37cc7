#include "alloc/fits/buddy.h"

#include <bit>

namespace gleaner::alloc {
namespace {

uint32_t OrderOf(uint64_t power) { return static_cast<uint32_t>(std::countr_zero(power)); }

// The largest block that may begin at `start` and is not longer than `count`.
uint64_t LargestAt(uint64_t start, uint64_t count) {
  const uint64_t fits = std::bit_floor(count);
  const uint64_t aligned = start & (0 - start);  // 0 for unit 0, which every order divides
  return aligned != 0 && aligned < fits ? aligned : fits;
}

}  // namespace

void Buddy::Destroy() {
  DestroyList();
  orders_in_use_ = 0;
  for (BlockId& head : heads_) head = kNone;
}

bool Buddy::Extend(uint64_t start, uint64_t count) {
  CheckExtend(start, count);
  size_t pieces = 0;
  for (uint64_t done = 0; done < count; ++pieces) done += LargestAt(start + done, count - done);
  if (!nodes_.EnsureCommitted(fresh_ + pieces)) return false;
  for (uint64_t done = 0; done < count;) {
    const uint64_t piece = LargestAt(start + done, count - done);
    const BlockId block = NewBlock(start + done, piece, nodes_[0].prev);
    total_units_ += piece;
    Free(block);
    done += piece;
  }
  return true;
}

BlockId Buddy::Allocate(uint64_t count, uint64_t alignment) {
  GLEANER_CHECK(count > 0 && IsPowerOfTwo(alignment), "buddy: Allocate(%llu, alignment %llu)",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(alignment));
  if (count > kMaxUnits || alignment > kMaxUnits) return kNone;
  const uint64_t rounded = std::bit_ceil(count);
  const uint64_t want = rounded > alignment ? rounded : alignment;
  const uint64_t orders = OrderOf(want) < kOrders ? orders_in_use_ & (0 - want) : 0;
  if (orders == 0) return kNone;
  const BlockId block = heads_[OrderOf(orders)];
  RemoveFree(block);
  while (nodes_[block].count > want) {
    const BlockId half = SplitOff(block, nodes_[block].count / 2);
    if (half == kNone) break;
    AddFree(half);
  }
  return block;
}

void Buddy::Free(BlockId block) {
  CheckAllocated(block, "Free");
  for (BlockId buddy = FreeBuddyOf(block); buddy != kNone; buddy = FreeBuddyOf(block)) {
    RemoveFree(buddy);
    const bool first = nodes_[block].start < nodes_[buddy].start;
    const BlockId left = first ? block : buddy, right = first ? buddy : block;
    SetCount(left, nodes_[left].count * 2);
    DropBlock(right);
    block = left;
  }
  AddFree(block);
}

BlockId Buddy::FreeBuddyOf(BlockId block) const {
  const uint64_t start = nodes_[block].start, count = nodes_[block].count;
  const bool is_right = (start & count) != 0;
  const BlockId buddy = is_right ? nodes_[block].prev : nodes_[block].next;
  const bool whole = buddy != kNone && nodes_[buddy].height != 0 && nodes_[buddy].count == count &&
                     nodes_[buddy].start == (start ^ count);
  return whole ? buddy : kNone;
}

void Buddy::AddFree(BlockId block) {
  const uint32_t order = OrderOf(nodes_[block].count);
  const BlockId behind = heads_[order];
  nodes_[block].height = (order + 1) & 0xff;
  nodes_[block].child[kBefore] = kNone;
  nodes_[block].child[kBehind] = behind;
  if (behind != kNone) nodes_[behind].child[kBefore] = block;
  heads_[order] = block;
  orders_in_use_ |= uint64_t{1} << order;
  free_units_ += nodes_[block].count;
}

void Buddy::RemoveFree(BlockId block) {
  const uint32_t order = OrderOf(nodes_[block].count);
  const BlockId before = nodes_[block].child[kBefore], behind = nodes_[block].child[kBehind];
  if (before != kNone) {
    nodes_[before].child[kBehind] = behind;
  } else {
    heads_[order] = behind;
    if (behind == kNone) orders_in_use_ &= ~(uint64_t{1} << order);
  }
  if (behind != kNone) nodes_[behind].child[kBefore] = before;
  nodes_[block].height = 0;
  free_units_ -= nodes_[block].count;
}

uint64_t Buddy::largest_free() const { return std::bit_floor(orders_in_use_); }

void Buddy::CheckForTesting() const {
  const uint32_t free_blocks = CheckList();
  uint32_t linked = 0;
  for (uint32_t order = 0; order < kOrders; ++order) {
    GLEANER_CHECK((heads_[order] != kNone) == ((orders_in_use_ >> order & 1) != 0),
                  "buddy: the bitmap is wrong about order %u", order);
    BlockId before = kNone;
    for (BlockId b = heads_[order]; b != kNone; before = b, b = nodes_[b].child[kBehind]) {
      GLEANER_CHECK(nodes_[b].height == order + 1 && nodes_[b].count == uint64_t{1} << order &&
                        nodes_[b].start % nodes_[b].count == 0 &&
                        nodes_[b].child[kBefore] == before && FreeBuddyOf(b) == kNone,
                    "buddy: block %u in the list of order %u [inv.buddy]", b, order);
      ++linked;
    }
  }
  GLEANER_CHECK(linked == free_blocks, "buddy: %u blocks in lists, %u free", linked, free_blocks);
}

}  // namespace gleaner::alloc
