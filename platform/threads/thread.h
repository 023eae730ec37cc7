// Facts about threads from the operating system and the C library: stacks, thread-local storage,
// processors.
#pragma once

#include <pthread.h>

#include "platform/common/range.h"
#include "platform/os/atomic.h"
#include "platform/os/base.h"

struct sigevent;

namespace gleaner::platform {

int32_t CurrentThreadId();

// The stack of the calling thread: [lowest usable address, address above the first frame). May call
// malloc; not for signal handlers.
Range CurrentStackBounds();

// Whether an address lies in a frame of the calling thread, on the stack that the system or the C
// library gave the thread. The answer no is cheap; for the answer yes the function may call malloc.
bool IsOnOwnStack(const void* p);

// The end of the calling thread's alternate signal stack if `stack_pointer` lies in that stack,
// else 0; also 0 if the stack has disarmed itself (SS_AUTODISARM), or where the program filters
// calls (filters.h). Async-signal-safe.
Addr AlternateStackEnd(Addr stack_pointer);

// Code may use this much below the stack pointer without moving it: the red zone.
#if defined(__x86_64__)
inline constexpr size_t kRedZoneBytes = 128;
#else
inline constexpr size_t kRedZoneBytes = 0;
#endif

// Calls f(context) on the stack that ends at `end`, a multiple of 16. Debuggers and profilers see
// the callers. The system is not told: a handler that wants the alternate stack begins at that
// stack's end, so pre: the caller is not on it.
void CallOnStack(Addr end, void (*f)(void* context), void* context);

// Calls f(context, low) for each stack that was interrupted for a handler on the alternate signal
// stack `alternate`; `low` is the lowest address in use on that stack. The function finds the
// signal frames on the alternate stack by the description of that stack in them; other words that
// look the same count as frames, too. The thread must be the caller or stopped.
void VisitInterruptedStacks(Range alternate, void (*f)(void* context, Addr low), void* context);

// The same for all alternate signal stacks that are arrays in `stack`, where it is not known
// whether there are any; `stack` is in use from `low` on.
void VisitInterruptedStacks(Range stack, Addr low, void (*f)(void* context, Addr low),
                            void* context);

inline Addr CurrentThreadPointer() { return AddressOf(__builtin_thread_pointer()); }

// A mark that a thread holds as long as it lives. It tells other threads that the holder has ended,
// in whatever way, even if another thread has the holder's number by now: the mark is a robust
// mutex, which the system marks before it reports the thread's end elsewhere. The mark lies in
// memory that outlives the thread.
class LifeMark {
 public:
  // Called by the thread itself; in a forked child once more.
  void Take();
  void Release();
  // Any other thread, one at a time. pre: Take has been called.
  bool HolderHasEnded();

 private:
  pthread_mutex_t mutex_;
};

// Whether the C library starts a thread for the event (SIGEV_THREAD).
bool NotifiesByThread(const sigevent& event);

// pthread_create as a call in the program's code finds it: the first in the search order. That may
// be the wrapper of a sanitizer or of a preloaded library, which must see every thread that runs
// its code. The call may lead to this library's own replacement, which passes it on:
// IsCreatingThread.
int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                 void* argument);
// Whether the calling thread is in CreateThread.
bool IsCreatingThread();
// The pthread_create behind this library in the search order; for replacements. Same contract.
int NextPthreadCreate(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                      void* argument);

// A thread has from its creator on which processors it runs, its scheduling policy, priority and
// name. A helper is created by whichever thread needs one first, perhaps one that is bound to a
// processor or runs with a real-time priority. So a helper gets what the process's first thread had
// when the library was loaded (processor_set.h), as far as the system allows: it runs on the same
// processors from its beginning, and sets the rest itself (BeginHelper). It keeps what else threads
// inherit, as a memory policy and filters of system calls.
//
// Notes the policy, the priority and the processors; the first call counts. For a constructor.
void RecordSchedulingOfProcess();

// Looks for ThreadSanitizer in the program; it need not have compiled this library. Once, before
// the functions below; may take the loader's lock.
void FindThreadSanitizer();
bool HasThreadSanitizer();

// Starts a detached thread that blocks all signals and is not known to the thread registry. Its
// stack has room for the thread-local storage that the C library puts there. False if the system
// refuses; the first time with a message.
bool StartHelperThread(void* (*start)(void*), void* argument);
// Called by a helper, first. The name has at most 15 characters. ThreadSanitizer, which does not
// see how this library orders its threads, leaves the accesses of helpers alone.
void BeginHelper(const char* name);

// Processors this process may use (GetAffinityOfProcess), further bounded by the cgroup's quota
// (rounded up). At least 1. Reads files; for start-up.
int UsableCpuCount();

// Keeps a helper thread off the processor of the thread that wakes it. A scheduler that wakes a
// thread while all processors are busy may queue it behind its waker; if another processor falls
// idle a moment later, the helper still waits for the next balancing, some 4 ms.
//
// The helper calls Announce, once; one waker at a time calls KeepOffThisCpu. A change of the
// helper's affinity from outside is respected.
class HelperPlacement {
 public:
  void Announce();
  void KeepOffThisCpu();
  // In a forked child, where the helper does not exist.
  void Forget();

 private:
  Hint<int32_t> tid_{0};  // written by the helper; 0: the waker leaves it where it is
  // Used by the waker only.
  int kept_off_ = 0;         // 1 + the processor removed from the helper's mask, or 0
  uint64_t set_digest_ = 0;  // of the mask set last, to see whether it is still in force
};

// Thread-local storage. A thread has one static block. It holds the variables of the objects
// present when the program started, and in its surplus those of objects loaded later whose code
// needs them there (initial-exec). Every other object has a block of its own in each thread, which
// the thread's table (glibc's DTV) leads to.

// A module whose variables have blocks of their own.
struct TlsModule {
  size_t id;     // index in a thread's table of blocks
  size_t bytes;  // size of the block
};

// The static block of the calling thread, with the surplus; empty if the C library does not tell
// the block's size.
Range CurrentStaticTls();

// A copy of a thread's table of blocks. Only the thread itself updates its table, so the table and
// the blocks may be out of date. The thread may be stopped while it replaces the table. The block
// of an unloaded object stays in the table, under a number that another object may have by now,
// until the thread uses that object. So the table and the blocks are read by CopyIfMapped, and
// words read beyond a block's end belong to other memory. The thread must be the caller or stopped.
class TlsTable {
 public:
  explicit TlsTable(Addr thread_pointer);
  // The beginning of the module's block; 0 if the thread has none.
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

// Compares the calling thread's table with the C library's answers, for every module that has a
// block. False if the table's layout is not the known one; then only the static block can be
// scanned.
bool TlsLayoutIsKnown();

}  // namespace gleaner::platform
