// Reading an allocation trace: checks every byte of it, and hands out its events in the order in
// which they happened.
//
// A trace that is cut or damaged is used up to there: the blocks before the first bad one, in the
// order of the file, are good. Not thread-safe.
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
    kResizeBegin,  // the block at `address` is in the hands of a reallocation
    kResizeEnd,    // it is now `size` bytes at `address`; it was at `from`
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
  // Takes the file's bytes, which must outlive the reader and stay as they are. False if not even
  // the header is good; damage() says why.
  bool Open(const uint8_t* data, size_t bytes);

  // What is wrong, in words, and at which byte of the file; empty if nothing is.
  const std::string& damage() const { return damage_; }
  uint64_t damage_offset() const { return damage_offset_; }

  uint64_t process() const { return header_.process; }
  bool is_forked_child() const { return (header_.flags & kForkedChild) != 0; }
  FileState state() const { return static_cast<FileState>(header_.state); }
  std::string command() const;                           // arguments separated by spaces
  uint64_t event_count() const { return event_count_; }  // of the good blocks; a resize counts once
  uint32_t thread_end() const { return thread_end_; }    // above every thread number

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

  // Goes through the events of one block.
  class Cursor {
   public:
    Cursor(const TraceReader& reader, uint32_t index);
    // False at the end of the events, and if they are bad: then error() is not null.
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

  // Blocks overlap in the sequence: as many are open at a time as threads wrote at a time.
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
  // The first byte of [begin, end) that is not zero; `end` if there is none.
  uint64_t FirstNonZero(uint64_t begin, uint64_t end) const;
  BlockHeader ReadBlockHeader(uint32_t index) const;

  const uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  FileHeader header_ = {};
  std::vector<Block> blocks_;  // with events, by first_sequence
  uint64_t event_count_ = 0;
  uint32_t thread_end_ = 0;
  std::string damage_;
  uint64_t damage_offset_ = 0;
};

}  // namespace gleaner::record
