// Writing an allocation trace of this process: trace_format.h says into what.
//
// Each thread has a Stream: a block of the file, mapped, into which it writes alone and without a
// lock. When the block is full the next one is taken from the file under the lock. When the thread
// ends, what is left of its block is parked for the thread that begins next.
//
// Order. Every event has a number from one counter. That of an allocation is taken after the
// allocator has returned; that of a free before the allocator is called; that of a reallocation, at
// both times. If an event happens before another one in the sense of C++ (a pointer is handed to
// another thread, which frees it; an allocator hands out an address that was freed), the number is
// smaller, because the modifications of one atomic object are seen in that order: relaxed is
// enough, and no clock of several processors has to be trusted for it.
//
// Invariants:
//   [inv.trace-commit]  the bytes of a block that its `committed` word counts are whole events with
//                       that checksum, at every instant;
//   [inv.trace-blocks]  every block that the header's count includes has a valid header;
//   [inv.trace-stream]  within a block the sequence rises.
//
// A process that is killed loses the events that were being written, one for each thread. One that
// forks goes on in the child with a file of its own, however it forked: the word at `alive_` is
// zero there.
#pragma once

#include <pthread.h>

#include "record/system/record_file.h"
#include "record/trace_format.h"

namespace gleaner::record {

// A thread's place in the trace. Owner thread only.
struct Stream {
  uint8_t* block = nullptr;  // mapped; null if the thread has none
  uint32_t used = 0;         // bytes of events
  uint32_t checksum = 0;
  uint64_t sequence = 0;  // of the last event
  uint64_t address = 0;   // the last one written
  uint64_t time_ms = 0;   // of the last event
  uint32_t thread = 0;    // number + 1; 0 if it has none
  uint32_t process = 0;   // TraceWriter::process_ when all this was set: it is void after a fork
  bool ended = false;     // the thread's end was seen: the block is given back after each event
};

class TraceWriter {
 public:
  static constexpr size_t kMaxPath = 4096;

  constexpr TraceWriter() = default;
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Begins to write to `path`. If there is such a file, this is not the first program: with
  // `children` it writes to path.PROCESS, or path.PROCESS.1 and so on; without, not at all, nor in
  // children of this process. 0 or errno. `limit` is the most bytes a file may have. One thread,
  // once. pre: the path is absolute.
  int Start(const char* path, uint64_t limit, bool children);

  // Whether events are written: they are not before the start, after the limit, or after an error.
  bool IsRecording() {
    // Relaxed: a thread that learns late of the end writes a few events more.
    return recording_.Load(platform::memory_order_relaxed) != 0;
  }

  // One event each; any thread, with its own stream, not again in a signal handler.
  // pre: address != 0. `alignment` is rounded up to a power of two; 0 is what malloc gives.
  void Allocated(Stream* stream, size_t size, size_t alignment, bool zeroed, const void* address);
  void Freeing(Stream* stream, const void* address);
  // Before a reallocation; the result goes to Resized, or to Freed if that was all it did.
  uint64_t Resizing(Stream* stream);
  void Resized(Stream* stream, uint64_t begin, const void* from, size_t size, const void* to);
  void Freed(Stream* stream, uint64_t begin, const void* address);

  // The thread ends. It may still write events.
  void EndThread(Stream* stream);
  // The process ends: the file is cut to what is used. It may still write events.
  void Finish();

 private:
  static constexpr uint32_t kMaxParked = 256;
  static constexpr uint64_t kMaxGrowBytes = kMiB;
  // Values of *alive_; 0 after a fork.
  static constexpr uint32_t kAlive = 1, kBeginning = 2;

  int CreateFile(uint32_t flags);
  // Sees to it that the stream has room for an event; false if nothing is recorded.
  bool Prepare(Stream* stream);
  bool PrepareSlow(Stream* stream);
  void BeginInChild();
  bool TakeBlock(Stream* stream);  // under mutex_
  void GiveBack(Stream* stream);
  void SetState(FileState state);

  uint64_t NextSequence() {
    return sequence_.FetchAdd(1, platform::memory_order_relaxed) + 1;  // see "Order" above
  }
  // The event's first bytes: a kTime before it if need be, its kind and step. Returns their end.
  uint8_t* Begin(Stream* stream, EventKind kind, uint64_t sequence);
  static uint8_t* PutAddress(Stream* stream, uint8_t* at, uint64_t address) {
    at = PutVarint(at, PackAddress(address, stream->address));
    stream->address = address;
    return at;
  }
  void Commit(Stream* stream, const uint8_t* end);

  // Constant once recording, until a fork.
  char path_[kMaxPath + 32] = {};
  size_t path_bytes_ = 0;  // without what was appended
  uint64_t limit_ = 0;
  bool children_ = false;
  uint64_t start_ms_ = 0;
  uint32_t block_bytes_ = 0;
  uint32_t process_ = 0;  // counts the forks that led here
  FileHeader* header_ = nullptr;
  platform::Atomic<uint32_t>* alive_ = nullptr;

  // Any thread.
  platform::Atomic<uint32_t> recording_{0};
  platform::Atomic<uint64_t> sequence_{0};

  // Guarded by mutex_.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  RecordFile file_;
  uint64_t file_bytes_ = 0;
  uint32_t blocks_ = 0;
  uint32_t threads_ = 0;
  uint32_t parked_count_ = 0;
  Stream parked_[kMaxParked] = {};
};

}  // namespace gleaner::record
