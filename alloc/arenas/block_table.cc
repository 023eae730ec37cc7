#include "alloc/arenas/block_table.h"

namespace gleaner::alloc {

bool BlockTable::Init(uint32_t max_blocks) {
  const uint32_t max_buckets = max_blocks < kFirstBuckets ? kFirstBuckets : max_blocks;
  if (!buckets_.Reserve(max_buckets)) return false;
  if (!buckets_.EnsureCommitted(kFirstBuckets)) {
    buckets_.Release();
    return false;
  }
  bucket_count_ = kFirstBuckets;
  mask_ = kFirstBuckets - 1;
  return true;
}

void BlockTable::Destroy() {
  buckets_.Release();
  bucket_count_ = mask_ = size_ = 0;
}

void BlockTable::Insert(BlockList& blocks, BlockId block) {
  if (size_++ >= bucket_count_) AddBucket(blocks);
  BlockId& head = buckets_[BucketOf(blocks.StartOf(block))];
  blocks.OwnerWord(block, kChainWord) = head;
  head = block;
}

void BlockTable::Remove(BlockList& blocks, BlockId block) {
  BlockId* link = &buckets_[BucketOf(blocks.StartOf(block))];
  while (*link != block) link = &blocks.OwnerWord(*link, kChainWord);
  *link = blocks.OwnerWord(block, kChainWord);
  --size_;
}

void BlockTable::AddBucket(BlockList& blocks) {
  if (!buckets_.EnsureCommitted(size_t{bucket_count_} + 1)) return;
  const uint32_t added = bucket_count_;
  if (added > mask_) mask_ = mask_ * 2 + 1;
  // The new bucket's blocks are in the bucket whose number lacks the highest bit of the mask.
  BlockId* link = &buckets_[added & (mask_ >> 1)];
  ++bucket_count_;
  while (*link != BlockList::kNone) {
    const BlockId block = *link;
    BlockId& next = blocks.OwnerWord(block, kChainWord);
    if (BucketOf(blocks.StartOf(block)) == added) {
      *link = next;
      next = buckets_[added];
      buckets_[added] = block;
    } else {
      link = &next;
    }
  }
}

}  // namespace gleaner::alloc
