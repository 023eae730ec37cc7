// Detects the end of marking: every worker is idle.
//
// A worker is idle only while its stack, batch, ring and queue are empty and it has no pending
// words, and it turns busy *before* it takes work from another worker's queue. So if all workers
// are idle at one instant, there is no work and no worker that could make any [inv.termination].
//
// kStates, the non-serialising detector (thesis: a termination test without a shared bottleneck):
// each worker has a counter in a cache line of its own, odd while idle, incremented at each change.
// The detector reads all counters twice. If all are odd and none has changed between the two
// rounds, there was an instant at which all workers were idle. Only the detecting worker reads the
// other workers' cache lines.
//
// kCounter, for comparison: one shared count of busy workers.
//
// Call order: Reset before a job. Then each worker calls SetBusy and SetIdle in turn for itself,
// and any worker calls AllIdle.
#pragma once

#include "gc/mark/mark_clock.h"

namespace gleaner::gc {

enum class TerminationMethod : uint8_t { kStates, kCounter };

template <class Clock>
class TerminationOf {
  template <class T>
  using Atomic = typename Clock::template Atomic<T>;

 public:
  // Before the workers start. All workers begin idle.
  void Reset(TerminationMethod method, int workers) {
    method_ = method;
    workers_ = workers;
    busy_.Store(0, platform::memory_order_seq_cst);
    // Most are idle, on lines that other processors have: those are not fetched one after the
    // other. Relaxed: nobody writes now.
    for (int i = 0; i < workers; ++i) {
      if (states_[i].count.Load(platform::memory_order_relaxed) % 2 == 0) {
        states_[i].count.Store(1, platform::memory_order_seq_cst);
      }
    }
  }

  // pre: the worker is idle.
  void SetBusy(int worker) { Change(worker, +1); }
  // pre: the worker is busy and has no work left.
  void SetIdle(int worker) { Change(worker, -1); }

  // Whether all workers were idle at some instant since the call began.
  bool AllIdle() const {
    if (method_ == TerminationMethod::kCounter)
      return busy_.Load(platform::memory_order_seq_cst) == 0;
    uint64_t seen[Clock::kMaxWorkers];
    for (int i = 0; i < workers_; ++i) {
      seen[i] = states_[i].count.Load(platform::memory_order_seq_cst);
      if (seen[i] % 2 == 0) return false;
    }
    for (int i = 0; i < workers_; ++i) {
      if (states_[i].count.Load(platform::memory_order_seq_cst) != seen[i]) return false;
    }
    return true;
  }

 private:
  void Change(int worker, int busy) {
    if (method_ == TerminationMethod::kCounter) {
      if (busy > 0) {
        busy_.FetchAdd(1, platform::memory_order_seq_cst);
      } else {
        busy_.FetchSub(1, platform::memory_order_seq_cst);
      }
      return;
    }
    auto& count = states_[worker].count;
    // Relaxed load: only this worker writes its counter. seq_cst store: the worker must be visible
    // as busy before the steal that follows.
    count.Store(count.Load(platform::memory_order_relaxed) + 1, platform::memory_order_seq_cst);
  }

  struct alignas(kCacheLineBytes) State {
    Atomic<uint64_t> count{1};
  };

  TerminationMethod method_ = TerminationMethod::kStates;
  int workers_ = 0;
  alignas(kCacheLineBytes) Atomic<int64_t> busy_{0};
  State states_[Clock::kMaxWorkers];
};

using Termination = TerminationOf<RealClock>;

}  // namespace gleaner::gc
