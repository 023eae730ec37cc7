// Atomics whose read-modify-writes can be counted, and whose operations can be delayed.
//
// The allocation fast path must not execute an atomic read-modify-write; the verify
// build counts them per thread so that a test can say so. Every call names its memory order, and
// every order weaker than seq_cst is explained at the site or in docs/design/invariants.md.
// In the verify build every operation stronger than relaxed may be delayed, before it takes effect
// and after it (platform/faults/delays.h).
#pragma once

#include <atomic>

#include "platform/faults/delays.h"
#include "platform/os/base.h"

namespace gleaner::platform {

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

#ifdef GLEANER_VERIFY
// Atomic read-modify-writes executed by this thread so far.
extern thread_local uint64_t t_atomic_rmw_count;
// Excluded from UBSan's null check: GCC branches on the flags of the addition that makes the
// address, and the linker may turn that addition into a lea, which sets no flags. Not inlined,
// since the caller's check would apply then.
GLEANER_NOINLINE __attribute__((no_sanitize("null"))) inline void CountAtomicRmw() {
  ++t_atomic_rmw_count;
}
inline uint64_t AtomicRmwCount() { return t_atomic_rmw_count; }
#else
inline void CountAtomicRmw() {}
inline uint64_t AtomicRmwCount() { return 0; }
#endif

template <class T>
class Atomic {
 public:
  constexpr Atomic() = default;
  constexpr explicit Atomic(T value) : value_(value) {}

  T Load(std::memory_order order) const {
    const T value = value_.load(order);
    DelayAround(order);  // the value may be out of date when it is used
    return value;
  }
  void Store(T value, std::memory_order order) {
    DelayAround(order);
    value_.store(value, order);
    DelayAround(order);
  }

  T Exchange(T value, std::memory_order order) {
    CountAtomicRmw();
    DelayAround(order);
    const T old = value_.exchange(value, order);
    DelayAround(order);
    return old;
  }
  T FetchAdd(T value, std::memory_order order) {
    CountAtomicRmw();
    DelayAround(order);
    const T old = value_.fetch_add(value, order);
    DelayAround(order);
    return old;
  }
  T FetchSub(T value, std::memory_order order) {
    CountAtomicRmw();
    DelayAround(order);
    const T old = value_.fetch_sub(value, order);
    DelayAround(order);
    return old;
  }
  // On failure `expected` gets the value found, read with memory_order_acquire.
  bool CompareExchange(T& expected, T desired, std::memory_order order) {
    CountAtomicRmw();
    DelayAround(order);
    const bool done =
        value_.compare_exchange_strong(expected, desired, order, std::memory_order_acquire);
    DelayAround(order);
    return done;
  }

  // The word itself, for futex calls.
  std::atomic<T>* raw() { return &value_; }

 private:
  static void DelayAround(std::memory_order order) {
    if (order != memory_order_relaxed) MaybeDelay();
  }

  std::atomic<T> value_{};
};

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Adds to a count that one thread writes and others read.
inline void AddToOwn(uint64_t* count, uint64_t n) {
  __atomic_store_n(count, *count + n, __ATOMIC_RELAXED);  // a number by itself
}

}  // namespace gleaner::platform
