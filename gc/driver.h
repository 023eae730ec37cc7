// The thread that leads the concurrent cycles: a helper, no mutator. It has no heap, is
// never stopped, and runs no code of the program's.
//
// It sleeps until Wake, then calls its step until that says there is nothing to do. A wake-up in
// the meantime is not lost: the number of wake-ups is read before the first step.
#pragma once

#include "platform/atomic.h"

namespace gleaner::gc {

class Driver {
 public:
  using Step = bool (*)(void* context);  // true: call again at once

  // Starts the thread unless it runs. False if the system has refused that, now or before. Guarded
  // by the collector lock; not with the world stopped, as WorkerPool::StartHelpers.
  bool Start(Step step, void* context);
  // Any thread.
  bool running() const { return running_.Load(platform::memory_order_relaxed); }  // a hint
  void Wake();
  // In a forked child, where the thread does not exist. If it is not wanted, it is not started
  // again.
  void ResetAfterFork(bool wanted);

 private:
  static void* Main(void* driver);

  // Constant once the thread runs.
  Step step_ = nullptr;
  void* context_ = nullptr;
  bool refused_ = false;                   // guarded by the collector lock
  platform::Atomic<bool> running_{false};  // written under the collector lock
  platform::Atomic<uint32_t> wakes_{0};    // the thread sleeps on it
};

}  // namespace gleaner::gc
