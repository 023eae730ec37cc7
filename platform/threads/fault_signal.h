// SIGSEGV shared with the program: faults on memory that the library protected are the library's.
// The others are the program's, which must not notice the difference.
//
// The library's handler is installed for the process. The action that the program installs, before
// or (through ExchangeChainedAction, which an interposed sigaction calls) afterwards, is the
// chained action. The handler passes a fault of the program on as the kernel would have delivered
// it:
//   handler       runs with its sa_mask, with or without siginfo; SA_RESETHAND makes the action the
//                 default first. It may return, jump out, or change the context. The alternate
//                 stack is used exactly if the action has SA_ONSTACK: our own installation
//                 follows the chained action's flags. SIGSEGV stays unblocked, so the handler may
//                 write into protected memory. Where the kernel would have blocked SIGSEGV
//                 (no SA_NODEFER), another fault of the program in the handler makes the action the
//                 default, as the kernel does: the program ends. A SIGSEGV that is sent
//                 meanwhile interrupts the handler instead of waiting for its end.
//   SIG_DFL       the system's action becomes the default, and the fault happens again (a signal
//                 that was sent is sent again): the program ends as it would have.
//   SIG_IGN       a signal that was sent is ignored; a fault ends the program.
//
// A fault of a thread that blocks SIGSEGV ends the process, a fault of ours included: the kernel
// does not deliver it. Whoever installs the handler prevents that
// (platform/mprotect/open_signal.h).
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/base.h"

struct sigaction;

namespace gleaner::platform {

// Returns whether the fault at `address` was the library's and is handled: then the access is tried
// again. Async-signal-safe.
using FaultHandler = bool (*)(Addr address);

// Installs our handler, with the present action as the chained one. False if the system refuses.
// One caller at a time for this function, RemoveFaultHandler and KeepFaultHandler together.
[[nodiscard]] bool InstallFaultHandler(FaultHandler handler);
// Puts the chained action back, unless the program has replaced our handler.
void RemoveFaultHandler();
// If our handler was replaced by a call that is not interposed: chains the new action and installs
// ours again.
void KeepFaultHandler();

// For an interposed sigaction(SIGSEGV): replaces the chained action if `action` is not null, and
// stores the former one in `*old` if `old` is not null. False if our handler is not installed: then
// the caller calls the system. Thread-safe and async-signal-safe.
bool ExchangeChainedAction(const struct sigaction* action, struct sigaction* old);

// --- Faults of a collection, which would end the program without a word. ---

// Between the two calls a fault that ends the program by default is shown to `tell` first, which
// may end it with a message. For that time SIGSEGV has a handler if it had the default action;
// everything else is as without it. No effect under a filter of system calls. One caller at a time,
// who installs and removes no handler in between.
using FaultTeller = void (*)(Addr address);
void BeginTellingOfFaults(FaultTeller tell);
void EndTellingOfFaults();

// The number of the present installation of our handler, or 0 if it is not installed. Stored with
// release, loaded with acquire.
extern Atomic<uint32_t> g_fault_handler;

// Notes that the program unblocks SIGSEGV for the calling thread: if the thread is in the program's
// handler, a further fault goes to the handler again. Async-signal-safe; may change errno.
void OpenFaultSignalForProgram();

}  // namespace gleaner::platform
