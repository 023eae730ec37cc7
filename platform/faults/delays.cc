#include "platform/faults/delays.h"

#ifdef GLEANER_VERIFY

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace gleaner::platform {

uint32_t g_delay_steps = 0;
__thread StepCall t_step_call __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

constexpr uint64_t kMaxSleepNs = 200'000;

// Used by the owner thread and its signal handlers. A handler that interrupts a draw changes the
// numbers drawn, and nothing else.
struct Draws {
  uint64_t state;       // 0 before the first step
  uint64_t steps_left;  // before the next delay
  uint64_t delays;
};
__thread Draws t_draws __attribute__((tls_model("initial-exec"))) = {0, 0, 0};

__thread void* t_step_context __attribute__((tls_model("initial-exec"))) = nullptr;

uint64_t g_threads = 0;  // threads that have made a step with delays on; accessed relaxed

// Marsaglia's xorshift generator with shifts 13, 7, 17: a state other than 0 never becomes 0.
uint64_t Draw() {
  uint64_t x = t_draws.state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return t_draws.state = x;
}

void Delay() {
  const int saved = errno;
  const uint64_t draw = Draw() >> 8;
  if (draw % 4 != 0) {
    // Several yields, since the scheduler often returns to the thread after one.
    for (uint64_t turn = 0; turn <= draw / 4 % 4; ++turn) syscall(SYS_sched_yield);
  } else {
    const timespec time{0, static_cast<long>(draw / 4 % kMaxSleepNs + 1000)};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr);  // a signal may end it
  }
  errno = saved;
}

}  // namespace

void SetDelays(uint32_t steps) { __atomic_store_n(&g_delay_steps, steps, __ATOMIC_RELAXED); }

uint64_t DelayCount() { return t_draws.delays; }

void CallAtSteps(StepCall call, void* context) {
  t_step_context = context;
  t_step_call = call;
}

void CountStep() {
  if (t_step_call != nullptr) {
    const int saved = errno;
    const StepCall call = t_step_call;
    t_step_call = nullptr;  // so that steps of the call do not call it
    call(t_step_context);
    t_step_call = call;
    errno = saved;
    return;
  }
  if (t_draws.state == 0) {
    // Relaxed: only uniqueness counts. Odd, so that it is not 0.
    t_draws.state = Mix64(__atomic_add_fetch(&g_threads, 1, __ATOMIC_RELAXED)) | 1;
  }
  if (t_draws.steps_left != 0) {
    --t_draws.steps_left;
    return;
  }
  const uint64_t steps = __atomic_load_n(&g_delay_steps, __ATOMIC_RELAXED);  // by itself
  // `steps` on average, this one included.
  t_draws.steps_left = steps < 2 ? 0 : Draw() % (2 * steps - 1);
  ++t_draws.delays;
  Delay();
}

}  // namespace gleaner::platform

#endif
