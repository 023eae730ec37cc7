#include "platform/os/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "platform/os/clock.h"
#include "platform/os/stalls.h"

namespace gleaner::platform {

#ifdef GLEANER_VERIFY
thread_local uint64_t t_atomic_rmw_count = 0;

namespace {
// Bit r is set while this thread holds a lock of rank r.
thread_local uint32_t t_held_ranks = 0;
// Bit r is set from before this thread tries to take a lock of rank r until after it has released
// the lock.
thread_local uint32_t t_wanted_ranks = 0;
}  // namespace

void Lock::CheckRank() const {
  const uint32_t bit = 1u << static_cast<uint32_t>(rank_);
  GLEANER_CHECK(t_held_ranks < bit, "[inv.lock-rank] taking rank %u while holding ranks 0x%x",
                static_cast<unsigned>(rank_), t_held_ranks);
}
void Lock::RecordHeld() const { t_held_ranks |= 1u << static_cast<uint32_t>(rank_); }
void Lock::RecordReleased() const { t_held_ranks &= ~(1u << static_cast<uint32_t>(rank_)); }
void Lock::RecordWanted() const { t_wanted_ranks |= 1u << static_cast<uint32_t>(rank_); }
void Lock::RecordNotWanted() const { t_wanted_ranks &= ~(1u << static_cast<uint32_t>(rank_)); }

bool Lock::IsHeldByCaller() const {
  return (t_held_ranks >> static_cast<uint32_t>(rank_) & 1) != 0;
}

bool HoldsDeferringLock() {
  return t_wanted_ranks >= 1u << static_cast<uint32_t>(LockRank::kHeaps);
}
#endif

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer delays a signal until the thread makes a call that ThreadSanitizer knows, and a
// futex call is not known. So waits are short, and LetSignalsIn makes a known call after each.
namespace {
constexpr uint64_t kLongestWaitNs = 10'000'000;
void LetSignalsIn() {
  const timespec none{0, 0};
  nanosleep(&none, nullptr);
}
}  // namespace

void FutexWait(Atomic<uint32_t>* word, uint32_t expected) {
  (void)FutexWaitFor(word, expected, kLongestWaitNs);
}
#else
namespace {
void LetSignalsIn() {}
}  // namespace

void FutexWait(Atomic<uint32_t>* word, uint32_t expected) {
  const int saved = errno;
  syscall(SYS_futex, word->raw(), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
  errno = saved;
}
#endif

bool FutexWaitFor(Atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns) {
  const int saved = errno;
  const timespec timeout{static_cast<time_t>(timeout_ns / 1000000000u),
                         static_cast<long>(timeout_ns % 1000000000u)};
  const long rc =
      syscall(SYS_futex, word->raw(), FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
  const bool timed_out = rc != 0 && errno == ETIMEDOUT;
  LetSignalsIn();
  errno = saved;
  return !timed_out;
}

void FutexWake(Atomic<uint32_t>* word, int waiters) {
  const int saved = errno;
  syscall(SYS_futex, word->raw(), FUTEX_WAKE_PRIVATE, waiters, nullptr, nullptr, 0);
  errno = saved;
}

void FutexSleep(uint64_t ns) {
  Atomic<uint32_t> word{0};  // no thread wakes it
  (void)FutexWaitFor(&word, 0, ns);
}

void Lock::AcquireSlow() {
  StallScope stall(DefersStop() ? StallCause::kAllocation : StallCause::kWait);
  for (int spin = 0; spin < 100; ++spin) {
    uint32_t free = kFree;
    if (state_.Load(memory_order_relaxed) == kFree &&  // a hint; the exchange decides
        state_.CompareExchange(free, kHeld, memory_order_acquire)) {  // pairs with Release
      return;
    }
    CpuRelax();
  }
  // Acquire: pairs with the release in Release. kContended makes the holder wake a waiter.
  while (state_.Exchange(kContended, memory_order_acquire) != kFree) FutexWait(&state_, kContended);
}

bool Lock::AcquireWithin(uint64_t timeout_ns) {
  CheckRank();
  GLEANER_DCHECK(!DefersStop(), "a lock that defers stops is waited for without a limit");
  EnterUncancellable();
  RecordWanted();
  const uint64_t begin_ns = NowNs();
  // Acquire: pairs with the release in Release. A thread that gives up leaves kContended behind: at
  // worst the holder makes a needless wake-up call.
  while (state_.Exchange(kContended, memory_order_acquire) != kFree) {
    const uint64_t waited_ns = NowNs() - begin_ns;
    if (waited_ns >= timeout_ns) {
      RecordNotWanted();
      LeaveUncancellable();
      return false;
    }
    FutexWaitFor(&state_, kContended, timeout_ns - waited_ns);
  }
  RecordHeld();
  return true;
}

}  // namespace gleaner::platform
