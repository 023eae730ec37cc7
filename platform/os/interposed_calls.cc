#include "platform/os/interposed_calls.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "platform/os/atomic.h"
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/os/raw_call.h"
#include "platform/os/readable.h"

namespace gleaner::platform {

namespace {
constinit Atomic<const ForkHandlers*> g_fork_handlers{nullptr};
}  // namespace

void SetForkHandlers(const ForkHandlers* handlers) {
  g_fork_handlers.Store(handlers, memory_order_release);  // pairs with Fork
}

}  // namespace gleaner::platform

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
    gleaner::platform::RecordFilter();
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
