// Locks with a rank, and the futex calls with which the locks and the stop-the-world protocol
// sleep.
//
// Rank rule [inv.lock-rank]: a thread takes locks in strictly rising rank. The ranks are the whole
// lock order of the library; the verify build checks it at every Acquire. Holding a lock of rank
// kHeaps or above is a critical section (critical.h): its holder cannot be stopped, so the
// collector may take it while the world is stopped.
//
// Cancellation [inv.no-cancel-under-lock]: a thread that holds a lock of rank kCollector or
// kThreads is not cancelled, whatever it calls, the program's callbacks included: file operations
// and messages are cancellation points. Under the other locks no cancellation point is called.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/cancellation.h"
#include "platform/os/critical.h"

namespace gleaner::platform {

enum class LockRank : uint8_t {
  kCollector = 1,         // one collection, registration or change of roots at a time
  kThreads = 2,           // the list of threads
  kHeaps = 3,             // creation and adoption of thread heaps
  kSlots = 4,             // the pages of one slot heap, or the shelf of spans (malloc/)
  kOwner = 5,             // one thread heap's free pages
  kScannedSpace = 6,      // the page space of pages that may hold pointers
  kPointerFreeSpace = 7,  // the page space of pointer-free pages
  kCommit = 8,            // the frontiers of committed memory
  kDebugged = 9,          // the objects of the GC_debug_ calls
  kMeta = 10,             // metadata memory
  kLog = 11,              // the statistics stream
  kSamples = 12,          // the samples of the heap profile
  kArenaTable = 13,       // the table of arenas
  kArena = 14,            // one arena
  kTracking = 15,         // the descriptors of write tracking
  kReservations = 16,     // the list of reservations (memory.h)
};

// Sleeps while *word == expected; may return early.
void FutexWait(Atomic<uint32_t>* word, uint32_t expected);
// The same, but gives up after `timeout_ns`. False on time-out.
bool FutexWaitFor(Atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);
void FutexWake(Atomic<uint32_t>* word, int waiters);
// Sleeps for `ns`, by a call that a filter of system calls has to allow anyway (filters.h); may
// return early.
void FutexSleep(uint64_t ns);
inline void FutexWakeAll(Atomic<uint32_t>* word) { FutexWake(word, INT32_MAX); }

class Lock {
 public:
  constexpr explicit Lock(LockRank rank) : rank_(rank) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void Acquire() {
    CheckRank();
    AcquireAmongEquals();
  }
  // Acquire for a caller that may hold other locks of the same rank. For the one thread that takes
  // all of them before a fork.
  void AcquireAmongEquals() {
    Enter();
    RecordWanted();
    uint32_t free = kFree;
    // Acquire pairs with the release exchange in Release.
    if (GLEANER_UNLIKELY(!state_.CompareExchange(free, kHeld, memory_order_acquire))) AcquireSlow();
    RecordHeld();
  }
  bool TryAcquire() {
    Enter();
    RecordWanted();
    uint32_t free = kFree;
    if (!state_.CompareExchange(free, kHeld, memory_order_acquire)) {  // pairs with Release
      RecordNotWanted();
      Leave();
      return false;
    }
    RecordHeld();
    return true;
  }
  // Acquire that gives up after `timeout_ns`: false then. pre: the rank is below kHeaps.
  bool AcquireWithin(uint64_t timeout_ns);
  // Returns whether another thread may have been waiting. That thread need not get the lock before
  // the caller takes it again.
  bool Release() {
    RecordReleased();
    // Release pairs with the acquire in Acquire.
    const bool contended = state_.Exchange(kFree, memory_order_release) == kContended;
    if (contended) FutexWake(&state_, 1);
    RecordNotWanted();
    Leave();
    return contended;
  }
  // Makes the lock free in a forked child, where the holder may not exist.
  void ResetAfterFork() { state_.Store(kFree, memory_order_seq_cst); }
  // Whether a thread sleeps until the lock is free.
  bool IsAwaited() const { return state_.Load(memory_order_relaxed) == kContended; }  // a hint
  bool IsHeld() const { return state_.Load(memory_order_relaxed) != kFree; }          // a hint only
#ifdef GLEANER_VERIFY
  // Whether the calling thread holds this lock or another of its rank. For tests;
  // async-signal-safe.
  bool IsHeldByCaller() const;
#endif

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;

  bool DefersStop() const { return rank_ >= LockRank::kHeaps; }
  void Enter() { DefersStop() ? EnterCritical() : EnterUncancellable(); }
  void Leave() { DefersStop() ? LeaveCritical() : LeaveUncancellable(); }
  void AcquireSlow();
#ifdef GLEANER_VERIFY
  void CheckRank() const;
  void RecordHeld() const;
  void RecordReleased() const;
  void RecordWanted() const;
  void RecordNotWanted() const;
#else
  void CheckRank() const {}
  void RecordHeld() const {}
  void RecordReleased() const {}
  void RecordWanted() const {}
  void RecordNotWanted() const {}
#endif

  Atomic<uint32_t> state_{kFree};
  const LockRank rank_;
};

// Whether the calling thread may hold a lock or is in a critical section. Async-signal-safe: a
// signal handler asks this about the code that it has interrupted.
inline bool IsInSection() { return t_critical.depth != 0 || IsUncancellable(); }

#ifdef GLEANER_VERIFY
// Whether the calling thread may hold a lock of rank kHeaps or above: true from before it takes the
// lock until after it has released it. For tests (platform/faults/delays.h).
bool HoldsDeferringLock();
#endif

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock) { lock_.Acquire(); }
  ~LockGuard() { lock_.Release(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace gleaner::platform
