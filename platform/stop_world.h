// Stopping all other registered threads, and letting them go on.
//
// Protocol. The stopper holds the collector lock and the threads lock, so no other stop is under
// way and no thread comes or goes. It raises the stop flag, then asks every other thread: one in a
// blocking section counts as stopped; any other finds a note at the end of its next critical
// section and parks there. If every thread has a processor, the stopper waits a moment for that; to
// those that have not answered it sends the suspend signal. The handler parks there and then, or,
// inside a critical section, leaves the note again. Each parked thread counts itself off; the last
// one wakes the stopper. ResumeAll lowers the flag and wakes all with one broadcast. A stop that
// takes too long is given up and tried again.
//
// States of a thread and who changes them:
//   kRunning -> kBlocked -> kRunning   the thread itself (EnterBlocking, LeaveBlocking)
//   kRunning -> kParked -> kRunning    the thread itself (handler, or end of critical section)
//   kBlocked -> kParked -> kBlocked    the same, asked just before it entered a blocking section
//   kParked -> kBlocked -> kRunning    a thread that is suspended alone (Suspend), once resumed
//   kBlocked, claimed by a stop        the stopper
//
// A stopper claims a blocked thread: it writes the stop's number into the thread's state word. The
// thread leaves the section by exchanging the word that it has read for kRunning, unless that has a
// claim of the stop under way. So a thread whose state is kRunning is never taken for stopped: see
// docs/memory_ordering.md, Note [blocking].
//
// Handlers of the program [inv.handlers-wait]. Roots are read from the stack pointer that a thread
// has published upwards, so that a handler must not run below it: it could take an object out of a
// global that is read later. Wherever a thread parks, or waits in a section that the library opens
// itself, all signals are blocked but faults and the suspend signal (HandlersWait). What the
// function of GC_do_blocking does is the program's own promise, and that includes handlers that run
// meanwhile.
#pragma once

#include <pthread.h>  // sigset_t

#include "platform/atomic.h"
#include "platform/critical.h"
#include "platform/thread.h"

namespace gleaner::platform {

enum class MutatorState : uint32_t { kRunning, kBlocked, kParked };

// What StopRecord::state holds.
class StateWord {
 public:
  static constexpr uint32_t kOneStop = 4;  // the least number of a stop, and their distance

  // `number`, a multiple of kOneStop: of a blocked thread, the stop that takes it for stopped, 0
  // for none; of a running one, what StopRecord::running says.
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

  // The thread itself; the stopper claims, if it is blocked. See StateWord.
  Atomic<uint32_t> state{StateWord::Of(MutatorState::kRunning)};
  // The number in the state word while the thread runs: see ChangeRunning. The thread only.
  uint32_t running = 0;
  // Lowest address of the stack that is in use. Written by the thread before it parks or blocks,
  // read while it is stopped.
  Addr stack_pointer = 0;
  // If the thread was stopped on an alternate signal stack: the end of that stack, else 0.
  Addr alternate_stack_end = 0;

  // A hint that a stop is wanted, from the own handler or the stopper; `asked` decides.
  Atomic<bool> stop_pending{false};

  // Number of the stop asked for; 0 when none is. Written by the stopper, consumed by the thread.
  Atomic<uint32_t> asked{0};

  // 1: the thread is to stay where it is, alone, also when the world runs; it sleeps on this word.
  // Raised with the world stopped, so that the thread sees it before it runs on.
  Atomic<uint32_t> suspended{0};

  // For the thread itself, and with the world stopped; hence relaxed.
  bool IsBlocked() const {
    return StateWord::State(state.Load(memory_order_relaxed)) == MutatorState::kBlocked;
  }
  bool IsParked() const {
    return StateWord::State(state.Load(memory_order_relaxed)) == MutatorState::kParked;
  }
};

// The calling thread's record, null if it is not registered.
extern __thread StopRecord* t_stop_record;
// Gives the calling thread that record, or takes it away (null).
void AdoptRecord(StopRecord* record);

// Numbers of the signals in use. Set before InstallStopHandler; a later change has no effect.
// The suspend signal is never shared: if its handler is somebody else's, at the start or at a later
// stop (another collector in the process wants the same number), another one takes its place.
void SetSuspendSignal(int number);
int SuspendSignal();
void SetRestartSignal(int number);
int RestartSignal();

// Another collector, whose default is the same, is in the process and may start at any time: also
// between the last look at the handler and the signal's arrival. Nothing, if the suspend signal is
// another one already. pre: the collector lock is held, and no stop is under way.
void LeaveDefaultSuspendSignal();

// Installs the suspend signal's handler. Idempotent.
void InstallStopHandler();
// Unblocks the suspend signal for the calling thread, and the one that would take its place.
void UnblockSuspendSignal();
// The C library's pthread_sigmask, never an interposed one. Same contract.
int RealSigmask(int how, const sigset_t* set, sigset_t* old);
// The same, except that these two are never blocked.
int SigmaskKeepingSuspend(int how, const sigset_t* set, sigset_t* old);
// Puts back a mask that the calling thread had, signals included that the C library lets nobody
// block (fault_signal.cc).
void RestoreSigmask(const sigset_t* mask);

// The set without these two; `copy` is where it is made. Null stays null.
const sigset_t* WithoutSuspend(const sigset_t* set, sigset_t* copy);

// Meanwhile no handler of the program's runs on the calling thread: all signals are blocked but
// faults, and the suspend signal and the one that would take its place, which stay as they are.
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

// Around a stop, from before the loader's lock is taken: no handler runs on the stopper. If another
// collector suspended it there, with our world half stopped, each would wait for the other.
// Guarded by the collector lock.
void BeginStop();
void EndStop();
// In place of EndStop where the stop is tried again: signals are as the program has them until
// then, also inside HandlersWait.
void PauseStop();

// pre: collector and threads locks are held; `records` are all registered threads.
// Stops every thread of `records` except `self` (which may be null). True: each of them is kParked
// or kBlocked and changes nothing until ResumeAll. False: not all answered within `patience_ns`;
// the world runs, and AwaitWithdrawn is to be called. Then `report` says which did not answer.
//
// A stop has to be given up now and then because of other collectors in the process: a thread that
// they have suspended cannot answer before their collection is over, which may be waiting for a
// thread that has answered us, or for the stopper itself.
[[nodiscard]] bool StopAll(StopRecord* const* records, size_t count, const StopRecord* self,
                           uint64_t patience_ns, bool report);
// Waits until no thread is about to answer a stop that was given up, and `pause_ns` longer.
// pre: the collector lock is held without interruption since the stop; no lock above it is held,
// and signals are open.
void AwaitWithdrawn(uint64_t pause_ns);
void ResumeAll();

// True between StopAll and ResumeAll.
bool WorldIsStopped();

// Blocking sections: the thread promises not to touch the heap and is not signalled.
// `stack_pointer` is the lowest address whose contents count as roots meanwhile.
void EnterBlocking(StopRecord* self, Addr stack_pointer);
// The same, for a thread that has prepared itself for it after it had read its state: false, and
// nothing is done, if a handler on the thread has called ChangeRunning since. pre: `running` is the
// state that was read, of a running thread.
[[nodiscard]] bool TryEnterBlocking(StopRecord* self, Addr stack_pointer, uint32_t running);
// Takes that back: gives the running thread a state that it has not had. pre: the thread runs.
void ChangeRunning(StopRecord* self);
// Waits if a stop has taken the thread for stopped, and handlers of the program's wait, too.
void LeaveBlocking(StopRecord* self);

// A blocking section in which the library waits for something. Handlers of the program's wait for
// its end, so that it should be short.
class BlockingWait {
 public:
  BlockingWait(StopRecord* self, Addr stack_pointer) : self_(self) {
    EnterBlocking(self, stack_pointer);
  }
  ~BlockingWait() { LeaveBlocking(self_); }
  BlockingWait(const BlockingWait&) = delete;
  BlockingWait& operator=(const BlockingWait&) = delete;

 private:
  HandlersWait handlers_wait_;  // first, so that it spans the section
  StopRecord* const self_;
};

// Keeps one thread stopped after ResumeAll; a thread in a blocking section stops at its end.
// pre: the world is stopped.
void Suspend(StopRecord* record);
// Lets it go on. pre: the record stays valid meanwhile.
void Unsuspend(StopRecord* record);

// In a forked child: no stop is under way.
void ResetStopAfterFork();

// Calls f(context) with the callee-saved registers spilled to the stack above the address passed.
void WithRegistersOnStack(void (*f)(Addr stack_pointer, void* context), void* context);

}  // namespace gleaner::platform
