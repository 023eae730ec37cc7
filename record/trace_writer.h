// Writing an allocation trace of this process, in the layout of trace_format.h.
//
// Each thread has a Stream: a mapped block of the file, into which only that thread writes, without
// a lock. When the block is full, the thread takes the next one from the file under the lock. When
// the thread ends, the unused part of its block is parked for the next thread that begins.
//
// Order. Every event has a number from one counter. The number of an allocation is taken after the
// allocator has returned, that of a free before the allocator is called, and a reallocation takes
// one at both times. If one event happens before another in the sense of C++, its number is
// smaller: all threads see the modifications of one atomic object in the same order. Examples are a
// pointer handed to another thread that frees it, and an address that is handed out again after its
// free. So relaxed accesses are enough, and no clocks of several processors are compared.
//
// Invariants:
//   [inv.trace-commit]  the bytes of a block that its `committed` word counts are whole events with
//                       that checksum, at every instant;
//   [inv.trace-blocks]  every block that the header's count includes has a valid header;
//   [inv.trace-stream]  within a block the sequence rises.
//
// A process that is killed loses the events that were being written, one for each thread. A forked
// child goes on with a file of its own; it finds the word at `alive_` zero, by whichever call it
// was forked.
#pragma once

#include <pthread.h>

#include "record/system/record_file.h"
#include "record/trace_format.h"

namespace gleaner::record {

// A thread's place in the trace. Owner thread only.
struct Stream {
  uint8_t* block = nullptr;  // mapped; null if the thread has none
  uint32_t used = 0;         // bytes of events in the block
  uint32_t checksum = 0;
  uint64_t sequence = 0;  // number of the last event
  uint64_t address = 0;   // the address that the last event has written
  uint64_t time_ms = 0;   // time of the last event, since the start
  uint32_t thread = 0;    // thread number + 1; 0 if none is assigned
  // TraceWriter::process_ when this stream was set up; it differs after a fork: the stream is void
  uint32_t process = 0;
  bool ended = false;  // the thread has ended: the block is given back after each event
};

// Call order: Start, then the event calls of all threads, EndThread when a thread ends, and Finish
// when the process ends. If Start fails, IsRecording stays false and Finish has no effect.
class TraceWriter {
 public:
  static constexpr size_t kMaxPath = 4096;

  constexpr TraceWriter() = default;
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Begins to write to `path`. If that file exists, this is not the first program: with `children`
  // it writes to path.PROCESS, or path.PROCESS.1 and so on; without, neither it nor its children
  // are recorded. `limit` is the largest size of a file in bytes. Returns 0 or errno. Called once,
  // by one thread. pre: the path is absolute.
  int Start(const char* path, uint64_t limit, bool children);

  // Whether events are written: false before the start, after the limit, and after an error.
  bool IsRecording() {
    // Acquire: pairs with the release at the end of Start, which has set up what the thread uses. A
    // thread that learns late of the end writes a few events more.
    return recording_.Load(platform::memory_order_acquire) != 0;
  }

  // Each writes one event. Any thread, with its own stream; not while the thread is in such a call
  // already (signal handler). pre: address != 0. `alignment` is rounded up to a power of two; 0 is
  // malloc's own.
  void Allocated(Stream* stream, size_t size, size_t alignment, bool zeroed, const void* address);
  void Freeing(Stream* stream, const void* address);
  // Called before a reallocation. Its result is passed to Resized, or to Freed if the call only
  // freed.
  uint64_t Resizing(Stream* stream);
  void Resized(Stream* stream, uint64_t begin, const void* from, size_t size, const void* to);
  void Freed(Stream* stream, uint64_t begin, const void* address);

  // The stream's thread ends. The thread may still write events.
  void EndThread(Stream* stream);
  // The process ends: cuts the file to the used blocks. Threads may still write events.
  void Finish();

 private:
  static constexpr uint32_t kMaxParked = 256;
  static constexpr uint64_t kMaxGrowBytes = kMiB;
  // Values of *alive_; 0 after a fork.
  static constexpr uint32_t kAlive = 1, kBeginning = 2;

  int CreateFile(uint32_t flags);
  // Makes room for one event in the stream; false if nothing is recorded.
  bool Prepare(Stream* stream);
  bool PrepareSlow(Stream* stream);
  void BeginInChild();
  bool TakeBlock(Stream* stream);  // pre: mutex_ is held
  void GiveBack(Stream* stream);
  void SetState(FileState state);

  uint64_t NextSequence() {
    // Relaxed: see Order in the head.
    return sequence_.FetchAdd(1, platform::memory_order_relaxed) + 1;
  }
  // Writes the event's first bytes: a kTime before it if need be, its kind and step. Returns their
  // end.
  uint8_t* Begin(Stream* stream, EventKind kind, uint64_t sequence);
  static uint8_t* PutAddress(Stream* stream, uint8_t* at, uint64_t address) {
    at = PutVarint(at, PackAddress(address, stream->address));
    stream->address = address;
    return at;
  }
  void Commit(Stream* stream, const uint8_t* end);

  // Constant once recording, until a fork.
  char path_[kMaxPath + 32] = {};
  size_t path_bytes_ = 0;  // length without the appended process number
  uint64_t limit_ = 0;
  bool children_ = false;
  uint64_t start_ms_ = 0;
  uint32_t block_bytes_ = 0;
  uint32_t process_ = 0;  // number of forks between the first process and this one
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
