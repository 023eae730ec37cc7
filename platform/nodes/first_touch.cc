#include "platform/nodes/first_touch.h"

#include <cerrno>

#include "platform/nodes/topology.h"
#include "platform/os/lock.h"
#include "platform/os/memory.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {
namespace {

class Touch {
 public:
  Touch(Addr begin, size_t bytes, size_t piece_bytes, unsigned threads)
      : begin_(begin), end_(begin + bytes), piece_(piece_bytes), threads_(threads) {
    const Topology* topology = LoadTopology();
    if (topology != nullptr && topology->is_this_machine) {
      topology_ = topology;
      processor_count_ = static_cast<unsigned>(ForEachProcessor([](int) { return false; }));
    }
    if (threads_ == 0) threads_ = processor_count_ != 0 ? processor_count_ : 1;
    if (threads_ > kMaxTouchingThreads) threads_ = kMaxTouchingThreads;
    if (piece_ == 0) piece_ = bytes / threads_ + (bytes % threads_ != 0 ? 1 : 0);
  }

  int Run() {
    // More threads than processors would wait for each other.
    const unsigned wanted = threads_ < processor_count_ ? threads_ : processor_count_;
    unsigned started = 0;
    for (; started < wanted; ++started) {
      running_.FetchAdd(1, memory_order_seq_cst);
      if (StartHelperThread(Main, this)) continue;
      running_.FetchSub(1, memory_order_seq_cst);
      RecordError(EAGAIN);
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
      const unsigned share = next_.Take();
      if (share >= threads_) return;
      if (binds) KeepOn(ProcessorAt(uint64_t{share} * processor_count_ / threads_));
      const size_t all = end_ - begin_;
      if (share != 0 && (all - 1) / share < piece_) continue;  // its first piece begins behind
      for (size_t at = share * piece_;;) {
        const Addr from = begin_ + at;
        const int error = TouchPiece(from, all - at < piece_ ? end_ : from + piece_);
        if (error != 0) return RecordError(error);
        if ((all - at - 1) / threads_ < piece_) break;
        at += piece_ * threads_;
      }
    }
  }

  // Calls f(processor) for the processors in the order of the nodes, until it returns true. Returns
  // for how many it has returned false.
  template <class F>
  size_t ForEachProcessor(F f) const {
    size_t before = 0;
    const NodeSet& nodes = topology_->processor_nodes;
    for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
      const ProcessorSet& of_node = topology_->ProcessorsOf(node);
      for (int cpu = of_node.First(); cpu >= 0; cpu = of_node.Next(cpu), ++before) {
        if (f(cpu)) return before;
      }
    }
    return before;
  }

  int ProcessorAt(uint64_t index) const {
    int found = 0;
    ForEachProcessor([&](int cpu) { return found = cpu, index-- == 0; });
    return found;
  }

  void KeepOn(int processor) {
    ProcessorSet one;
    one.Add(processor);
    if (!SetAffinity(0, one)) RecordError(errno);
  }

  // Touches the OS pages that begin in [from, to); the first page of all, too, if it begins before.
  int TouchPiece(Addr from, Addr to) const {
    const size_t os_page = OsPageBytes();
    const Addr first = from == begin_ ? AlignDown(from, os_page) : AlignUp(from, os_page);
    const Addr end = AlignUp(to, os_page);
    return first < end ? MakeResident(PointerAt<void>(first), end - first) : 0;
  }

  void RecordError(int error) {
    int none = 0;
    error_.CompareExchange(none, error, memory_order_seq_cst);
  }

  const Addr begin_;
  const Addr end_;
  size_t piece_;
  unsigned threads_;
  const Topology* topology_ = nullptr;  // of this machine
  unsigned processor_count_ = 0;
  Tickets<unsigned> next_{0};
  Atomic<uint32_t> running_{0};  // threads that may still use this object; Run sleeps on it
  Atomic<int> error_{0};
};

}  // namespace

int FirstTouch(void* p, size_t bytes, size_t piece_bytes, unsigned threads) {
  if (bytes == 0) return 0;
  Touch touch(AddressOf(p), bytes, piece_bytes, threads);
  return touch.Run();
}

}  // namespace gleaner::platform
