// Threads that allocate wait while the end of a cycle is urgent: docs/design/concurrent_cycle.md,
// "Who is throttled".
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace gleaner::gc {

// How urgent the end of the cycle is to threads that allocate. It rises within a cycle, and is
// kNone when the cycle is ready or over.
//   kNone      the marking keeps up: threads run undisturbed
//   kPressing  the marking does not keep up: threads leave most processor time to it
//   kClosing   threads that allocate wait, so that the cycle ends: marking is in its last rounds,
//              the allowance is used up, or the whole cycle is expected to be short
enum class Urgency : uint32_t { kNone, kPressing, kClosing };

class Throttle {
 public:
  // Any thread, as a hint.
  Urgency urgency() const {
    return static_cast<Urgency>(urgency_.Load(platform::memory_order_relaxed));  // a hint
  }
  // At a poll. With kPressing the caller waits five times as long as it has run since its last
  // wait, with kClosing the maximum; in any case not beyond a change of the urgency. The caller
  // counts as blocked meanwhile, and the markers can use its processor. Any mutator, not in a
  // critical section.
  void Wait(Addr stack_pointer);

  // --- Guarded by the collector lock. ---
  // Makes the urgency at least `urgency`.
  void Raise(Urgency urgency);
  // The urgency is kNone again, and all throttled mutators wake.
  void End();
  // The same where no mutator is throttled.
  void Reset() { urgency_.Store(0, platform::memory_order_relaxed); }  // nobody sleeps on it

 private:
  platform::Atomic<uint32_t> urgency_{0};  // throttled mutators sleep on it
};

}  // namespace gleaner::gc
