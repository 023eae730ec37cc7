// The thread that leads the concurrent cycles. It is no mutator: it has no heap, is never stopped,
// and runs no code of the program.
//
// The thread sleeps until Wake, then calls its step until the step returns false. A Wake during the
// steps is not lost: the thread reads the number of wake-ups before the first step and sleeps only
// if that number has not changed.
#pragma once

#include "platform/os/atomic.h"

namespace gleaner::gc {

class Driver {
 public:
  using Step = bool (*)(void* context);  // true: call again at once

  // Starts the thread unless it runs. False if the system refuses it, or has refused it before.
  // Guarded by the collector lock. pre: the world runs, since a stopped thread may have the lock
  // that starting a thread takes.
  bool Start(Step step, void* context);
  // Any thread.
  bool running() const { return running_.Get(); }
  void Wake();
  // In a forked child, where the thread does not exist. `wanted`: Start may start it again.
  void ResetAfterFork(bool wanted);

 private:
  static void* Main(void* driver);

  // Constant once the thread runs.
  Step step_ = nullptr;
  void* context_ = nullptr;
  bool refused_ = false;                 // guarded by the collector lock
  platform::Hint<bool> running_{false};  // written under the collector lock
  platform::Atomic<uint32_t> wakes_{0};  // the thread sleeps on it
};

}  // namespace gleaner::gc
