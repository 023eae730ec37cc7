// Which memory of a range is resident though free, and what of it may not be zero: for spaces that
// keep freed memory for a while and then give it back to the system in units of 2 MiB.
//
// The range is looked at in chunks of 2 MiB. A chunk is
//   clean   nothing of it was handed out since it was last discarded: it reads as zero and is not
//           resident;
//   used    some block in use overlaps it;
//   idle    neither: free, and resident as far as its blocks were touched.
// Take and Return tell of blocks that are handed out and come back; it does not matter how the
// space divides its memory. Idle memory up to a budget stays. A surplus goes by a decay: every
// quarter of the decay time a quarter of the surplus, at least a chunk, of chunks that were idle
// for a whole quarter at least, so memory that is in turn handed out and freed stays resident.
// There is no thread of its own: the steps happen while the owner calls Decay.
//
// Take and Return cost O(1) and a bit of bitmap for each 2 MiB of the block; a step of the decay
// looks at 128 GiB at most, and makes a system call for each run of chunks it discards.
//
// Invariants:
//   [inv.idle-bytes]  idle_bytes() = 2 MiB * chunks that are idle;
//   [inv.known-zero]  a clean chunk, and whatever lies at or above every block ever handed out,
//                     reads as zero.
//
// Not thread-safe: the lock of the space it belongs to guards it. Nothing is ever discarded of a
// block in use.
#pragma once

#include "alloc/meta.h"
#include "platform/base.h"

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

  // Watches [begin, begin + bytes), committed anonymous memory that reads as zero, with nothing in
  // use. `budget_bytes` of idle memory stay (kKeepAll: all of it). A decay of 0 ns gives a surplus
  // back at once. False if there is no memory for the tables.
  // pre: not initialised; begin and bytes are multiples of the OS page; bytes > 0.
  [[nodiscard]] bool Init(Addr begin, size_t bytes, size_t budget_bytes, uint64_t decay_ns);
  void Destroy();
  bool initialised() const { return chunks_.data() != nullptr; }

  // The block [begin, begin + bytes) is handed out. Returns the part of it outside of which it is
  // known to be zero. pre: no block in use overlaps it.
  Range Take(Addr begin, size_t bytes);
  // The block comes back. pre: exactly as it was taken. One that shrinks or grows in place is
  // returned and taken anew.
  void Return(Addr begin, size_t bytes);

  // True now and then while there is a surplus: Decay should be called. Costs next to nothing.
  bool IsDecayDue() {
    return GLEANER_UNLIKELY(idle_chunks_ > budget_chunks_) &&
           (decay_ns_ == 0 || ++calls_ % kCallsPerLook == 0);
  }
  // Makes the step that is due at `now_ns`, of any clock that does not go backwards, if one is.
  // Returns the bytes discarded.
  size_t Decay(uint64_t now_ns);
  // Discards all idle chunks, whatever the budget. Returns their bytes. Looks at the whole range.
  size_t Trim();
  // Discards the OS pages of a free range that lie in used chunks, beside blocks in use; the chunks
  // stay used and are not known to be zero. pre: no block in use overlaps the range.
  void DiscardBeside(Addr begin, Addr end);

  size_t idle_bytes() const { return idle_chunks_ * kChunkBytes; }
  uint64_t discarded_bytes() const { return discarded_bytes_; }  // since Init
  size_t MetadataBytes() const {
    return chunks_.committed() * sizeof(Chunks) + users_.committed() * sizeof(uint32_t);
  }

  void CheckForTesting() const;

 private:
  static constexpr size_t kChunksPerWord = 64;
  static constexpr size_t kWordsPerStep = 1024;
  static constexpr uint32_t kCallsPerLook = 64;  // at the clock
  static constexpr uint32_t kStepsPerDecay = 4;

  // 64 chunks, a bit each.
  struct Chunks {
    uint64_t dirty;  // not clean
    uint64_t used;
    uint64_t aged;  // was idle when the decay last came by
    uint64_t Idle() const { return dirty & ~used; }
  };

  size_t ChunkOf(Addr a) const { return a / kChunkBytes - first_chunk_; }
  Addr BeginOf(size_t chunk) const { return (first_chunk_ + chunk) * kChunkBytes; }
  // Calls f(words, mask) for the chunks [first, end).
  template <class F>
  void ForEachWord(size_t first, size_t end, F f);
  void UseChunks(size_t first, size_t end);
  void UnuseChunks(size_t first, size_t end);
  void DiscardChunks(size_t first, size_t end);
  // Discards up to `quota` of the idle chunks of a word, only aged ones if asked. Returns how many.
  size_t DiscardInWord(size_t word, size_t quota, bool only_aged);
  size_t WordCount() const { return (chunk_count_ + kChunksPerWord - 1) / kChunksPerWord; }

  ReservedArray<Chunks> chunks_;
  ReservedArray<uint32_t> users_;  // blocks in use that begin or end in the chunk
  Addr begin_ = 0, end_ = 0;
  Addr fresh_from_ = 0;  // nothing from here on was ever handed out
  size_t first_chunk_ = 0;
  size_t chunk_count_ = 0;
  size_t idle_chunks_ = 0;
  size_t budget_chunks_ = 0;
  size_t hand_ = 0;  // the word the next step begins with
  uint64_t decay_ns_ = 0;
  uint64_t next_step_ns_ = 0;
  uint64_t discarded_bytes_ = 0;
  uint32_t calls_ = 0;
};

}  // namespace gleaner::alloc
