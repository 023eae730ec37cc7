#include "platform/first_touch.h"

#include <cerrno>

#include "platform/fault_signal.h"
#include "platform/lock.h"
#include "platform/memory.h"
#include "platform/thread.h"
#include "platform/topology.h"

namespace gleaner::platform {
namespace {

class Touch {
 public:
  Touch(Addr begin, size_t bytes, size_t piece_bytes, unsigned threads)
      : begin_(begin), end_(begin + bytes), piece_(piece_bytes), threads_(threads) {
    const Topology* topology = LoadTopology();
    if (topology != nullptr && topology->is_this_machine) {
      const NodeSet& nodes = topology->processor_nodes;
      for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
        const ProcessorSet& of_node = topology->ProcessorsOf(node);
        for (int cpu = of_node.First(); cpu >= 0; cpu = of_node.Next(cpu)) {
          processors_[processor_count_++] = static_cast<uint16_t>(cpu);
        }
      }
    }
    if (threads_ == 0) threads_ = processor_count_ != 0 ? processor_count_ : 1;
    if (threads_ > kMaxTouchingThreads) threads_ = kMaxTouchingThreads;
    if (piece_ == 0) piece_ = (bytes + threads_ - 1) / threads_;
  }

  int Run() {
    // More threads than processors would wait for each other.
    const unsigned wanted = threads_ < processor_count_ ? threads_ : processor_count_;
    unsigned started = 0;
    for (; started < wanted; ++started) {
      running_.FetchAdd(1, memory_order_seq_cst);
      if (StartHelperThread(Main, this)) continue;
      running_.FetchSub(1, memory_order_seq_cst);
      NoteError(EAGAIN);
      break;
    }
    if (started == 0) TouchShares(false);
    for (uint32_t running; (running = running_.Load(memory_order_seq_cst)) != 0;) {
      FutexWait(&running_, running);
    }
    return error_.Load(memory_order_relaxed);  // the threads have ended
  }

 private:
  static void* Main(void* touch) {
    auto& self = *static_cast<Touch*>(touch);
    UnblockFaultSignal();  // the memory may be write-protected for tracking
    self.TouchShares(true);
    // The last use of the object, which Run's caller takes away after it: the address alone is used
    // behind the store.
    Atomic<uint32_t>* running = &self.running_;
    if (running->FetchSub(1, memory_order_seq_cst) == 1) FutexWakeAll(running);
    return nullptr;
  }

  // Takes shares until none is left.
  void TouchShares(bool binds) {
    for (;;) {
      const unsigned share = next_.FetchAdd(1, memory_order_relaxed);  // only uniqueness counts
      if (share >= threads_) return;
      if (binds) KeepOn(processors_[uint64_t{share} * processor_count_ / threads_]);
      for (size_t at = share * piece_; at < end_ - begin_;) {
        TouchPiece(begin_ + at, end_ - begin_ - at < piece_ ? end_ : begin_ + at + piece_);
        const size_t step = piece_ * threads_;
        if (step / threads_ != piece_ || end_ - begin_ - at <= step) break;
        at += step;
      }
    }
  }

  void KeepOn(int processor) {
    ProcessorSet one;
    one.Add(processor);
    if (!SetAffinity(0, one)) NoteError(errno);
  }

  // Touches the OS pages that begin in [from, to); the first page of all, too, if it begins before.
  void TouchPiece(Addr from, Addr to) const {
    const size_t os_page = OsPageBytes();
    const Addr first = from == begin_ ? AlignDown(from, os_page) : AlignUp(from, os_page);
    const Addr end = AlignUp(to, os_page);
    if (first < end) MakeResident(PointerAt<void>(first), end - first);
  }

  void NoteError(int error) {
    int none = 0;
    error_.CompareExchange(none, error, memory_order_relaxed);  // a number by itself
  }

  const Addr begin_;
  const Addr end_;
  size_t piece_;
  unsigned threads_;
  unsigned processor_count_ = 0;
  Atomic<unsigned> next_{0};
  Atomic<uint32_t> running_{0};  // threads that may still use this object; Run sleeps on it
  Atomic<int> error_{0};
  uint16_t processors_[kMaxProcessors];
};

}  // namespace

int FirstTouch(void* p, size_t bytes, size_t piece_bytes, unsigned threads) {
  if (bytes == 0) return 0;
  Touch touch(AddressOf(p), bytes, piece_bytes, threads);
  return touch.Run();
}

}  // namespace gleaner::platform
