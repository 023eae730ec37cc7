#include "platform/os/filters.h"

#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>

#include "platform/loader/mappings.h"
#include "platform/os/atomic.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/os/raw_call.h"

namespace gleaner::platform {

namespace {
// The filters that the program has installed or is about to. Relaxed, all accesses: the lock of the
// steps publishes the number (filters.h).
constinit Atomic<uint32_t> g_filters{0};
constinit Atomic<void (*)()> g_start{nullptr};
constinit Atomic<void (*)()> g_await_steps{nullptr};
constinit Atomic<const ForkHandlers*> g_fork_handlers{nullptr};
}  // namespace

void NoteFilter() {
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
  g_start.Store(start, memory_order_relaxed);  // as in NoteFilter
}

void SetAwaitSteps(void (*await)()) {
  // Release: pairs with NoteFilter, so that the lock is initialised.
  g_await_steps.Store(await, memory_order_release);
}

void SetForkHandlers(const ForkHandlers* handlers) {
  g_fork_handlers.Store(handlers, memory_order_release);  // pairs with Fork
}

bool HasAnyFilter() { return HasFilter() || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0; }

}  // namespace gleaner::platform

// prctl and syscall, interposed: a filter is noted before it is installed. Both do what the C
// library's functions do.

// Not under ThreadSanitizer, which calls these functions before instrumented code may run.
#ifndef __SANITIZE_THREAD__

namespace {

bool InstallsFilter(long number, long a) {
  if (number == SYS_prctl) return a == PR_SET_SECCOMP;
  return number == SYS_seccomp && (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER);
}

// Whether the call makes a process with a copy of the memory that goes on on the same stack.
bool Forks(long number, long a, long b) {
  switch (number) {
#ifdef SYS_fork
    case SYS_fork:
      return true;
#endif
    case SYS_clone:  // flags, stack
      return (a & CLONE_VM) == 0 && b == 0;
    case SYS_clone3: {  // arguments, bytes
      clone_args arguments = {};
      const size_t known = offsetof(clone_args, stack) + sizeof arguments.stack;
      return static_cast<size_t>(b) >= known &&
             gleaner::platform::CopyIfMapped(&arguments, static_cast<gleaner::Addr>(a), known) ==
                 known &&
             (arguments.flags & CLONE_VM) == 0 && arguments.stack == 0;
    }
    default:
      return false;
  }
}

GLEANER_NOINLINE long Fork(long number, long a, long b, long c, long d, long e) {
  using gleaner::platform::g_fork_handlers;
  using gleaner::platform::RawCall;
  // Acquire: pairs with SetForkHandlers.
  const auto* handlers = g_fork_handlers.Load(gleaner::platform::memory_order_acquire);
  if (handlers == nullptr) return RawCall(number, a, b, c, d, e, 0);
  handlers->before();
  const long result = RawCall(number, a, b, c, d, e, 0);
  (result == 0 ? handlers->after_in_child : handlers->after_in_parent)();
  return result;
}

long Call(long number, long a, long b, long c, long d, long e, long f) {
  using gleaner::platform::RawCall;
  long result;
  if (GLEANER_UNLIKELY(InstallsFilter(number, a)) && !gleaner::platform::MemoryIsAnothers()) {
    gleaner::platform::NoteFilter();
    result = RawCall(number, a, b, c, d, e, f);
    if (result < 0) gleaner::platform::ForgetFilter();
  } else if (GLEANER_UNLIKELY(Forks(number, a, b))) {
    result = Fork(number, a, b, c, d, e);
  } else {
    result = RawCall(number, a, b, c, d, e, f);
  }
  if (GLEANER_UNLIKELY(number == SYS_prlimit64 || number == SYS_setrlimit) && result == 0) {
    gleaner::platform::NoticeAddressSpaceLimit();
  }
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

// Under names of our own in C++, since the system's headers declare both as variadic.
#define GLEANER_REPLACED(name) asm(name) __attribute__((visibility("default")))

extern "C" {
int gleaner_prctl(int option, long a, long b, long c, long d) noexcept GLEANER_REPLACED("prctl");
long gleaner_syscall(long number, long a, long b, long c, long d, long e, long f) noexcept
    GLEANER_REPLACED("syscall");

int gleaner_prctl(int option, long a, long b, long c, long d) noexcept {
  return static_cast<int>(Call(SYS_prctl, option, a, b, c, d, 0));
}

long gleaner_syscall(long number, long a, long b, long c, long d, long e, long f) noexcept {
  return Call(number, a, b, c, d, e, f);
}
}  // extern "C"

#endif  // __SANITIZE_THREAD__
