#include "gc/cycle/throttle.h"

#include "platform/os/clock.h"
#include "platform/os/lock.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

namespace {

constexpr uint64_t kMaxWaitNs = 3'000'000;
constexpr uint64_t kMinWaitNs = 100'000;  // a shorter wait is omitted

// When the calling thread's last wait ended.
constinit __thread uint64_t t_went_on_ns = 0;

}  // namespace

void Throttle::Wait(Addr stack_pointer) {
  const Urgency hint = urgency();
  if (hint == Urgency::kNone) return;
  uint64_t wait_ns = kMaxWaitNs;
  if (hint == Urgency::kPressing) {
    const uint64_t ran_ns = platform::NowNs() - t_went_on_ns;
    if (ran_ns < wait_ns / 5) wait_ns = ran_ns * 5;
    if (wait_ns < kMinWaitNs) return;
  }
  if (const uint32_t seen = urgency_.Load(memory_order_seq_cst); seen != 0) {
    const platform::BlockingWait section(platform::t_stop_record, stack_pointer);
    platform::FutexWaitFor(&urgency_, seen, wait_ns);
  }
  t_went_on_ns = platform::NowNs();
}

void Throttle::Raise(Urgency urgency) {
  const auto value = static_cast<uint32_t>(urgency);
  if (urgency_.Load(memory_order_relaxed) >= value) return;  // guarded by the lock
  urgency_.Store(value, memory_order_seq_cst);
}

void Throttle::End() {
  urgency_.Store(0, memory_order_seq_cst);
  FutexWakeAll(&urgency_);
}

}  // namespace gleaner::gc
