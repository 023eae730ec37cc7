// Sections in which the calling thread must not be stopped.
//
// While a thread is inside a section, the suspend signal only notes that a stop is wanted; the
// thread parks when it leaves the section. The stopper leaves the same note before it sends
// signals, so a thread that leaves a section soon enough needs no signal: the end of a section is a
// safepoint. Sections nest, are short, never block on anything but a lock of rank kHeaps or above,
// and never call out to the program. Holding such a lock opens a section (lock.h), so the world is
// never stopped while a stopped thread holds one [inv.no-lock-in-stopped-thread].
#pragma once

#include <atomic>

#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace gleaner::platform {

struct CriticalState {
  // The number of open sections. Used by the owner thread and its signal handlers only, hence
  // signal fences and no atomics.
  volatile uint32_t depth;
  // The thread's StopRecord::stop_pending; for a thread without a record, a flag that stays false.
  // The flag is not in thread-local storage, because a thread may end unnoticed while the stopper
  // writes it.
  Hint<bool>* stop_pending;
};

extern __thread CriticalState t_critical;

// Parks the calling thread until the world is resumed. Only for LeaveCritical.
GLEANER_COLD void ParkPending();

inline void EnterCritical() {
  t_critical.depth = t_critical.depth + 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // against the handler, same thread
}

inline void LeaveCritical() {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // against the handler, same thread
  const uint32_t depth = t_critical.depth - 1;
  t_critical.depth = depth;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the handler sees depth 0 or sets pending
  MaybeDelay();
  if (GLEANER_UNLIKELY(depth == 0 && t_critical.stop_pending->Get())) ParkPending();
}

class CriticalSection {
 public:
  CriticalSection() { EnterCritical(); }
  ~CriticalSection() { LeaveCritical(); }
  CriticalSection(const CriticalSection&) = delete;
  CriticalSection& operator=(const CriticalSection&) = delete;
};

}  // namespace gleaner::platform
