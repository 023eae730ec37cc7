// SIGSEGV shared with the program: faults on memory that we protected are ours, the others are the
// program's, which must not notice the difference.
//
// Our handler is installed for the process. What the program has installed, before or (through
// ExchangeChainedAction, which an interposed sigaction calls) afterwards, is the chained action.
// A fault that is not ours is passed on as the kernel would have delivered it:
//   handler       with its sa_mask, with or without siginfo; SA_RESETHAND makes the action the
//                 default first. It may return, jump out, or change the context. The alternate
//                 stack is used exactly if it asks for it (SA_ONSTACK): our own installation
//                 follows the chained one's flags. SIGSEGV stays open, so that the handler may
//                 write into memory that we have protected. Where the kernel would have blocked it
//                 (no SA_NODEFER), another fault of the program in the handler makes the action the
//                 default, as the kernel does: the program ends. A signal that somebody sends
//                 meanwhile interrupts the handler instead of waiting for its end.
//   SIG_DFL       the action becomes the default in earnest, and the fault happens again (a signal
//                 that somebody sent is sent again): the program ends as it would have.
//   SIG_IGN       a signal that somebody sent is ignored; a fault cannot be, and ends the program.
//
// Threads that block SIGSEGV die of a fault, ours included: the kernel does not deliver it. See
// docs/write_tracking.md for what a drop-in interposes.
#pragma once

#include <pthread.h>  // sigset_t

#include "platform/atomic.h"
#include "platform/thread.h"

struct sigaction;

namespace gleaner::platform {

// Async-signal-safe. Returns whether the fault at `address` was ours and is dealt with: the access
// is tried again.
using FaultHandler = bool (*)(Addr address);

// Installs our handler, and the program's as chained. False if the system refuses. One caller at a
// time, also for the next two.
[[nodiscard]] bool InstallFaultHandler(FaultHandler handler);
// Puts the chained action back, if nobody has replaced ours.
void RemoveFaultHandler();
// If somebody has replaced our handler behind our back: chains theirs and installs ours again.
void KeepFaultHandler();

// For an interposed sigaction(SIGSEGV): replaces the chained action if `action` is not null, and
// gives the former one if `old` is not. False if we have no handler installed: the call is for the
// system. Thread-safe and async-signal-safe.
bool ExchangeChainedAction(const struct sigaction* action, struct sigaction* old);

// --- SIGSEGV stays open: a fault of a thread that blocks it ends the process. ---
//
// A thread that blocked it before the handler was installed opens it when it registers, at the end
// of a stop, and when it leaves a blocking section, in which stops do not find it. From then on
// nobody blocks it (platform/system_calls.h).

// The number of our installation, or 0 if our handler is not installed. Acquire: pairs with
// Install.
extern Atomic<uint32_t> g_fault_handler;
// The installation that the thread has SIGSEGV open for.
extern __thread uint32_t t_fault_signal_open_for __attribute__((tls_model("initial-exec")));
void UnblockFaultSignalSlow();

// For the calling thread, if our handler is installed. Async-signal-safe, but of no use there.
inline void UnblockFaultSignal() {
  if (GLEANER_UNLIKELY(g_fault_handler.Load(memory_order_acquire) != t_fault_signal_open_for)) {
    UnblockFaultSignalSlow();
  }
}
// Takes SIGSEGV out of a mask that is going to be the thread's, if our handler is installed.
// Async-signal-safe.
void KeepFaultSignalOpen(sigset_t* mask);
// Puts memory of ours in the place of an alternate stack that is going to be the thread's, with
// these flags, and lies in `own_stack` (alternate_stacks.h), if our handler is installed. True if
// it has. Async-signal-safe.
bool KeepAlternateStackApart(int flags, void** base, size_t* bytes, Range own_stack);
// The program opens SIGSEGV for the calling thread, which may be in the program's handler: a fault
// goes to the handler again. Async-signal-safe; may change errno.
void OpenFaultSignalForProgram();

}  // namespace gleaner::platform
