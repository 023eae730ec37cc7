// Threads that help the collector, asleep between collections.
//
// The collecting thread is worker 0 and runs the job itself; helpers are woken one by one while the
// job runs, and only for work that outweighs the wake-up. Helpers are no mutators: they block all
// signals, are never stopped and never allocate from the heap.
#pragma once

#include "gc/termination.h"
#include "platform/lock.h"
#include "platform/thread.h"

namespace gleaner::gc {

class WorkerPool {
 public:
  using Job = void (*)(void* context, int worker);

  // Sets how many workers there may be, the caller's own included. Guarded by the collector lock.
  void SetSize(int workers) {
    wanted_ = size_ = workers < 1 ? 1 : workers > kMaxWorkers ? kMaxWorkers : workers;
  }
  // Takes back what ResetAfterFork gave up.
  void RestoreSize() { size_ = wanted_; }
  int size() const { return size_; }

  // Starts the helper threads that are missing. Not with the world stopped: starting a thread takes
  // locks of the C library that a stopped thread may hold.
  void StartHelpers();

  // Opens a job. The caller then runs its own part, may call WakeOne from any worker meanwhile, and
  // calls Finish, which returns when every woken helper has left the job.
  void Begin(Job job, void* context);
  // Whether WakeOne may succeed: a cheap hint.
  bool CanWake() const {
    // Relaxed: WakeOne decides.
    const int joined = joined_.Load(platform::memory_order_relaxed);
    return joined < started_ && joined + 1 < size_;
  }
  // Wakes one more helper; false if all that were started are in the job already. Any worker of the
  // job.
  bool WakeOne();
  void Finish();
  // Workers that take part in this job, so far, or took part in the last one. During a job a hint.
  int last_workers() const {
    return joined_.Load(platform::memory_order_relaxed) + 1;
  }  // see above

  // In a forked child: the helpers do not exist. If they are not wanted, marking is serial from now
  // on.
  void ResetAfterFork(bool helpers_wanted);

 private:
  static void* HelperMain(void* argument);
  void Help(int helper);

  struct Helper {
    WorkerPool* pool = nullptr;
    int worker = 0;
    platform::HelperPlacement placement;
    platform::Atomic<uint32_t> jobs{0};  // raised to wake it; the helper sleeps on it
  };

  int size_ = 1;
  int wanted_ = 1;
  int started_ = 0;    // guarded by the collector lock; constant during a job
  Job job_ = nullptr;  // constant during a job
  void* context_ = nullptr;
  platform::Atomic<int> joined_{0};        // helpers woken in this job; written under wake_
  platform::Atomic<uint32_t> wake_{0};     // 1 while somebody wakes a helper
  platform::Atomic<uint32_t> running_{0};  // helpers in the job; Finish sleeps on it
  Helper helpers_[kMaxWorkers];
};

}  // namespace gleaner::gc
