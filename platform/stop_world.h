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
//
// LeaveBlocking stores kRunning and then reads the stop flag; the stopper raises the flag and then
// reads the state. Both are seq_cst, so at least one of the two sees the other: see
// docs/memory_ordering.md, Note [blocking].
#pragma once

#include <pthread.h>  // sigset_t

#include "platform/atomic.h"
#include "platform/critical.h"

namespace gleaner::platform {

enum class MutatorState : uint32_t { kRunning, kBlocked, kParked };

struct StopRecord {
  // Set at registration, constant afterwards.
  int32_t tid = 0;
  Addr thread_pointer = 0;
  CriticalState* critical = nullptr;

  // The thread itself; read by the stopper.
  Atomic<MutatorState> state{MutatorState::kRunning};
  // Lowest address of the stack that is in use. Written by the thread before it parks or blocks,
  // read while it is stopped.
  Addr stack_pointer = 0;
  // If the thread was stopped on an alternate signal stack: the end of that stack, else 0.
  Addr alternate_stack_end = 0;

  // Number of the stop asked for; 0 when none is. Written by the stopper, consumed by the thread.
  Atomic<uint32_t> asked{0};

  // 1: the thread is to stay where it is, alone, also when the world runs; it sleeps on this word.
  // Raised with the world stopped, so that the thread sees it before it runs on.
  Atomic<uint32_t> suspended{0};
};

// The calling thread's record, null if it is not registered.
extern __thread StopRecord* t_stop_record;

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

// From here on, a thread that parks at the end of a critical section blocks all signals meanwhile,
// as one that parks in the handler does: no handler of the program's runs in a stopped world.
void BlockSignalsWhileParked();

// Installs the suspend signal's handler. Idempotent.
void InstallStopHandler();
// Unblocks the suspend signal for the calling thread, and the one that would take its place.
void UnblockSuspendSignal();
// The C library's pthread_sigmask, never an interposed one. Same contract.
int RealSigmask(int how, const sigset_t* set, sigset_t* old);
// The same, except that these two are never blocked.
int SigmaskKeepingSuspend(int how, const sigset_t* set, sigset_t* old);

// The set without these two; `copy` is where it is made. Null stays null.
const sigset_t* WithoutSuspend(const sigset_t* set, sigset_t* copy);

// Around a stop, from before the loader's lock is taken: no handler runs on the stopper. If another
// collector suspended it there, with our world half stopped, each would wait for the other.
// Guarded by the collector lock.
void BeginStop();
void EndStop();

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
// Waits if the world is stopped.
void LeaveBlocking(StopRecord* self);

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
