#include "platform/threads/fault_signal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "platform/os/atomic.h"
#include "platform/os/filters.h"
#include "platform/os/next_call.h"
#include "platform/os/process.h"
#include "platform/threads/stop_world.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace {

using Action = struct sigaction;
using Sigaction = int (*)(int, const Action*, Action*);

// The C library's sigaction, never an interposed one. Looked up before the handler is installed.
constinit Sigaction g_sigaction = nullptr;
constinit Atomic<FaultHandler> g_handler{nullptr};
constinit Atomic<FaultTeller> g_teller{nullptr};
constinit bool g_has_teller_action = false;  // between BeginTellingOfFaults and its end

void SetAction(const Action* action, Action* old) {
  (g_sigaction != nullptr ? g_sigaction : sigaction)(SIGSEGV, action, old);
}

// The chained action, copied word by word under a sequence lock. A writer has all signals blocked,
// so a reader in a signal handler never waits for a writer that it interrupted.
class ChainedAction {
 public:
  Action Load() const {
    for (;;) {
      const uint32_t before = sequence_.Load(memory_order_acquire);  // pairs with Update's release
      Words words;
      for (size_t i = 0; i < kWords; ++i) words.word[i] = words_[i].Load(memory_order_relaxed);
      // Pairs with the fence in Begin: if a word is a new writer's, the load below sees that
      // writer's odd number or a later one.
      std::atomic_thread_fence(memory_order_acquire);
      MaybeDelay();
      if ((before & 1) == 0 && sequence_.Load(memory_order_relaxed) == before) {
        Action action;
        memcpy(&action, words.word, sizeof action);
        return action;
      }
      CpuRelax();
    }
  }

  // Replaces the action by change(former). Returns the former one.
  template <class F>
  Action Update(F change) {
    sigset_t all;
    sigset_t mask;
    sigfillset(&all);
    for (const int fault : {SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigdelset(&all, fault);
    SigmaskKeepingSuspend(SIG_SETMASK, &all, &mask);
    EnterCritical();
    const uint32_t sequence = Begin();
    Words words = {};
    // Relaxed: after Begin no other thread writes the words.
    for (size_t i = 0; i < kWords; ++i) words.word[i] = words_[i].Load(memory_order_relaxed);
    Action former;
    memcpy(&former, words.word, sizeof former);
    const Action next = change(former);
    memcpy(words.word, &next, sizeof next);
    for (size_t i = 0; i < kWords; ++i) words_[i].Store(words.word[i], memory_order_relaxed);
    sequence_.Store(sequence + 2, memory_order_release);  // pairs with Load and Begin
    LeaveCritical();
    RestoreSigmask(&mask);
    return former;
  }

 private:
  static constexpr size_t kWords = (sizeof(Action) + kWordBytes - 1) / kWordBytes;
  struct Words {
    uintptr_t word[kWords];
  };

  // Makes the number odd, which locks out other writers. Returns the even number before.
  uint32_t Begin() {
    for (;;) {
      uint32_t sequence = sequence_.Load(memory_order_relaxed);
      // Acquire: sees the last writer's words. The fence keeps the odd number before this writer's
      // words; it pairs with the fence in Load.
      if ((sequence & 1) == 0 &&
          sequence_.CompareExchange(sequence, sequence + 1, memory_order_acq_rel)) {
        std::atomic_thread_fence(memory_order_release);
        MaybeDelay();
        return sequence;
      }
      CpuRelax();
    }
  }

  Atomic<uint32_t> sequence_{0};
  Atomic<uintptr_t> words_[kWords] = {};
};

constinit ChainedAction g_chained;

// --- The program's handler, with SIGSEGV unblocked ---
//
// A bit in the thread's signal mask says that the program's handler runs. Every way out of the
// handler restores the mask: its return, siglongjmp, setcontext, and a call that unblocks SIGSEGV
// (OpenFaultSignalForProgram). The bit is that of a signal reserved by the C library: it is in no
// mask of the program, and a mask that the program sets by the C library clears it. pthread_cancel
// sends this signal to end a wait; the signal then comes when the handler is over.
constexpr int kCancelSignal = 32;
constexpr uint64_t kInHandler = uint64_t{1} << (kCancelSignal - 1);

// The part of a sigset_t that the kernel uses.
using KernelMask = uint64_t;
KernelMask& KernelMaskOf(sigset_t* set) {
  static_assert(sizeof set->__val[0] == sizeof(KernelMask));
  return set->__val[0];
}
void SetKernelMask(int how, const KernelMask& mask) {
  syscall(SYS_rt_sigprocmask, how, &mask, nullptr, sizeof mask);
}

bool HasFunction(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void OnFault(int number, siginfo_t* info, void* context);

bool IsOurs(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnFault;
}

// Installs our handler, to run on the stack on which the chained handler would run. All signals are
// blocked while it runs, so it cannot be stopped while it has a region busy.
void InstallOurs(const Action& chained) {
  Action action = {};
  action.sa_sigaction = OnFault;
  const int followed =
      HasFunction(chained) ? chained.sa_flags & (SA_ONSTACK | SA_RESTART) : SA_ONSTACK | SA_RESTART;
  action.sa_flags = SA_SIGINFO | followed;
  sigfillset(&action.sa_mask);
  g_sigaction(SIGSEGV, &action, nullptr);
}

void EndByDefault(const siginfo_t* info) {
  const bool sent = info->si_code <= 0;
  const FaultTeller tell = g_teller.Load(memory_order_acquire);  // pairs with Begin...
  if (!sent && tell != nullptr) tell(AddressOf(info->si_addr));
  Action action = {};
  action.sa_handler = SIG_DFL;
  SetAction(&action, nullptr);
  // A fault happens again by itself.
  if (sent) syscall(SYS_tgkill, getpid(), CurrentThreadId(), SIGSEGV);
}

// The action of SIGSEGV while there is a teller, in place of the default one.
void OnToldFault(int, siginfo_t* info, void*) { EndByDefault(info); }

void PassOn(int number, siginfo_t* info, void* context) {
  Action action = g_chained.Load();
  const bool sent = info->si_code <= 0;
  sigset_t* interrupted = &static_cast<ucontext_t*>(context)->uc_sigmask;
  // From the program's view SIGSEGV is blocked: a fault ends the program, whatever the action.
  if (!sent && (KernelMaskOf(interrupted) & kInHandler) != 0) return EndByDefault(info);
  if (!HasFunction(action)) {
    if (action.sa_handler == SIG_IGN && sent) return;
    return EndByDefault(info);
  }
  if ((action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    action = g_chained.Update([](Action former) {
      if ((former.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) former = {};  // SIG_DFL
      return former;
    });
    if (!HasFunction(action)) return EndByDefault(info);  // another thread was first
  }
  sigset_t mask;
  sigorset(&mask, interrupted, &action.sa_mask);
  if ((action.sa_flags & SA_NODEFER) == 0 || sigismember(&mask, SIGSEGV) == 1) {
    KernelMaskOf(&mask) |= kInHandler;
  }
  sigdelset(&mask, SIGSEGV);
  SetKernelMask(SIG_SETMASK, KernelMaskOf(&mask));
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(number, info, context);
  } else {
    action.sa_handler(number);
  }
}

void OnFault(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  const FaultHandler handler = g_handler.Load(memory_order_acquire);  // pairs with Install
  const bool ours =
      info->si_code == SEGV_ACCERR && handler != nullptr && handler(AddressOf(info->si_addr));
  errno = saved;
  if (!ours) PassOn(number, info, context);
}

}  // namespace

bool InstallFaultHandler(FaultHandler handler) {
  if (g_sigaction == nullptr) {
    g_sigaction =
        reinterpret_cast<Sigaction>(NextFunction("sigaction", reinterpret_cast<void*>(&sigaction)));
  }
  Action present;
  if (g_sigaction(SIGSEGV, nullptr, &present) != 0) return false;
  g_handler.Store(handler, memory_order_release);  // pairs with OnFault
  if (!IsOurs(present)) {
    g_chained.Update([&](const Action&) { return present; });
    InstallOurs(present);
  }
  static constinit uint32_t installations = 0;                   // one caller at a time
  g_fault_handler.Store(++installations, memory_order_release);  // pairs with UnblockFaultSignal
  return true;
}

constinit Atomic<uint32_t> g_fault_handler{0};

void OpenFaultSignalForProgram() {
  // Acquire: pairs with the stores that install and remove the handler.
  if (g_fault_handler.Load(memory_order_acquire) != 0) SetKernelMask(SIG_UNBLOCK, kInHandler);
}

void RemoveFaultHandler() {
  Action present;
  if (g_sigaction(SIGSEGV, nullptr, &present) == 0 && IsOurs(present)) {
    const Action chained = g_chained.Load();
    g_sigaction(SIGSEGV, &chained, nullptr);
  }
  g_fault_handler.Store(0, memory_order_release);  // pairs with UnblockFaultSignal
  g_handler.Store(nullptr, memory_order_release);  // pairs with OnFault
}

void KeepFaultHandler() {
  Action present;
  if (g_sigaction(SIGSEGV, nullptr, &present) != 0 || IsOurs(present)) return;
  g_chained.Update([&](const Action&) { return present; });
  InstallOurs(present);
}

void BeginTellingOfFaults(FaultTeller tell) {
  g_teller.Store(tell, memory_order_release);  // pairs with EndByDefault
  if (g_handler.Load(memory_order_acquire) != nullptr || HasFilter()) return;  // with Install
  Action present;
  if (sigaction(SIGSEGV, nullptr, &present) != 0 || HasFunction(present) ||
      present.sa_handler == SIG_IGN) {
    return;
  }
  Action action = {};
  action.sa_sigaction = OnToldFault;  // on the stack of the fault: others may be small
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  g_has_teller_action = sigaction(SIGSEGV, &action, nullptr) == 0;
}

void EndTellingOfFaults() {
  g_teller.Store(nullptr, memory_order_release);  // pairs with EndByDefault
  if (!g_has_teller_action) return;
  g_has_teller_action = false;
  Action action = {};
  Action present;
  action.sa_handler = SIG_DFL;
  sigaction(SIGSEGV, &action, &present);
  // A thread that was not stopped may have installed a handler meanwhile.
  if ((present.sa_flags & SA_SIGINFO) == 0 || present.sa_sigaction != OnToldFault) {
    sigaction(SIGSEGV, &present, nullptr);
  }
}

bool ExchangeChainedAction(const struct sigaction* action, struct sigaction* old) {
  if (g_handler.Load(memory_order_acquire) == nullptr) return false;  // pairs with Install
  if (action == nullptr) {
    if (old != nullptr) *old = g_chained.Load();
    return true;
  }
  const Action next = *action;  // `action` and `old` may be the same object
  // A child of vfork has its own actions but its parent's memory, so the chained action is the
  // parent's. The child keeps our handler until it executes another program, which resets handlers
  // to the default.
  if (MemoryIsAnothers()) {
    if (old != nullptr) *old = g_chained.Load();
    return true;
  }
  const Action former = g_chained.Update([&](const Action&) { return next; });
  InstallOurs(next);
  if (old != nullptr) *old = former;
  return true;
}

}  // namespace gleaner::platform
