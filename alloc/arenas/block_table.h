// A hash table from the first unit of an allocated block to the block, for spaces whose callers
// name blocks by addresses.
//
// Linear hashing: the table grows by one bucket at a time, when there are more blocks than buckets,
// so no operation moves all blocks. Blocks of a bucket are chained through the first owner's word
// of the block (block_list.h). Expected O(1): the chains' mean length is below one and a half.
//
// Not thread-safe: the lock of the owning space guards the table.
#pragma once

#include "alloc/fits/block_list.h"

namespace gleaner::alloc {

class BlockTable {
 public:
  static constexpr uint32_t kChainWord = 0;

  // False if the system refuses memory. pre: not initialised.
  [[nodiscard]] bool Init(uint32_t max_blocks);
  void Destroy();

  // Adds an allocated block. Never fails: without memory for a bucket, chains get longer.
  void Insert(BlockList& blocks, BlockId block);
  // The block of the table that begins at unit `start`; kNone if there is none.
  BlockId Find(BlockList& blocks, uint64_t start) const {
    BlockId block = buckets_[BucketOf(start)];
    while (block != BlockList::kNone && blocks.StartOf(block) != start) {
      block = blocks.OwnerWord(block, kChainWord);
    }
    return block;
  }
  // Removes a block. pre: the block is in the table, and still allocated.
  void Remove(BlockList& blocks, BlockId block);

  uint32_t size() const { return size_; }
  size_t MetadataBytes() const { return buckets_.committed() * sizeof(BlockId); }

 private:
  static constexpr uint32_t kFirstBuckets = 64;

  static uint32_t Hash(uint64_t start) {
    return static_cast<uint32_t>((start * 0x9e3779b97f4a7c15u) >> 32);
  }
  // A bucket that does not exist yet shares the bucket of the hash under half the mask.
  uint32_t BucketOf(uint64_t start) const {
    const uint32_t hash = Hash(start);
    const uint32_t bucket = hash & mask_;
    return bucket < bucket_count_ ? bucket : hash & (mask_ >> 1);
  }
  void AddBucket(BlockList& blocks);

  ReservedArray<BlockId> buckets_;
  uint32_t bucket_count_ = 0;
  uint32_t mask_ = 0;  // smallest 2^n - 1 that is at least bucket_count_ - 1
  uint32_t size_ = 0;
};

}  // namespace gleaner::alloc
