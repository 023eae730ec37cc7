// Atomics whose read-modify-writes can be counted.
//
// The allocation fast path must not execute an atomic read-modify-write; the verify
// build counts them per thread so that a test can say so. Every call names its memory order, and
// every order weaker than seq_cst is explained at the site or in docs/memory_ordering.md.
#pragma once

#include <atomic>

#include "platform/base.h"

namespace gleaner::platform {

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

#ifdef GLEANER_VERIFY
// Atomic read-modify-writes executed by this thread so far.
extern thread_local uint64_t t_atomic_rmw_count;
// Not checked for null by UBSan: GCC branches on the flags of the addition that makes the address,
// and the linker may turn that into a lea, which sets none. Inlined it would be checked.
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

  T Load(std::memory_order order) const { return value_.load(order); }
  void Store(T value, std::memory_order order) { value_.store(value, order); }

  T Exchange(T value, std::memory_order order) {
    CountAtomicRmw();
    return value_.exchange(value, order);
  }
  T FetchAdd(T value, std::memory_order order) {
    CountAtomicRmw();
    return value_.fetch_add(value, order);
  }
  T FetchSub(T value, std::memory_order order) {
    CountAtomicRmw();
    return value_.fetch_sub(value, order);
  }
  // On failure `expected` gets the value found, read with memory_order_acquire.
  bool CompareExchange(T& expected, T desired, std::memory_order order) {
    CountAtomicRmw();
    return value_.compare_exchange_strong(expected, desired, order, std::memory_order_acquire);
  }

  // The word itself, for futex calls.
  std::atomic<T>* raw() { return &value_; }

 private:
  std::atomic<T> value_{};
};

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace gleaner::platform
