// Atomics whose read-modify-writes can be counted, and whose operations can be delayed.
//
// The allocation fast path must not execute an atomic read-modify-write; the verify build counts
// them per thread so that a test can say so. Every call of Atomic names its memory order, and every
// order weaker than seq_cst is explained at the site or in docs/design/invariants.md. In the verify
// build every operation stronger than relaxed may be delayed, before it takes effect and after it
// (platform/faults/delays.h).
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

// The three kinds of relaxed atomics whose reason is their meaning. A field whose order comes from
// a lock, a handshake or the end of a job, which readers rely on, is none of them: it is an Atomic,
// and names its orders.

// A value that stands by itself. Any thread reads it, as advice or as a figure, and concludes
// nothing about other memory: with an old value a thread does something a little early or late, or
// looks again where it matters. The field says who writes it; who holds the lock of the writers
// reads the last value.
template <class T>
class Hint {
 public:
  constexpr Hint() = default;
  constexpr explicit Hint(T value) : value_(value) {}

  T Get() const { return value_.Load(memory_order_relaxed); }
  void Set(T value) { value_.Store(value, memory_order_relaxed); }
  // Returns the value before: of the threads that set a flag, one finds it unset.
  T Exchange(T value) { return value_.Exchange(value, memory_order_relaxed); }

 private:
  Atomic<T> value_;
};

// A number that several threads add to, read for figures and thresholds. No addition is lost. A
// reader may miss the latest ones, and concludes nothing from the number about other memory.
template <class T>
class Count {
 public:
  constexpr Count() = default;
  constexpr explicit Count(T value) : value_(value) {}

  T Get() const { return value_.Load(memory_order_relaxed); }
  // Returns the number after the addition.
  T Add(T n) { return static_cast<T>(value_.FetchAdd(n, memory_order_relaxed) + n); }
  void Subtract(T n) { value_.FetchSub(n, memory_order_relaxed); }
  // Begins again. What others add meanwhile counts before or after it.
  void Set(T value) { value_.Store(value, memory_order_relaxed); }

 private:
  Atomic<T> value_;
};

// Numbers that threads take, each once: pieces of work, slots of a table, identities. What a thread
// writes under its number is published by something else: the end of the job, or the slot's own
// store.
template <class T>
class Tickets {
 public:
  constexpr Tickets() = default;
  constexpr explicit Tickets(T first) : next_(first) {}

  // Takes `n` numbers in a row, and returns the first.
  T Take(T n = 1) { return next_.FetchAdd(n, memory_order_relaxed); }
  // The number that is taken next. Beyond the end of what there is to take: nothing is left.
  T Next() const { return next_.Load(memory_order_relaxed); }
  // pre: no other thread takes. The start of the job shows the threads the new beginning.
  void Restart(T first = 0) { next_.Store(first, memory_order_relaxed); }

 private:
  Atomic<T> next_;
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
