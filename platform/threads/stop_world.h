// Stopping and resuming all other registered threads.
//
// Protocol. The stopper holds the collector lock and the threads lock, so no other stop is under
// way and no thread registers or unregisters. The stopper raises the stop flag (g_stop), then asks
// every other thread. A thread in a blocking section counts as stopped; any other thread finds a
// note at the end of its next critical section and parks there. If every thread has a processor,
// the stopper waits a moment for that; then it sends the suspend signal to the threads that have
// not answered. The signal's handler parks at once, or, inside a critical section, leaves the note
// again. Each parked thread counts itself off; the last one wakes the stopper. ResumeAll lowers the
// flag and wakes all threads with one broadcast. A stop that takes too long is given up and tried
// again.
//
// States of a thread, and which thread changes them:
//   kRunning -> kBlocked -> kRunning   the thread itself (EnterBlocking, LeaveBlocking)
//   kRunning -> kParked -> kRunning    the thread itself (handler, or end of a critical section)
//   kBlocked -> kParked -> kBlocked    the same, if asked just before it entered the section
//   kParked -> kBlocked -> kRunning    the thread itself, if it is suspended alone (Suspend)
//   kBlocked, claimed by a stop        the stopper
//
// A stopper claims a blocked thread: it writes the stop's number into the thread's state word. The
// thread leaves the section by exchanging the word that it has read for kRunning, unless the word
// has a claim of the stop under way. So a thread whose state is kRunning is never taken for
// stopped: see docs/design/invariants.md, Note [blocking].
//
// Handlers of the program [inv.handlers-wait]. The collector reads a stack from the published stack
// pointer upwards. So no handler may run below that pointer: it could take an object out of a
// global that the collector reads later. Wherever a thread parks, or waits in a section that the
// library opens itself, all signals are blocked except faults and the suspend signal
// (HandlersWait). In GC_do_blocking the program promises not to touch the heap, in handlers that
// run meanwhile either.
#pragma once

#include <spawn.h>  // sigset_t; <signal.h> is for .cc files alone

#include "platform/os/atomic.h"
#include "platform/os/critical.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

enum class MutatorState : uint32_t { kRunning, kBlocked, kParked };

// The encoding of StopRecord::state.
class StateWord {
 public:
  static constexpr uint32_t kOneStop = 4;  // the first stop's number; each next one adds this

  // `number` is a multiple of kOneStop. For a blocked thread: the stop that counts it as stopped, 0
  // for none. For a running thread: StopRecord::running.
  static constexpr uint32_t Of(MutatorState state, uint32_t number = 0) {
    return static_cast<uint32_t>(state) | number;
  }
  static constexpr MutatorState State(uint32_t word) {
    return static_cast<MutatorState>(word & (kOneStop - 1));
  }
  static constexpr uint32_t Claim(uint32_t word) { return word & ~(kOneStop - 1); }
};

struct StopRecord {
  // Set at registration, constant afterwards.
  int32_t tid = 0;
  Addr thread_pointer = 0;
  Range stack = {};

  // A StateWord. Written by the thread itself; by the stopper, which claims the thread, if it is
  // blocked.
  Atomic<uint32_t> state{StateWord::Of(MutatorState::kRunning)};
  // The number in the state word while the thread runs (ChangeRunning). Used by the thread only.
  uint32_t running = 0;
  // The lowest address in use on the stack. Written by the thread before it parks or blocks, read
  // while it is stopped.
  Addr stack_pointer = 0;
  // The end of the alternate signal stack if the thread was stopped on one, else 0.
  Addr alternate_stack_end = 0;
  // What the system saved when the suspend signal came: a ucontext_t; null if the thread was
  // stopped without one. Written by the thread before it parks, read while it is stopped.
  const void* signal_context = nullptr;

  // A stop is wanted; `asked` decides. Set by the thread's own handler or the stopper.
  Hint<bool> stop_pending{false};

  // The number of the stop that the thread is asked for, 0 for none. Written by the stopper,
  // consumed by the thread.
  Atomic<uint32_t> asked{0};

  // 1: the thread stays stopped when the world is resumed, and sleeps on this word (Suspend).
  // Raised with the world stopped, so the thread sees it before it runs on.
  Atomic<uint32_t> suspended{0};

  // Called by the thread itself, or with the world stopped; hence relaxed.
  bool IsBlocked() const {
    return StateWord::State(state.Load(memory_order_relaxed)) == MutatorState::kBlocked;
  }
  bool IsParked() const {
    return StateWord::State(state.Load(memory_order_relaxed)) == MutatorState::kParked;
  }
};

// The calling thread's record, null if it is not registered.
extern __thread StopRecord* t_stop_record;
// Sets the calling thread's record; null takes it away.
void AdoptRecord(StopRecord* record);

// The numbers of the signals in use. Set before InstallStopHandler; a later change of the suspend
// signal has no effect. The suspend signal is never shared: if another library has a handler for
// it, at the start or at a later stop (another collector in the process may use the same number),
// the stopper takes another signal.
void SetSuspendSignal(int number);
int SuspendSignal();
void SetRestartSignal(int number);
int RestartSignal();

// Changes the suspend signal if it is the default one. Called when another collector with the same
// default is in the process: that collector may start at any time, also between the last check of
// the handler and the signal's arrival. pre: the collector lock is held, and no stop is under way.
void LeaveDefaultSuspendSignal();

// Installs the suspend signal's handler. Idempotent.
void InstallStopHandler();
// Unblocks the suspend signal and its reserve (the signal that would take its place) for the
// calling thread.
void UnblockSuspendSignal();
// The C library's pthread_sigmask, never an interposed one. Same contract.
int RealSigmask(int how, const sigset_t* set, sigset_t* old);
// As RealSigmask, but never blocks the suspend signal or its reserve.
int SigmaskKeepingSuspend(int how, const sigset_t* set, sigset_t* old);
// Restores an earlier mask of the calling thread, including signals that the C library does not let
// programs block (fault_signal.cc).
void RestoreSigmask(const sigset_t* mask);

// What a tracker that needs SIGSEGV asks of threads: a fault of a thread that blocks the signal
// ends the process. All three do nothing while the handler of SIGSEGV is not installed
// (fault_signal.h). Async-signal-safe.
struct FaultSignalHooks {
  // Unblocks SIGSEGV for the calling thread.
  void (*unblock)();
  // Removes SIGSEGV from a mask that the thread is about to get.
  void (*open_mask)(sigset_t* mask);
  // Replaces an alternate stack that the thread is about to get, if it lies in `own_stack`. Whether
  // it has.
  bool (*move_stack)(int flags, void** base, size_t* bytes, Range own_stack);
};
// Set by such a tracker when it starts, before the handler is installed: each time to the same
// constant, which is never taken away. Stored with release and loaded with acquire. The tracker's
// thread stores the hooks first and the number of the handler's installation second. So a thread
// that would see the number (its stop, its registration or its blocking section ends after the
// installation) sees the hooks as well. A thread that loads null is like one that asks before the
// installation: it may leave SIGSEGV blocked, until it asks again. A thread that sees the hooks and
// not the number changes nothing. A forked child has copies of both.
extern Atomic<const FaultSignalHooks*> g_fault_signal_hooks;
inline void SetFaultSignalHooks(const FaultSignalHooks* hooks) {
  g_fault_signal_hooks.Store(hooks, memory_order_release);  // pairs with UnblockFaultSignal
}

// Unblocks SIGSEGV for the calling thread where a tracker needs that. Async-signal-safe, but the
// return of a signal handler undoes it.
inline void UnblockFaultSignal() {
  // Acquire: pairs with SetFaultSignalHooks.
  const FaultSignalHooks* hooks = g_fault_signal_hooks.Load(memory_order_acquire);
  if (GLEANER_UNLIKELY(hooks != nullptr)) hooks->unblock();
}

// The set without the suspend signal and its reserve, made in `copy`. Null for null.
const sigset_t* WithoutSuspend(const sigset_t* set, sigset_t* copy);

// While it exists, no handler of the program runs on the calling thread: all signals are blocked
// except faults, the suspend signal and its reserve, which stay as they are.
class HandlersWait {
 public:
  HandlersWait();
  ~HandlersWait();
  HandlersWait(const HandlersWait&) = delete;
  HandlersWait& operator=(const HandlersWait&) = delete;

 private:
  sigset_t before_;
  const bool is_outermost_;
};

// BeginStop and EndStop bracket a stop, from before the loader's lock is taken: no handler runs on
// the stopper in between. If another collector suspended the stopper while our world is half
// stopped, the two collectors would wait for each other. Guarded by the collector lock.
void BeginStop();
void EndStop();
// Called in place of EndStop when the stop is to be tried again: until then signals are as the
// program has them. Inside HandlersWait those that timers, terminals, children and descriptors send
// stay blocked, unless `open_all`: their handlers may jump, and collectors use other signals.
void PauseStop(bool open_all);

// pre: collector and threads locks are held; `records` are all registered threads.
// Stops every thread of `records` except `self` (which may be null). True: each of these threads is
// kParked or kBlocked and changes nothing until ResumeAll. False: not all answered within
// `patience_ns`; the world runs, and the caller must call AwaitWithdrawn. With `report` a message
// then names the threads that did not answer.
//
// Stops are given up because of other collectors in the process: a thread that another collector
// has suspended cannot answer before that collection is over, and that collection may wait for a
// thread that has answered our stop, or for the stopper itself.
[[nodiscard]] bool StopAll(StopRecord* const* records, size_t count, const StopRecord* self,
                           uint64_t patience_ns, bool report);
// Waits until no thread is about to answer a stop that was given up, and `pause_ns` longer.
// pre: the collector lock is held without interruption since the stop; no lock above it is held,
// and signals are open.
void AwaitWithdrawn(uint64_t pause_ns);
void ResumeAll();

// True between StopAll and ResumeAll.
bool WorldIsStopped();

// Enters a blocking section: the thread promises not to touch the heap and is not signalled.
// `stack_pointer` is the lowest address whose contents count as roots until LeaveBlocking. Called
// by the thread of the record.
void EnterBlocking(StopRecord* self, Addr stack_pointer);
// As EnterBlocking, for a thread that read its state word and then prepared for the section. False,
// with nothing changed, if a handler on the thread has called ChangeRunning since. pre: `running`
// is the word that was read, of a running thread.
[[nodiscard]] bool TryEnterBlocking(StopRecord* self, Addr stack_pointer, uint32_t running);
// Makes a TryEnterBlocking fail that a handler has interrupted: gives the thread a state word that
// it has not had. pre: the thread runs.
void ChangeRunning(StopRecord* self);
// Leaves the section. If a stop under way counts the thread as stopped, or the thread is suspended,
// it waits first, with the program's handlers blocked.
void LeaveBlocking(StopRecord* self);

// A blocking section in which the library waits. The program's handlers are blocked until its end,
// so it should be short.
class BlockingWait {
 public:
  BlockingWait(StopRecord* self, Addr stack_pointer) : self_(self) {
    EnterBlocking(self, stack_pointer);
  }
  ~BlockingWait() { LeaveBlocking(self_); }
  BlockingWait(const BlockingWait&) = delete;
  BlockingWait& operator=(const BlockingWait&) = delete;

 private:
  HandlersWait handlers_wait_;  // the first member, so that it spans the section
  StopRecord* const self_;
};

// Keeps one thread stopped after ResumeAll; a thread in a blocking section stops at its end.
// pre: the world is stopped.
void Suspend(StopRecord* record);
// Ends Suspend. pre: the record stays valid during the call.
void Unsuspend(StopRecord* record);

// In a forked child: resets the protocol, since no stop is under way there.
void ResetStopAfterFork();

// The registers from which a stopped thread's stack can be unwound, as DWARF numbers them.
struct StoppedRegisters {
  static constexpr size_t kMax = 17;
  uint64_t value[kMax];
  bool is_known[kMax] = {};
};
// Of the frame that a signal has interrupted, or that called WithRegistersOnStack. False if they
// are not known, as on processors other than x86-64. pre: the thread is stopped, or the caller, and
// its stack_pointer is in force.
[[nodiscard]] bool GetStoppedRegisters(const StopRecord& record, StoppedRegisters* registers);

// Calls f(stack_pointer, context) with the callee-saved registers spilled to the stack at or above
// `stack_pointer`.
void WithRegistersOnStack(void (*f)(Addr stack_pointer, void* context), void* context);

}  // namespace gleaner::platform
