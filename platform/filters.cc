#include "platform/filters.h"

#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>

#include "platform/atomic.h"
#include "platform/memory.h"
#include "platform/process.h"
#include "platform/raw_call.h"

namespace gleaner::platform {

namespace {
// The filters that the program has installed or is about to. Relaxed, all accesses: the lock of the
// steps publishes the number (filters.h).
constinit Atomic<uint32_t> g_filters{0};
constinit Atomic<void (*)()> g_await_steps{nullptr};
}  // namespace

void NoteFilter() {
  g_filters.FetchAdd(1, memory_order_relaxed);  // published by the lock
  // A child of fork may have a copy of the lock whose holder does not exist there.
  void (*await)() = g_await_steps.Load(memory_order_acquire);  // pairs with SetAwaitSteps
  if (await != nullptr && !MemoryIsCopy()) await();
}

void ForgetFilter() { g_filters.FetchSub(1, memory_order_relaxed); }  // published by the lock

bool HasFilter() { return g_filters.Load(memory_order_relaxed) != 0; }  // published by the lock

void SetAwaitSteps(void (*await)()) {
  // Release: pairs with NoteFilter, so that the lock is initialised.
  g_await_steps.Store(await, memory_order_release);
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

long Call(long number, long a, long b, long c, long d, long e, long f) {
  using gleaner::platform::RawCall;
  long result;
  if (GLEANER_UNLIKELY(InstallsFilter(number, a)) && !gleaner::platform::MemoryIsAnothers()) {
    gleaner::platform::NoteFilter();
    result = RawCall(number, a, b, c, d, e, f);
    if (result < 0) gleaner::platform::ForgetFilter();
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
