// What the operating system and the C library know of a thread: its stack, its thread-local
// storage.
#pragma once

#include <pthread.h>

#include "platform/atomic.h"
#include "platform/base.h"

struct sigevent;

namespace gleaner::platform {

struct Range {
  Addr begin = 0;
  Addr end = 0;
  bool Contains(Addr a) const { return a - begin < end - begin; }
  size_t bytes() const { return end - begin; }
};

int32_t CurrentThreadId();

// Stack of the calling thread, [lowest usable address, address above the first frame). May call
// malloc; not for signal handlers.
Range CurrentStackBounds();

// Whether an address lies in a frame of the calling thread, on the stack that the system or the C
// library gave it. Costs little if not; else it may call malloc.
bool IsOnOwnStack(const void* p);

// The end of the calling thread's alternate signal stack if the address is in it, else 0; also 0 if
// that stack has disarmed itself (SS_AUTODISARM). Async-signal-safe.
Addr AlternateStackEnd(Addr stack_pointer);

// Code may use this much below the stack pointer without moving it: the red zone.
#if defined(__x86_64__)
inline constexpr size_t kRedZoneBytes = 128;
#else
inline constexpr size_t kRedZoneBytes = 0;
#endif

// The part of an alternate signal stack that is in use: calls f(context, low) for each stack that
// was interrupted for a handler on it, where `low` is the lowest address in use there. It is known
// from what the system has saved, and recognised by the description of the alternate stack, so
// words that look the same are taken for it, too. The thread must be the caller or stopped.
void VisitInterruptedStacks(Range alternate, void (*f)(void* context, Addr low), void* context);

inline Addr CurrentThreadPointer() { return AddressOf(__builtin_thread_pointer()); }

// What a thread holds from here on for as long as it lives. Others see by it that the thread has
// ended, however it ended, also if its number is another's by now: the system says so of a robust
// mutex before it tells anybody else. Lies in memory that outlives the thread.
class LifeMark {
 public:
  // The thread itself; for a thread that was forked, once more in the child.
  void Take();
  void Release();
  // Any other thread, one at a time. pre: taken.
  bool HolderHasEnded();

 private:
  pthread_mutex_t mutex_;
};

// The function of that name behind this library in the search order; the C library's own if that
// comes before us, as where a program links it first. Never this library's. Aborts if there is
// none.
void* NextFunction(const char* name);

// Whether the C library starts a thread for the event (SIGEV_THREAD).
bool NotifiesByThread(const sigevent& event);

// The C library's pthread_create, never an interposed one. Same contract.
int RealPthreadCreate(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                      void* argument);

// Starts a detached thread that blocks all signals and is not known to the thread registry. False
// if the system refuses.
bool StartHelperThread(void* (*start)(void*), void* argument);

// Processors this process may use: the affinity mask, further bounded by the cgroup's quota
// (rounded up). At least 1. Reads files; for start-up.
int UsableCpuCount();

// Keeps a helper thread off the processor of whoever wakes it. A scheduler that wakes a thread
// while all processors are busy may queue it behind its waker; if another falls idle a moment
// later, the helper still waits for the next balancing, some 4 ms.
//
// Announce is for the helper, once; KeepOffThisCpu for one waker at a time. A change of the
// helper's affinity from outside is respected.
class HelperPlacement {
 public:
  void Announce();
  void KeepOffThisCpu();
  // In a forked child: the helper does not exist.
  void Forget();

 private:
  Atomic<int32_t> tid_{0};  // written by the helper
  // The waker only.
  int kept_off_ = 0;         // one more than the processor that we took away, or 0
  uint64_t set_digest_ = 0;  // of the mask that we set, to see whether it is still in force
};

// Thread-local storage. A thread has one static block, which holds the variables of the objects
// that were there when the program started, and in its surplus those of objects loaded later whose
// code needs them there (initial-exec). The others have a block each, which the thread's table
// (glibc's DTV) leads to.

// One module's variables in blocks of their own.
struct TlsModule {
  size_t id;     // index in a thread's table of blocks
  size_t bytes;  // size of the block
};

// The static block of the calling thread, with the surplus; empty if the C library does not tell
// its size.
Range CurrentStaticTls();

// A thread's table of blocks, read once. The table and what it leads to may be out of date, which
// its owner alone changes: it may be stopped just as it replaces its table, and the block of an
// object that was unloaded stays in the table, under a number that another object may have by now,
// until the owner uses that one. So both are read by CopyIfMapped, and what is read of a block
// beyond its end is somebody else's. The thread must be the caller or stopped.
class TlsTable {
 public:
  explicit TlsTable(Addr thread_pointer);
  // Where the module's block begins; 0 if the thread has none.
  Addr BlockOf(size_t module) const;

 private:
  struct Entry {
    Addr block;
    Addr to_free;
  };
  static constexpr size_t kWindow = 64;

  Addr table_;
  size_t read_ = 0;        // entries in the window
  Entry window_[kWindow];  // from entry -1 on
};

// Compares the tables with what the C library says for the calling thread, for every module that
// has a block. False if the layout is not the one we know; blocks beside the static one cannot be
// scanned then.
bool TlsLayoutIsKnown();

}  // namespace gleaner::platform
