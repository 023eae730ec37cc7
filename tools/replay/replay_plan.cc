#include "tools/replay/replay_plan.h"

#include <algorithm>

#include "alloc/metadata/hash_table.h"

using gleaner::record::Event;

namespace {

// Maps the address of a block that is live in the trace to its number.
gleaner::alloc::HashTable<uint32_t> g_live;

}  // namespace

bool ReplayPlan::Make(const gleaner::record::TraceReader& trace, bool one_thread) {
  one_thread_ = one_thread;
  const uint64_t events = trace.event_count();
  const uint64_t threads = std::max(trace.thread_end(), 1u);
  // An event adds at most two operations: the free of a lost block and its own.
  const uint64_t max = 2 * events + threads;
  if (max >= UINT32_MAX || !operations_.Reserve(max) || !thread_of_.Reserve(max) ||
      !blocks_.Reserve(events + 1) || !threads_.Reserve(threads) ||
      !threads_.EnsureCommitted(threads)) {
    return false;
  }
  thread_count_ = one_thread ? 1 : static_cast<uint32_t>(threads);
  expected_operations_ = std::max<uint64_t>(events, 1);
  block_count_ = 1;
  threads_[0].begun = true;
  bool done = true;
  trace.ForEach([&](const Event& event) { done = done && Add(event); });
  g_live.Clear();
  for (size_t i = 1; i <= kMoments; ++i) moments_[i] = std::max(moments_[i], moments_[i - 1]);
  done = done && SortByThread();
  thread_of_.Release();
  blocks_.Release();
  threads_.Release();
  return done;
}

ReplayPlan::~ReplayPlan() {
  operations_.Release();
  starts_.Release();
}

uint64_t ReplayPlan::TimeOf(uint64_t index) const {
  return moments_[std::min<uint64_t>(index * kMoments / std::max<uint64_t>(operation_count_, 1),
                                     kMoments)];
}

bool ReplayPlan::Add(const Event& event) {
  const uint32_t thread = one_thread_ ? 0 : event.thread;
  if (!threads_[thread].begun) {
    threads_[thread].begun = true;
    if (!Append(last_thread_, OperationKind::kSpawn, thread)) return false;
  }
  last_thread_ = thread;
  const uint64_t part = operation_count_ * kMoments / expected_operations_;
  moments_[std::min<uint64_t>(part + 1, kMoments)] = event.time_ms;

  // With one thread, every recorded thread still has at most one resize under way.
  uint32_t& resizing = threads_[event.thread].resizing;
  const uint32_t* found = g_live.Find(event.address);
  const uint32_t block = found != nullptr ? *found : kNoBlock;
  switch (event.kind) {
    case Event::Kind::kFree:
      if (block == kNoBlock) {
        ++unknown_frees_;
        return true;
      }
      g_live.Erase(event.address);
      return End(thread, block);
    case Event::Kind::kResizeBegin:
      if (block != kNoBlock) {
        g_live.Erase(event.address);
      } else {
        ++unknown_frees_;
      }
      resizing = block;
      return true;
    default:
      break;
  }
  if (block != kNoBlock) {
    ++lost_frees_;
    g_live.Erase(event.address);
    if (!End(thread, block)) return false;
  }
  if (event.kind != Event::Kind::kResizeEnd) {
    return Begin(
        thread,
        event.kind == Event::Kind::kZeroed ? OperationKind::kZeroed : OperationKind::kAllocate,
        event);
  }
  const uint32_t resized = resizing;
  resizing = kNoBlock;
  if (resized == kNoBlock) return Begin(thread, OperationKind::kAllocate, event);
  AddLive(blocks_[resized].size, event.size);
  blocks_[resized].size = event.size;
  return g_live.Insert(event.address, resized) != nullptr &&
         Append(thread, OperationKind::kResize, resized, event.size);
}

bool ReplayPlan::Begin(uint32_t thread, OperationKind kind, const Event& event) {
  const uint32_t block = TakeNumber(thread);
  if (block == kNoBlock || g_live.Insert(event.address, block) == nullptr) return false;
  blocks_[block].size = event.size;
  AddLive(0, event.size);
  return Append(thread, kind, block, event.size, event.alignment_log2);
}

bool ReplayPlan::End(uint32_t thread, uint32_t block) {
  AddLive(blocks_[block].size, 0);
  if (!Append(thread, OperationKind::kFree, block)) return false;
  GiveNumber(thread, block);
  return true;
}

void ReplayPlan::AddLive(uint64_t before, uint64_t after) {
  live_bytes_ += after - before;
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
}

bool ReplayPlan::Append(uint32_t thread, OperationKind kind, uint32_t block, uint64_t size,
                        uint8_t alignment_log2) {
  const uint64_t index = operation_count_++;
  if (!operations_.EnsureCommitted(index + 1) || !thread_of_.EnsureCommitted(index + 1)) {
    return false;
  }
  Operation& operation = operations_[index];
  operation.size = size & (gleaner::record::kMaxSize - 1);
  operation.alignment_log2 = alignment_log2;
  operation.kind = static_cast<uint8_t>(kind);
  operation.block = block;
  operation.turn = kind == OperationKind::kSpawn ? 0 : blocks_[block].turn++;
  thread_of_[index] = thread;
  ++threads_[thread].operations;
  return true;
}

uint32_t ReplayPlan::TakeNumber(uint32_t thread) {
  Spare& own = threads_[thread].spare;
  if (own.first != kNoBlock) {
    const uint32_t block = own.first;
    own.first = blocks_[block].next;
    --own.count;
    return block;
  }
  if (old_first_ != kNoBlock) {
    const uint32_t block = old_first_;
    old_first_ = blocks_[block].next;
    if (old_first_ == kNoBlock) old_last_ = kNoBlock;
    return block;
  }
  if (!blocks_.EnsureCommitted(size_t{block_count_} + 1)) return kNoBlock;
  return block_count_++;
}

void ReplayPlan::GiveNumber(uint32_t thread, uint32_t block) {
  Spare& own = threads_[thread].spare;
  if (own.count < kMaxSpare) {
    blocks_[block].next = own.first;
    own.first = block;
    ++own.count;
    return;
  }
  blocks_[block].next = kNoBlock;
  (old_last_ != kNoBlock ? blocks_[old_last_].next : old_first_) = block;
  old_last_ = block;
}

bool ReplayPlan::SortByThread() {
  Array<Operation> sorted;
  if (!starts_.Reserve(size_t{thread_count_} + 1) ||
      !starts_.EnsureCommitted(size_t{thread_count_} + 1) ||
      !sorted.Reserve(operation_count_ + 1) || !sorted.EnsureCommitted(operation_count_ + 1)) {
    return false;
  }
  uint64_t start = 0;
  for (uint32_t thread = 0; thread < thread_count_; ++thread) {
    starts_[thread] = start;
    start += threads_[thread].operations;
    // From here on: index of the thread's next operation in `sorted`.
    threads_[thread].operations = starts_[thread];
  }
  starts_[thread_count_] = start;
  for (uint64_t i = 0; i < operation_count_; ++i) {
    sorted[threads_[thread_of_[i]].operations++] = operations_[i];
  }
  operations_.Release();
  operations_ = sorted;
  return true;
}
