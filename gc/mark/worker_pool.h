// Threads that help the collector, asleep between jobs.
//
// The calling thread is worker 0 and runs the job itself. Helpers are woken one by one while the
// job runs, and only for work that outweighs the wake-up. Where all are wanted at once, those who
// are awake wake the others, so that the time grows with the logarithm of their number. Helpers are
// no mutators: they block all
// signals, are never stopped and never allocate from the heap. Where there are several memory
// nodes, helpers are divided over them: each keeps to its node once the topology is loaded.
//
// Call order: SetSize and StartHelpers under the collector lock; then for each job Begin, WakeAll
// or WakeOne any number of times, Finish. One thread at a time opens jobs: it has the collector
// lock or the slice of a concurrent cycle.
#pragma once

#include "gc/mark/termination.h"
#include "platform/os/lock.h"
#include "platform/threads/thread.h"

namespace gleaner::gc {

class WorkerPool {
 public:
  using Job = void (*)(void* context, int worker);

  // Sets the maximum of workers, the calling thread included. Guarded by the collector lock.
  void SetSize(int workers) {
    wanted_ = size_ = workers < 1 ? 1 : workers > kMaxWorkers ? kMaxWorkers : workers;
  }
  // Restores the size that SetSize set, which ResetAfterFork and StartHelpers may have reduced.
  void RestoreSize() { size_ = wanted_; }
  int size() const { return size_; }

  // Starts the helper threads that are missing. pre: the world runs, since starting a thread takes
  // locks of the C library that a stopped thread may hold.
  void StartHelpers();

  // Opens a job. The caller then runs its own part and calls Finish, which returns when every woken
  // helper has left the job.
  void Begin(Job job, void* context);
  // Whether WakeOne may succeed: a cheap hint.
  bool CanWake() const {
    // Relaxed: WakeOne decides.
    const int joined = joined_.Load(platform::memory_order_relaxed);
    return joined < started_ && joined + 1 < size_;
  }
  // Wakes one more helper. False if there are `workers` in the job already, worker 0 among them, or
  // all that there may be. Any worker of the job.
  bool WakeOne(int workers = kMaxWorkers);
  // Wakes helpers until there are as many workers. Each helper that has been woken goes on with
  // that before it begins. Worker 0 only, before it runs its own part.
  void WakeAll(int workers = kMaxWorkers);
  void Finish();
  // Workers in the current or the last job. During a job a hint.
  int last_workers() const { return joined_.Load(platform::memory_order_relaxed) + 1; }  // a hint

  // In a forked child, where the helpers do not exist. If `helpers_wanted` is false, marking is
  // serial until RestoreSize.
  void ResetAfterFork(bool helpers_wanted);

 private:
  struct Helper;

  static void* HelperMain(void* argument);
  void Help(int helper);
  // Where there are several memory nodes and they are known by now: keeps the helper on the
  // processors of its node (NodeOfWorker).
  void Bind(Helper& helper) const;

  struct Helper {
    WorkerPool* pool = nullptr;
    int worker = 0;
    platform::HelperPlacement placement;
    bool is_bound = false;               // to a node; the helper only
    platform::Atomic<uint32_t> jobs{0};  // raised to wake the helper, which sleeps on it
  };

  int size_ = 1;       // maximum of workers now
  int wanted_ = 1;     // maximum of workers that SetSize set
  int started_ = 0;    // helpers; guarded by the collector lock, constant during a job
  Job job_ = nullptr;  // constant during a job
  void* context_ = nullptr;
  int wanted_now_ = 0;                     // workers, by WakeAll; constant once a helper is awake
  platform::Atomic<int> joined_{0};        // helpers woken in this job: who raises it wakes one
  platform::Atomic<uint32_t> running_{0};  // helpers in the job; Finish sleeps on it
  Helper helpers_[kMaxWorkers];
};

}  // namespace gleaner::gc
