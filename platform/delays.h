// Delays that make races likely: in the verify build, threads may be held up at every step that
// others may see.
//
// What a protocol forbids happens only if one thread is caught between two steps while another
// makes its own. Such a gap is a few instructions long, so tests seldom fall into it. With delays
// on, one in so many steps takes as long as a time slice, whatever the step is: an atomic operation
// stronger than relaxed (platform/atomic.h), a lock, and where else MaybeDelay stands, between
// steps that are plain accesses or system calls.
//
// Which steps are delayed is drawn from a sequence of each thread's own, which starts from the
// number of the thread's first step among those of all threads. It has no seed to be set: where
// threads meet depends on the system's scheduler, so that no run could be had again by one.
//
// Async-signal-safe, any thread at any time, the world stopped or not: waits for nobody, keeps
// errno, allocates nothing.
//
// A test with a single thread can have each of its steps call a function, which does there what
// another thread might have done, or what the system or a signal may do to the thread at any
// instant (CallAtSteps). What it does is chosen, and can be had again.
#pragma once

#include <cstdint>

#include "platform/base.h"

namespace gleaner::platform {

#ifdef GLEANER_VERIFY

// From here on one step in about `steps` is delayed, by a few turns of other threads or for 1 to
// 200 us. 0: none, as at first. Any thread.
void SetDelays(uint32_t steps);

// Delays of the calling thread so far.
uint64_t DelayCount();

// From here on the calling thread calls `call` at each of its steps in place of being delayed, but
// not at those that the call itself makes; null ends that, as at first. The call must not block on
// what the thread holds at the step (platform::HoldsDeferringLock), nor call this. errno is kept.
// For tests.
using StepCall = void (*)(void* context);
void CallAtSteps(StepCall call, void* context);

extern uint32_t g_delay_steps;  // relaxed: nothing is published by it
extern __thread StepCall t_step_call;
void CountStep();

inline void MaybeDelay() {
  if (GLEANER_UNLIKELY(__atomic_load_n(&g_delay_steps, __ATOMIC_RELAXED) != 0 ||
                       t_step_call != nullptr)) {
    CountStep();
  }
}

#else
inline void SetDelays(uint32_t) {}
inline uint64_t DelayCount() { return 0; }
inline void MaybeDelay() {}
#endif

}  // namespace gleaner::platform
