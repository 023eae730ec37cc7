// The plan of a replay: the events of a trace, turned into a list of operations for each thread.
//
// Blocks have numbers instead of addresses. Operations on one block take turns: each has a turn
// number, waits until the block has reached it, and then passes the turn on. So a block is not
// freed before the thread that allocates it has done so. Operations on different blocks are not
// ordered between threads. An operation waits only for one that came before it in the trace. So the
// earliest operation not yet done can always go on, and no replay deadlocks.
//
// The plan's memory comes directly from the system and is touched while the plan is made, so that
// the measured heap starts fresh. Call order: Make once, then the const functions, from any thread.
#pragma once

#include <string>

#include "alloc/metadata/meta.h"
#include "record/trace_reader.h"

enum class OperationKind : uint8_t {
  kAllocate,
  kZeroed,
  kFree,
  kResize,
  kSpawn,  // the thread with number `block` begins
};

struct Operation {
  uint64_t size : 48;
  uint64_t alignment_log2 : 8;  // of kAllocate; 0 is malloc's own
  uint64_t kind : 8;
  uint32_t block;
  uint32_t turn;
};
static_assert(sizeof(Operation) == 16);

class ReplayPlan {
 public:
  static constexpr size_t kMoments = 1024;

  ReplayPlan() = default;
  ReplayPlan(const ReplayPlan&) = delete;
  ReplayPlan& operator=(const ReplayPlan&) = delete;
  ~ReplayPlan();

  // Makes the plan; called once. False without memory. With `one_thread` all operations are the
  // first thread's, in the order of the trace.
  bool Make(const gleaner::record::TraceReader& trace, bool one_thread);

  uint32_t thread_count() const { return thread_count_; }
  const Operation* begin(uint32_t thread) const { return &operations_[starts_[thread]]; }
  const Operation* end(uint32_t thread) const { return &operations_[starts_[thread + 1]]; }
  uint64_t operation_count() const { return operation_count_; }
  uint32_t block_count() const { return block_count_; }
  // Largest sum of bytes that the program had asked for and not freed, at one time.
  uint64_t peak_live_bytes() const { return peak_live_bytes_; }
  // Time at which the program had done operation `index`, in ms since the recording began.
  uint64_t TimeOf(uint64_t index) const;

  // unknown_frees: frees and resizes of blocks whose allocation is not in the trace (made before it
  // began, or lost). They are left out. lost_frees: blocks whose free was lost. They are freed when
  // their address is handed out again.
  uint64_t unknown_frees() const { return unknown_frees_; }
  uint64_t lost_frees() const { return lost_frees_; }

 private:
  static constexpr uint32_t kNoBlock = 0;  // numbers begin at 1
  static constexpr uint32_t kMaxSpare = 1024;

  // Numbers of freed blocks are reused, if possible by the thread that freed the block: then the
  // new block need not wait for another thread.
  struct Spare {
    uint32_t first, count;
  };
  struct Block {
    uint32_t turn;
    uint32_t next;  // next in a list of spare numbers
    uint64_t size;
  };
  struct Thread {
    bool begun;
    uint32_t resizing;  // block that the thread is resizing, or kNoBlock
    uint64_t operations;
    Spare spare;
  };

  bool Add(const gleaner::record::Event& event);
  bool Append(uint32_t thread, OperationKind kind, uint32_t block, uint64_t size = 0,
              uint8_t alignment_log2 = 0);
  bool Begin(uint32_t thread, OperationKind kind, const gleaner::record::Event& event);
  bool End(uint32_t thread, uint32_t block);
  uint32_t TakeNumber(uint32_t thread);
  void GiveNumber(uint32_t thread, uint32_t block);
  bool SortByThread();
  void AddLive(uint64_t before, uint64_t after);

  template <class T>
  using Array = gleaner::alloc::ReservedArray<T>;

  Array<Operation> operations_;
  Array<uint64_t> starts_;
  uint64_t operation_count_ = 0;
  uint32_t thread_count_ = 0;
  uint32_t block_count_ = 0;  // highest block number + 1
  uint64_t live_bytes_ = 0;
  uint64_t peak_live_bytes_ = 0;
  uint64_t unknown_frees_ = 0;
  uint64_t lost_frees_ = 0;
  uint64_t moments_[kMoments + 1] = {};  // TimeOf at the end of each of kMoments equal parts

  // Used only by Make.
  bool one_thread_ = false;
  uint32_t last_thread_ = 0;
  uint64_t expected_operations_ = 0;
  Array<uint32_t> thread_of_;  // thread of each operation
  Array<Block> blocks_;
  Array<Thread> threads_;
  // Numbers that any thread may take, oldest first.
  uint32_t old_first_ = kNoBlock, old_last_ = kNoBlock;
};
