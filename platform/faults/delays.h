// Delays that make races likely: in the verify build, a thread may be delayed at every step that
// other threads may see.
//
// A race shows only if another thread makes a step while this one is between two steps. Such a gap
// is a few instructions long, so tests seldom hit it. With delays on, one step in N takes as long
// as a time slice. A step is an atomic operation stronger than relaxed (platform/os/atomic.h), a
// lock, or a call of MaybeDelay between plain accesses or system calls.
//
// Each thread draws the steps to delay from a random sequence of its own, which starts from the
// number of threads that have made a step before. There is no seed to set: where threads meet
// depends on the system's scheduler, so a seed could not repeat a run.
//
// Async-signal-safe, any thread at any time, the world stopped or not: waits for nobody, keeps
// errno, allocates nothing.
//
// A test with a single thread can have each of its steps call a function, which does what another
// thread, the system or a signal may do at that instant (CallAtSteps). Such a test is repeatable.
#pragma once

#include <cstdint>

#include "platform/common/units.h"

namespace gleaner::platform {

#ifdef GLEANER_VERIFY

// From here on about one step in `steps` is delayed, by a few yields or for 1 to 200 us. 0, the
// initial value: no step is. Any thread.
void SetDelays(uint32_t steps);

// The number of delays of the calling thread so far.
uint64_t DelayCount();

// From here on the calling thread calls `call` at each of its steps instead of a delay, except at
// steps of the call itself. Null, the initial value, ends that. The call must not block on a lock
// that the thread holds at the step (platform::HoldsDeferringLock), and must not call CallAtSteps.
// Keeps errno. For tests.
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
