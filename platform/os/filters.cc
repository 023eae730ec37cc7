#include "platform/os/filters.h"

#include <linux/prctl.h>
#include <sys/prctl.h>

#include "platform/os/atomic.h"
#include "platform/os/process.h"

namespace gleaner::platform {

namespace {
// The filters that the program has installed or is about to. Relaxed, all accesses: the lock of the
// steps publishes the number (filters.h).
constinit Atomic<uint32_t> g_filters{0};
constinit Atomic<void (*)()> g_start{nullptr};
constinit Atomic<void (*)()> g_await_steps{nullptr};
}  // namespace

void RecordFilter() {
  // Relaxed: what the function needs is there from the beginning.
  void (*start)() = g_start.Load(memory_order_relaxed);
  if (start != nullptr && !HasFilter()) start();
  g_filters.FetchAdd(1, memory_order_relaxed);  // published by the lock
  // A child of fork may have a copy of the lock whose holder does not exist there.
  void (*await)() = g_await_steps.Load(memory_order_acquire);  // pairs with SetAwaitSteps
  if (await != nullptr && !MemoryIsCopy()) await();
}

void ForgetFilter() { g_filters.FetchSub(1, memory_order_relaxed); }  // published by the lock

bool HasFilter() { return g_filters.Load(memory_order_relaxed) != 0; }  // published by the lock

void SetStartBeforeFilters(void (*start)()) {
  g_start.Store(start, memory_order_relaxed);  // as in RecordFilter
}

void SetAwaitSteps(void (*await)()) {
  // Release: pairs with RecordFilter, so that the lock is initialised.
  g_await_steps.Store(await, memory_order_release);
}

bool HasAnyFilter() { return HasFilter() || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0; }

}  // namespace gleaner::platform
