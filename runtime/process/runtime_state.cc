#include "runtime/process/runtime_state.h"

#include "platform/os/lock.h"
#include "runtime/process/malloc_support.h"

namespace gleaner::runtime {

constinit MallocSupport g_malloc_support;
constinit bool g_unprepared_child = false;

namespace {

// kNot becomes kHeld and kNot again while a thread forks, so that no child has half of a start
// whose thread it does not have.
enum State : uint32_t { kNot, kHeld, kRunning, kDone };
constinit platform::Atomic<uint32_t> g_state{kNot};
constinit __thread bool t_starts = false;       // this thread has made it kRunning
constinit __thread bool t_holds_start = false;  // this thread forks, and has made it kHeld

bool Change(State from, State to) {
  uint32_t expected = from;
  return g_state.CompareExchange(expected, to, platform::memory_order_seq_cst);
}

// Waits while another thread starts the runtime or holds the start back.
void AwaitChange() {
  // Relaxed: the caller looks again.
  const uint32_t state = g_state.Load(platform::memory_order_relaxed);
  if (state == kRunning || state == kHeld) platform::FutexWait(&g_state, state);
}

}  // namespace

void Init() {
  if (!IsInitialised()) kWholeRuntime.start();
}

// Acquire: pairs with the release store in EndStart.
bool IsInitialised() { return g_state.Load(platform::memory_order_acquire) == kDone; }

bool IsInitialisationCalled() {
  return g_state.Load(platform::memory_order_relaxed) >= kRunning;  // a hint
}

bool BeginStart() {
  // A thread that forks may be the first to allocate, in a fork handler of the program's.
  while (!Change(t_holds_start ? kHeld : kNot, kRunning)) {
    AwaitChange();
    if (IsInitialised()) return false;
  }
  return t_starts = true;
}

void EndStart(bool is_done) {
  // Release: pairs with IsInitialised, so that a thread that sees kDone sees all that was set up.
  g_state.Store(is_done ? kDone : kNot, platform::memory_order_release);
  platform::FutexWakeAll(&g_state);
}

bool HasBegunStart() { return t_starts; }

void HoldStart() {
  // A handler that has interrupted either of the two must not wait for its own thread.
  while (!IsInitialised() && !t_starts && !t_holds_start) {
    if (Change(kNot, kHeld)) {
      t_holds_start = true;
      return;
    }
    AwaitChange();
  }
}

void LetStart() {
  if (!t_holds_start) return;
  t_holds_start = false;
  if (Change(kHeld, kNot)) platform::FutexWakeAll(&g_state);
}

}  // namespace gleaner::runtime
