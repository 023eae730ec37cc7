// Which memory of a range is resident although free, and which memory may not be zero. For spaces
// that keep freed memory for a while and then give it back to the system in units of 2 MiB.
//
// The range is divided into chunks of 2 MiB. A chunk is
//   clean   nothing of it was handed out since it was last discarded: it reads as zero and is not
//           resident;
//   used    a block in use overlaps it;
//   idle    neither clean nor used: free, and resident as far as its blocks were touched.
// The space reports blocks that it hands out and gets back by Take and Return; how it divides its
// memory does not matter. Idle memory up to a budget stays. A surplus is discarded by a decay: a
// hand moves over all memory that was ever handed out, once around in half the decay time, in small
// steps. The hand discards chunks that it finds idle for the second time in a row. So a chunk is
// discarded after it was idle for at least half the decay time and at most the whole, and memory
// that is repeatedly handed out and freed stays resident. The decay has no thread: the steps happen
// when the owner calls Decay; steps that are late are made together.
//
// Take and Return cost O(1) and a bit of bitmap for each 2 MiB of the block; a step of the decay
// looks at a sixteenth of what was ever handed out, a bit for each 2 MiB, and makes a system call
// for each run of chunks it discards.
//
// Invariants:
//   [inv.idle-bytes]  idle_bytes() = 2 MiB * chunks that are idle;
//   [inv.known-zero]  a clean chunk, and whatever lies at or above every block ever handed out,
//                     reads as zero.
//
// Not thread-safe: the lock of the owning space guards a Residency. Memory of blocks in use is
// never discarded.
#pragma once

#include "alloc/metadata/meta.h"
#include "platform/os/base.h"

namespace gleaner::alloc {

class Residency {
 public:
  static constexpr size_t kChunkBytes = 2 * kMiB;
  static constexpr size_t kKeepAll = SIZE_MAX;

  struct Range {
    Addr begin, end;  // empty if they are equal
  };

  constexpr Residency() = default;
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // Watches [begin, begin + bytes), committed anonymous memory that reads as zero, without blocks
  // in use. `budget_bytes` of idle memory stay (kKeepAll: all of it). A decay of 0 ns gives a
  // surplus back at once. False if there is no memory for the tables. pre: not initialised; begin
  // and bytes are multiples of the OS page; bytes > 0.
  [[nodiscard]] bool Init(Addr begin, size_t bytes, size_t budget_bytes, uint64_t decay_ns);
  void Destroy();
  bool initialised() const { return chunks_.data() != nullptr; }

  // Notes that the block [begin, begin + bytes) is handed out. Returns a part of the block; the
  // rest of it is known to be zero. pre: no block in use overlaps it.
  Range Take(Addr begin, size_t bytes);
  // Notes that the block is free again. pre: it is exactly as it was taken. A block that shrinks or
  // grows in place is returned and taken anew.
  void Return(Addr begin, size_t bytes);

  // Whether to call Decay now: while there is a surplus, true for one call in kCallsPerLook, or for
  // each if the decay takes 0 ns. Costs next to nothing.
  bool IsDecayDue() {
    return GLEANER_UNLIKELY(HasSurplus()) && (decay_ns_ == 0 || ++calls_ % kCallsPerLook == 0);
  }
  // Makes the steps that are due at `now_ns`, by any clock that does not go backwards. Returns the
  // bytes discarded.
  size_t Decay(uint64_t now_ns);
  // When the next step is due; kNever without a surplus.
  static constexpr uint64_t kNever = UINT64_MAX;
  uint64_t next_step_ns() const { return HasSurplus() ? next_step_ns_ : kNever; }
  // Discards all idle chunks, whatever the budget. Returns their bytes. Looks at the whole range.
  size_t Trim();
  // Discards the OS pages of a free range that lie in used chunks, beside blocks in use; the chunks
  // stay used and are not known to be zero. pre: no block in use overlaps the range.
  void DiscardBetweenBlocks(Addr begin, Addr end);

  size_t idle_bytes() const { return idle_chunks_ * kChunkBytes; }
  uint64_t discarded_bytes() const { return discarded_bytes_; }  // since Init
  size_t MetadataBytes() const {
    return chunks_.committed() * sizeof(Chunks) + users_.committed() * sizeof(uint32_t);
  }

  void CheckForTesting() const;

 private:
  static constexpr size_t kChunksPerWord = 64;
  static constexpr uint32_t kCallsPerLook = 8;  // calls of IsDecayDue per true answer
  static constexpr uint32_t kStepsPerTurn = 16;

  // 64 chunks, a bit each.
  struct Chunks {
    uint64_t dirty;  // not clean
    uint64_t used;
    uint64_t aged;  // idle since before the hand last passed
    uint64_t Idle() const { return dirty & ~used; }
  };

  size_t ChunkOf(Addr a) const { return a / kChunkBytes - first_chunk_; }
  Addr BeginOf(size_t chunk) const { return (first_chunk_ + chunk) * kChunkBytes; }
  bool HasSurplus() const { return idle_chunks_ > budget_chunks_; }
  // Calls f(word, mask) for the chunks [first, end).
  template <class F>
  void ForEachWord(size_t first, size_t end, F f);
  void UseChunks(size_t first, size_t end);
  void UnuseChunks(size_t first, size_t end);
  void DiscardChunks(size_t first, size_t end);
  // Discards up to `quota` of the chunks of a word that `candidates` names.
  void DiscardInWord(size_t word, uint64_t candidates, size_t quota);
  // Moves the hand over the chunks [first, end).
  void Pass(size_t first, size_t end);
  size_t WordCount() const { return (chunk_count_ + kChunksPerWord - 1) / kChunksPerWord; }

  ReservedArray<Chunks> chunks_;
  ReservedArray<uint32_t> users_;  // blocks in use that begin or end in the chunk
  Addr begin_ = 0, end_ = 0;
  Addr fresh_from_ = 0;  // memory from here on was never handed out
  size_t first_chunk_ = 0;
  size_t chunk_count_ = 0;
  size_t idle_chunks_ = 0;
  size_t budget_chunks_ = 0;
  size_t hand_ = 0;  // the chunk the next step begins with
  uint64_t decay_ns_ = 0;
  uint64_t next_step_ns_ = 0;
  uint64_t discarded_bytes_ = 0;
  uint32_t calls_ = 0;
};

}  // namespace gleaner::alloc
