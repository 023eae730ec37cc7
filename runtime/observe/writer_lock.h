// The lock of who writes a file: a trace, a heap profile, a snapshot. The holder may be stopped.
//
// Threads try to get it, and wait in short sleeps, so that they can be stopped, too. One that has
// waited long gives up: the holder may never give it back, as when a callback of the program has
// left it by a jump. A child may be forked while another thread of its parent has it: so it is the
// number of the process that has it, and the child gets it.
#pragma once

#include <unistd.h>

#include "platform/os/lock.h"

namespace gleaner::runtime {

class WriterLock {
 public:
  bool TryAcquire() {
    const int self = getpid();
    int holder = 0;
    // Acquire, both: pair with the release in Release.
    return holder_.CompareExchange(holder, self, platform::memory_order_acquire) ||
           (holder != self &&
            holder_.CompareExchange(holder, self, platform::memory_order_acquire));
  }
  // False if that takes `max_moments` of a millisecond.
  [[nodiscard]] bool AcquireWithin(int max_moments) {
    for (int i = 0; !TryAcquire(); ++i) {
      if (i == max_moments) return false;
      platform::FutexSleep(1'000'000);
    }
    return true;
  }
  void Release() { holder_.Store(0, platform::memory_order_release); }

  // The process of the thread that has it; 0: none. Relaxed: of use to a process of one thread.
  int holder() const { return holder_.Load(platform::memory_order_relaxed); }
  // In a forked child, by its only thread. Relaxed: as above.
  void ResetAfterFork() { holder_.Store(0, platform::memory_order_relaxed); }

 private:
  platform::Atomic<int> holder_{0};  // the number of its process; 0: free
};

}  // namespace gleaner::runtime
