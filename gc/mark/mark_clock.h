// Where the marker's workers run and wait: on threads, in real time.
//
// The code that decides who marks what (gc/mark/mark_loop.h, gc/mark/work_queue.h,
// gc/mark/termination.h) takes its clock as a parameter. With this one it is the marker's; with the
// virtual clock of tools/predict/virtual_time.h the same code is simulated with any number of
// workers.
#pragma once

#include <sched.h>

#include "observe/events.h"
#include "platform/os/clock.h"
#include "platform/os/lock.h"

namespace gleaner::gc {

inline constexpr int kMaxWorkers = 64;

struct RealClock {
  static constexpr int kMaxWorkers = gc::kMaxWorkers;
  template <class T>
  using Atomic = platform::Atomic<T>;

  // A short wait that keeps the processor.
  static void Relax() {
    for (int i = 0; i < 32; ++i) platform::CpuRelax();
  }
  // Leaves the processor to a thread that waits for it.
  static void Yield() { sched_yield(); }
  static void Wait(Atomic<uint32_t>* word, uint32_t expected) {
    platform::FutexWait(word, expected);
  }
  static void Wake(Atomic<uint32_t>* word, int waiters) { platform::FutexWake(word, waiters); }

  // Lasts while a worker searches for work. Adds its length, in ns, to *idle.
  class IdleSpan {
   public:
    IdleSpan(int worker, uint64_t* idle) : event_(worker), idle_(idle) {}
    ~IdleSpan() { *idle_ += platform::NowNs() - begin_ns_; }
    IdleSpan(const IdleSpan&) = delete;
    IdleSpan& operator=(const IdleSpan&) = delete;

   private:
    const platform::IdleEvent event_;
    uint64_t* const idle_;
    const uint64_t begin_ns_ = platform::NowNs();
  };
};

}  // namespace gleaner::gc
