// Reading an allocation trace: checks every byte of it, and returns its events in the order in
// which they happened.
//
// Call order: Open once, then the other functions in any order. Of a cut or damaged trace, the
// blocks before the first bad one, in file order, are used. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "record/trace_format.h"

namespace gleaner::record {

struct Event {
  enum class Kind : uint8_t {
    kAllocate,
    kZeroed,
    kAligned,
    kFree,
    kResizeBegin,  // a reallocation of the block at `address` begins
    kResizeEnd,    // the block is now `size` bytes at `address`; it was at `from`
  };
  Kind kind;
  uint8_t alignment_log2;  // kAligned
  uint32_t thread;
  uint64_t sequence;
  uint64_t time_ms;  // since the recording began
  uint64_t address;
  uint64_t from;
  uint64_t size;
};

class TraceReader {
 public:
  // Reads the headers and checks the blocks of the file's bytes, which must outlive the reader and
  // stay unchanged. False if the file header is not good; damage() says why.
  bool Open(const uint8_t* data, size_t bytes);

  // Text that says what is damaged, empty if nothing is, and the byte of the file where.
  const std::string& damage() const { return damage_; }
  uint64_t damage_offset() const { return damage_offset_; }

  uint64_t process() const { return header_.process; }
  bool is_forked_child() const { return (header_.flags & kForkedChild) != 0; }
  FileState state() const { return static_cast<FileState>(header_.state); }
  std::string command() const;  // arguments separated by spaces
  // Events of the good blocks; a resize counts once.
  uint64_t event_count() const { return event_count_; }
  uint32_t thread_end() const { return thread_end_; }  // one more than the highest thread number

  // Calls f(const Event&) for every event in the order of the sequence.
  template <class F>
  void ForEach(F f) const {
    Merge merge(*this);
    Event event;
    while (merge.Next(&event)) f(event);
  }

 private:
  struct Block {
    uint64_t first_sequence;
    uint32_t index;
  };

  // Iterates over the events of one block.
  class Cursor {
   public:
    Cursor(const TraceReader& reader, uint32_t index);
    // False at the end of the events, and at a bad event; then error() is not null.
    bool Next(Event* event);
    const char* error() const { return error_; }
    uint64_t offset() const { return static_cast<uint64_t>(at_ - data_); }

   private:
    bool Bad(const uint8_t* at, const char* what);
    bool Address(const uint8_t** at, uint64_t* address);
    bool Varint(const uint8_t** at, uint64_t* value);

    const uint8_t* data_;
    const uint8_t* at_;
    const uint8_t* end_;
    uint64_t sequence_;
    uint64_t time_ms_;
    uint64_t address_ = 0;
    uint32_t thread_;
    bool resizing_ = false;
    Event resize_end_ = {};
    const char* error_ = nullptr;
  };

  // Merges the events of all blocks in sequence order. Blocks overlap in the sequence: as many
  // blocks are open at a time as threads wrote at a time.
  class Merge {
   public:
    explicit Merge(const TraceReader& reader) : reader_(reader) {}
    bool Next(Event* event);

   private:
    struct Head {
      Event event;
      Cursor cursor;
    };
    static bool Later(const Head& a, const Head& b) { return a.event.sequence > b.event.sequence; }
    const TraceReader& reader_;
    size_t next_block_ = 0;
    std::vector<Head> heads_;  // a heap, the earliest event first
  };

  bool OpenHeader();
  bool OpenBlock(uint32_t index);
  bool Bad(uint64_t offset, std::string what);
  // Offset of the first byte of [begin, end) that is not zero; `end` if there is none.
  uint64_t FirstNonZero(uint64_t begin, uint64_t end) const;
  BlockHeader ReadBlockHeader(uint32_t index) const;

  const uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  FileHeader header_ = {};
  std::vector<Block> blocks_;  // blocks with events, sorted by first_sequence
  uint64_t event_count_ = 0;
  uint32_t thread_end_ = 0;
  std::string damage_;
  uint64_t damage_offset_ = 0;
};

}  // namespace gleaner::record
