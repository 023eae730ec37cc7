// All that a stopper and a stopped thread do, and the signal they do it by. The argument in
// stop_world.h is about every access to the words that they share, so these stand in one file,
// which has more than 600 lines for that.
#include "platform/threads/stop_world.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <initializer_list>

#include "platform/os/cancellation.h"
#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/os/lock.h"
#include "platform/os/next_call.h"
#include "platform/os/raw_call.h"
#include "platform/os/readable.h"
#include "platform/os/stalls.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace {
// CriticalState::stop_pending of threads without a record. Never written.
constinit Hint<bool> g_never_pending{false};
}  // namespace

constinit __thread CriticalState t_critical
    __attribute__((tls_model("initial-exec"))) = {0, &g_never_pending};
constinit Atomic<const FaultSignalHooks*> g_fault_signal_hooks{nullptr};
__thread StopRecord* t_stop_record __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

constexpr size_t kKernelMaskBytes = 8;    // the part of a sigset_t that the kernel uses
constexpr int kFirstReservedSignal = 32;  // up to SIGRTMIN the signals are the C library's
constexpr int kDefaultSuspendSignal = SIGPWR;
constinit int g_suspend_signal = kDefaultSuspendSignal;
constinit int g_restart_signal = SIGXCPU;
// The reserve: it replaces the suspend signal if another library installs a handler for that. All
// threads keep it unblocked from the start, since a thread cannot be asked to unblock it later. 0:
// no signal is free.
constinit int g_reserve_signal = 0;
constinit bool g_handler_installed = false;
// The stopper's signal mask outside the stop. Guarded by the collector lock.
constinit sigset_t g_mask_before_stop = {};
// The calling thread's mask outside its outermost HandlersWait; null outside of one.
constinit __thread const sigset_t* t_mask_of_program = nullptr;

// The number of the stop under way (StateWord), 0 when the world runs. Stopped threads sleep on it.
constinit Atomic<uint32_t> g_stop{0};
// The number of threads that have not answered the stop. The stopper sleeps on it.
constinit Atomic<uint32_t> g_remaining{0};
// Number of the last stop. Guarded by the collector lock.
constinit uint32_t g_last_stop = 0;

// The number of spins before a thread sleeps, if every thread has a processor: some 50 us, less
// than the cost of a sleep and a wake-up.
constexpr int kSpins = 1200;
// Whether stopped threads should spin. Written by the stopper, read by the threads that it stops.
constinit Hint<bool> g_spin{false};
// A spinning thread takes a processor from the markers, and in a stop longer than this it sleeps
// anyway.
constexpr uint64_t kShortStopNs = 100000;
// When the last stop began, and whether the last stop was short. Used by StopAll and ResumeAll
// only, under the collector lock.
constinit uint64_t g_stop_began_ns = 0;
constinit bool g_last_was_short = true;

// The number of spins in which threads may reach the end of a critical section before they are
// signalled: some 3 us, a fraction of the cost of a signal.
constexpr int kSpinsBeforeSignal = 80;
// How long the stopper waits before it tries a signal again for which the queue of signals had no
// room.
constexpr uint64_t kRoomForSignalNs = 1'000'000;

// Waits until *word differs from `value`.
void AwaitChange(Atomic<uint32_t>* word, uint32_t value) {
  if (g_spin.Get()) {
    for (int i = 0; i < kSpins; ++i) {
      if (word->Load(memory_order_seq_cst) != value) return;
      CpuRelax();
    }
  }
  while (word->Load(memory_order_seq_cst) == value) FutexWait(word, value);
}

// Counts the calling thread as one that has answered the stop.
void CountOff() {
  if (g_remaining.FetchSub(1, memory_order_seq_cst) == 1) FutexWakeAll(&g_remaining);
}

// Keeps the calling thread stopped after a stop while it is suspended alone, as in a blocking
// section whose stack is in use down to `stack_pointer`. Async-signal-safe. Later stops find the
// thread blocked, or signal it between two suspensions: the signal is unblocked for that, and Park
// nests.
GLEANER_NOINLINE void StaySuspended(StopRecord* self, Addr stack_pointer,
                                    Addr alternate_stack_end) {
  UnblockSuspendSignal();
  self->stack_pointer = stack_pointer;
  self->alternate_stack_end = alternate_stack_end;
  self->state.Store(StateWord::Of(MutatorState::kBlocked), memory_order_seq_cst);
  LeaveBlocking(self);
  self->alternate_stack_end = 0;
}

// Answers a stop and waits until it is over. The stack is in use down to `stack_pointer`, registers
// included: the frames below belong to this library, hold no pointer of the program, and show old
// words where they are not written. Async-signal-safe.
GLEANER_NOINLINE void Park(StopRecord* self, Addr stack_pointer) {
  const uint32_t stop = self->asked.Exchange(0, memory_order_seq_cst);
  if (stop == 0) return;  // not a stop's signal, or one that was answered already
  // The signal may have interrupted a cancellation point, where another signal, which cannot be
  // blocked, cancels the thread.
  const UncancellableSection section;
  StallScope stall(StallCause::kPause);
  // A thread that was asked while it entered a blocking section gets its blocked state back below.
  const uint32_t before = self->state.Load(memory_order_seq_cst);
  const Addr stack_pointer_before = self->stack_pointer;
  const Addr alternate_before = self->alternate_stack_end;
  self->stack_pointer = stack_pointer;
  self->alternate_stack_end = AlternateStackEnd(stack_pointer);
  self->state.Store(StateWord::Of(MutatorState::kParked), memory_order_seq_cst);
  CountOff();
  AwaitChange(&g_stop, stop);
  const Addr alternate_stack_end = self->alternate_stack_end;
  self->stack_pointer = stack_pointer_before;
  self->alternate_stack_end = alternate_before;
  self->state.Store(before, memory_order_seq_cst);
  if (StateWord::State(before) != MutatorState::kBlocked &&
      self->suspended.Load(memory_order_seq_cst) != 0) {
    StallInterruption as_the_program_wants;
    StaySuspended(self, stack_pointer, alternate_stack_end);
  }
}

// The address of the signal frame, which has the registers; the interrupted frames lie above it.
Addr SignalFrame(const void* context) {
  // ThreadSanitizer passes a copy of the context that lies elsewhere.
  constexpr size_t kHandlerBytes = 64 * kKiB;  // more than the frames of a handler take
  const Addr here = AddressOf(__builtin_frame_address(0));
  const Addr frame = AddressOf(context);
  return frame - here < kHandlerBytes ? frame : here;
}

// FaultSignalHooks for what a return from a handler puts in force. Acquire, both: pairs with
// SetFaultSignalHooks.
void KeepMaskOpen(sigset_t* mask) {
  const FaultSignalHooks* hooks = g_fault_signal_hooks.Load(memory_order_acquire);
  if (hooks != nullptr) hooks->open_mask(mask);
}
void KeepStackApart(stack_t* stack, Range own_stack) {
  const FaultSignalHooks* hooks = g_fault_signal_hooks.Load(memory_order_acquire);
  if (hooks != nullptr) {
    hooks->move_stack(stack->ss_flags, &stack->ss_sp, &stack->ss_size, own_stack);
  }
}

void OnSuspendSignal(int, siginfo_t*, void* context) {
  auto* interrupted = static_cast<ucontext_t*>(context);
  KeepMaskOpen(&interrupted->uc_sigmask);
  StopRecord* self = t_stop_record;
  if (self == nullptr) return;
  KeepStackApart(&interrupted->uc_stack, self->stack);
  if (t_critical.depth != 0) {
    self->stop_pending.Set(true);  // the thread itself reads it
    return;
  }
  const int saved = errno;
  self->signal_context = context;
  Park(self, SignalFrame(context));
  self->signal_context = nullptr;
  KeepMaskOpen(&interrupted->uc_sigmask);
  KeepStackApart(&interrupted->uc_stack, self->stack);
  errno = saved;
}

bool IsFreeSignal(int number) {
  struct sigaction action;
  return sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

// The signals that the calling thread has blocked, unless it has blocked all real-time signals. A
// program blocks a signal to wait for it, so the blocked ones are not free; a program that blocks
// all names none.
sigset_t NamedSignals() {
  sigset_t blocked;
  RealSigmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
    if (sigismember(&blocked, number) == 0) return blocked;
  }
  sigemptyset(&blocked);
  return blocked;
}

// A real-time signal without a handler that is not in `named`, or 0. The search goes downwards,
// since programs take signals upwards.
int FindFreeSignal(const sigset_t& named) {
  for (int number = SIGRTMAX - 1; number >= SIGRTMIN; --number) {
    if (number != g_suspend_signal && sigismember(&named, number) == 0 && IsFreeSignal(number)) {
      return number;
    }
  }
  return 0;
}
int FindFreeSignal() {
  sigset_t none;
  sigemptyset(&none);
  return FindFreeSignal(none);
}

// Faults stay unblocked: a fault while parked is a bug of this library and must show as one.
// SIGSYS: a program that serves its own system calls (seccomp) serves the library's, too.
sigset_t AllButFaults() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP}) {
    sigdelset(&all, fault);
  }
  return all;
}

// Only blocks signals and unblocks none: a blocked signal may be pending, and end the program when
// it is unblocked.
void BlockAllButFaults(sigset_t* before) {
  const sigset_t all = AllButFaults();
  sigset_t copy;
  RealSigmask(SIG_BLOCK, WithoutSuspend(&all, &copy), before);
}

void InstallHandler(int number) {
  struct sigaction action = {};
  action.sa_sigaction = OnSuspendSignal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  action.sa_mask = AllButFaults();
  GLEANER_CHECK(sigaction(number, &action, nullptr) == 0,
                "cannot install a handler for suspend signal %d", number);
}

// From here on stops use another signal, if one is free.
void MoveSuspendSignal() {
  const bool usable = g_reserve_signal != 0 && IsFreeSignal(g_reserve_signal);
  const int number = usable ? g_reserve_signal : FindFreeSignal();
  if (number == 0) {
    InstallHandler(g_suspend_signal);
    return;
  }
  InstallHandler(number);
  g_suspend_signal = number;
  g_reserve_signal = FindFreeSignal();
}

// Takes another suspend signal if the handler has been replaced: a signal sent to another library's
// handler would not stop the thread, and might crash it.
void KeepSuspendSignalOurs() {
  struct sigaction action;
  if (sigaction(g_suspend_signal, nullptr, &action) == 0 &&
      ((action.sa_flags & SA_SIGINFO) == 0 || action.sa_sigaction != OnSuspendSignal)) {
    MoveSuspendSignal();
  }
}

void ParkWithRegisters(Addr stack_pointer, void* context) {
  Park(static_cast<StopRecord*>(context), stack_pointer);
}

}  // namespace

void AdoptRecord(StopRecord* record) {
  t_stop_record = record;
  t_critical.stop_pending = record != nullptr ? &record->stop_pending : &g_never_pending;
}

void SetSuspendSignal(int number) {
  if (!g_handler_installed) g_suspend_signal = number;
}
int SuspendSignal() { return g_suspend_signal; }
void SetRestartSignal(int number) { g_restart_signal = number; }
int RestartSignal() { return g_restart_signal; }

void InstallStopHandler() {
  if (g_handler_installed) return;
  RealSigmask(SIG_BLOCK, nullptr, nullptr);  // looks the function up: a forked child cannot
  g_reserve_signal = FindFreeSignal(NamedSignals());
  if (IsFreeSignal(g_suspend_signal)) {
    InstallHandler(g_suspend_signal);
  } else {
    MoveSuspendSignal();
  }
  g_handler_installed = true;
}

void UnblockSuspendSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, g_suspend_signal);
  if (g_reserve_signal != 0) sigaddset(&set, g_reserve_signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

namespace {

// pthread_sigmask of a static program (NextFunction): as the C library's, it blocks no signal that
// the C library has for itself.
int StaticSigmask(int how, const sigset_t* set, sigset_t* old) {
  sigset_t open;
  if (set != nullptr && how != SIG_UNBLOCK) {
    open = *set;
    for (int number = kFirstReservedSignal; number < SIGRTMIN; ++number) {
      open.__val[0] &= ~(1ul << (number - 1));
    }
    set = &open;
  }
  const long result = RawCall(SYS_rt_sigprocmask, how, static_cast<long>(AddressOf(set)),
                              static_cast<long>(AddressOf(old)), kKernelMaskBytes, 0, 0);
  return static_cast<int>(-result);
}

constinit NextCall<decltype(StaticSigmask)> g_next_sigmask("pthread_sigmask", StaticSigmask);

}  // namespace

int RealSigmask(int how, const sigset_t* set, sigset_t* old) {
  return g_next_sigmask.get()(how, set, old);
}

void RestoreSigmask(const sigset_t* mask) {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, nullptr, kKernelMaskBytes);
}

const sigset_t* WithoutSuspend(const sigset_t* set, sigset_t* copy) {
  if (set == nullptr) return nullptr;
  *copy = *set;
  sigdelset(copy, g_suspend_signal);
  if (g_reserve_signal != 0) sigdelset(copy, g_reserve_signal);
  return copy;
}

int SigmaskKeepingSuspend(int how, const sigset_t* set, sigset_t* old) {
  sigset_t open;
  return RealSigmask(how, how == SIG_UNBLOCK ? set : WithoutSuspend(set, &open), old);
}

void LeaveDefaultSuspendSignal() {
  if (g_handler_installed && g_suspend_signal == kDefaultSuspendSignal) MoveSuspendSignal();
}

HandlersWait::HandlersWait() : is_outermost_(t_mask_of_program == nullptr) {
  BlockAllButFaults(&before_);
  if (is_outermost_) t_mask_of_program = &before_;
}
HandlersWait::~HandlersWait() {
  if (is_outermost_) t_mask_of_program = nullptr;
  KeepMaskOpen(&before_);
  RestoreSigmask(&before_);
  UnblockFaultSignal();  // the handler may have been installed meanwhile
}

void BeginStop() {
  if (!HasFilter()) KeepSuspendSignalOurs();
  BlockAllButFaults(&g_mask_before_stop);
}

void EndStop() { RestoreSigmask(&g_mask_before_stop); }

void PauseStop(bool open_all) {
  const bool inside = t_mask_of_program != nullptr;
  sigset_t mask = inside ? *t_mask_of_program : g_mask_before_stop;
  if (inside && !open_all) {
    for (const int sent : {SIGALRM, SIGVTALRM, SIGPROF, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP,
                           SIGTTIN, SIGTTOU, SIGWINCH, SIGCHLD, SIGCONT, SIGIO, SIGPIPE}) {
      if (sent != g_suspend_signal && sent != g_reserve_signal) sigaddset(&mask, sent);
    }
  }
  RealSigmask(SIG_SETMASK, &mask, nullptr);
}

void ParkPending() {
  t_stop_record->stop_pending.Set(false);
  // The suspend handler may run in between and park; `asked` lets only one of the two park.
  const HandlersWait section;
  WithRegistersOnStack(ParkWithRegisters, t_stop_record);
}

namespace {

// Claims the thread for the stop if it is in a blocking section: then it does not leave the section
// before the stop is over. Note [blocking].
bool Claim(StopRecord* record, uint32_t stop) {
  uint32_t word = record->state.Load(memory_order_seq_cst);
  while (StateWord::State(word) == MutatorState::kBlocked) {
    const uint32_t claimed = StateWord::Of(MutatorState::kBlocked, stop);
    if (record->state.CompareExchange(word, claimed, memory_order_seq_cst)) return true;
  }
  return false;
}

// Gives the stop up: takes `asked` back from the threads that have not answered. Threads that had
// just begun to answer count themselves off and find no stop to wait for.
void Withdraw(StopRecord* const* records, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (records[i]->asked.Exchange(0, memory_order_seq_cst) != 0) {
      g_remaining.FetchSub(1, memory_order_seq_cst);
    }
  }
  g_stop.Store(0, memory_order_seq_cst);
  FutexWakeAll(&g_stop);
}

// Signals the threads that have not answered. False if a queue of signals had no room.
bool SignalAsked(StopRecord* const* records, size_t count) {
  bool all = true;
  for (size_t i = 0; i < count; ++i) {
    StopRecord* record = records[i];
    if (record->asked.Load(memory_order_seq_cst) == 0) continue;
    if (syscall(SYS_tgkill, getpid(), record->tid, g_suspend_signal) == 0) continue;
    if (errno == EAGAIN) {
      all = false;
      continue;
    }
    // ESRCH: the thread ended without unregistering (a raw exit), and has no stack any more.
    GLEANER_CHECK(errno == ESRCH, "cannot signal thread %d: errno %d", record->tid, errno);
    if (record->asked.Exchange(0, memory_order_seq_cst) != 0) {
      g_remaining.FetchSub(1, memory_order_seq_cst);
      record->stack_pointer = 0;
    }
  }
  return all;
}

}  // namespace

bool StopAll(StopRecord* const* records, size_t count, const StopRecord* self, uint64_t patience_ns,
             bool report) {
  static constinit int cpus = 0;  // under the collector lock; 0: not known
  if (cpus == 0 && !HasFilter()) cpus = UsableCpuCount();
  const bool spin = count <= static_cast<size_t>(cpus);
  g_spin.Set(spin && g_last_was_short);
  g_stop_began_ns = NowNs();
  g_last_stop += StateWord::kOneStop;
  if (g_last_stop == 0) g_last_stop = StateWord::kOneStop;
  const uint32_t stop = g_last_stop;
  // One more than the number of threads asked, so that it cannot reach 0 while the stopper still
  // asks.
  g_remaining.Store(1, memory_order_seq_cst);
  g_stop.Store(stop, memory_order_seq_cst);
  for (size_t i = 0; i < count; ++i) {
    StopRecord* record = records[i];
    if (record == self || Claim(record, stop)) continue;
    g_remaining.FetchAdd(1, memory_order_seq_cst);
    record->asked.Store(stop, memory_order_seq_cst);
    record->stop_pending.Set(true);
  }
  for (int i = 0; spin && i < kSpinsBeforeSignal; ++i) {
    if (g_remaining.Load(memory_order_seq_cst) == 1) break;
    CpuRelax();
  }
  bool all_signalled = SignalAsked(records, count);
  uint32_t left = g_remaining.FetchSub(1, memory_order_seq_cst) - 1;
  for (int i = 0; left != 0 && i < kSpins && spin; ++i) {
    CpuRelax();
    left = g_remaining.Load(memory_order_seq_cst);
  }
  while (left != 0) {
    const uint64_t waited_ns = NowNs() - g_stop_began_ns;
    if (waited_ns >= patience_ns) {
      for (size_t i = 0; i < count && report; ++i) {
        if (records[i]->asked.Load(memory_order_seq_cst) == 0) continue;
        Complain("still waiting for thread %d to stop: does it block signal %d?", records[i]->tid,
                 g_suspend_signal);
      }
      Withdraw(records, count);
      return false;
    }
    const uint64_t wait_ns = patience_ns - waited_ns;
    const bool again = !all_signalled && wait_ns > kRoomForSignalNs;
    FutexWaitFor(&g_remaining, left, again ? kRoomForSignalNs : wait_ns);
    if (again) all_signalled = SignalAsked(records, count);
    left = g_remaining.Load(memory_order_seq_cst);
  }
  return true;
}

void AwaitWithdrawn(uint64_t pause_ns) {
  for (;;) {
    const uint32_t left = g_remaining.Load(memory_order_seq_cst);
    if (left == 0) break;
    FutexWait(&g_remaining, left);
  }
  FutexWaitFor(&g_remaining, 0, pause_ns);
}

void ResumeAll() {
  g_last_was_short = NowNs() - g_stop_began_ns < kShortStopNs;
  g_stop.Store(0, memory_order_seq_cst);
  FutexWakeAll(&g_stop);
}

bool WorldIsStopped() { return g_stop.Load(memory_order_seq_cst) != 0; }

namespace {

// Answers a stop that asked the thread while it ran: the blocked thread claims itself for the stop,
// which then need not send the signal. Note [blocking].
void AnswerBlocked(StopRecord* self) {
  uint32_t stop = self->asked.Load(memory_order_seq_cst);
  uint32_t blocked = StateWord::Of(MutatorState::kBlocked);
  if (stop == 0 ||
      !self->state.CompareExchange(blocked, StateWord::Of(MutatorState::kBlocked, stop),
                                   memory_order_seq_cst)) {
    return;
  }
  if (self->asked.CompareExchange(stop, 0, memory_order_seq_cst)) CountOff();
}

}  // namespace

void EnterBlocking(StopRecord* self, Addr stack_pointer) {
  (void)TryEnterBlocking(self, stack_pointer, self->state.Load(memory_order_seq_cst));
}

bool TryEnterBlocking(StopRecord* self, Addr stack_pointer, uint32_t running) {
  self->stack_pointer = stack_pointer;
  self->alternate_stack_end = AlternateStackEnd(stack_pointer);
  if (!self->state.CompareExchange(running, StateWord::Of(MutatorState::kBlocked),
                                   memory_order_seq_cst)) {
    return false;
  }
  AnswerBlocked(self);
  return true;
}

void ChangeRunning(StopRecord* self) {
  self->running += StateWord::kOneStop;
  self->state.Store(StateWord::Of(MutatorState::kRunning, self->running), memory_order_seq_cst);
}

namespace {

// Leaves the section if the thread need not wait. False: it must wait (AwaitLeave), or a stop has
// just claimed it.
bool TryLeave(StopRecord* self) {
  uint32_t word = self->state.Load(memory_order_seq_cst);
  const uint32_t claim = StateWord::Claim(word);
  if (claim != 0 && claim == g_stop.Load(memory_order_seq_cst)) return false;
  if (self->suspended.Load(memory_order_seq_cst) != 0) return false;
  // The exchange fails if a stop has claimed the thread since the load (Note [blocking]).
  return self->state.CompareExchange(word, StateWord::Of(MutatorState::kRunning, self->running),
                                     memory_order_seq_cst);
}

void AwaitLeave(StopRecord* self) {
  const uint32_t claim = StateWord::Claim(self->state.Load(memory_order_seq_cst));
  if (claim != 0 && claim == g_stop.Load(memory_order_seq_cst)) {
    StallScope stall(StallCause::kPause);
    FutexWait(&g_stop, claim);
  } else {
    FutexWait(&self->suspended, 1);
  }
}

}  // namespace

void LeaveBlocking(StopRecord* self) {
  if (GLEANER_UNLIKELY(!TryLeave(self))) {
    const HandlersWait section;
    while (!TryLeave(self)) AwaitLeave(self);
  }
  UnblockFaultSignal();  // the fault handler may have been installed meanwhile
}

void Suspend(StopRecord* record) { record->suspended.Store(1, memory_order_seq_cst); }

void Unsuspend(StopRecord* record) {
  record->suspended.Store(0, memory_order_seq_cst);
  FutexWakeAll(&record->suspended);
}

void ResetStopAfterFork() {
  g_stop.Store(0, memory_order_seq_cst);
  g_remaining.Store(0, memory_order_seq_cst);
  if (t_stop_record != nullptr) {
    t_stop_record->stop_pending.Set(false);
    t_stop_record->tid = static_cast<int32_t>(syscall(SYS_gettid));
    t_stop_record->asked.Store(0, memory_order_seq_cst);
  }
}

#if defined(__x86_64__)
namespace {

// Where WithRegistersOnStack saves what: the registers that a call preserves, and two from which
// that frame can be unwound. The rest fills the frame: words that are not written would show old
// values.
struct SavedRegisters {
  Addr rbx, rbp, r12, r13, r14, r15, rsp, pc;
};
// In DWARF's numbers, in the order of SavedRegisters.
constexpr size_t kSavedNumbers[] = {3, 6, 12, 13, 14, 15, 7, 16};
// In DWARF's numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, the program counter.
constexpr int kContextRegisters[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                     REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

// More than the code and the frame of WithRegistersOnStack take.
constexpr size_t kMaxSavedFrame = 512;

}  // namespace

bool GetStoppedRegisters(const StopRecord& record, StoppedRegisters* registers) {
  *registers = {};
  // A blocked thread's handler may still run: it finds that it is not asked for.
  if (record.IsParked() && record.signal_context != nullptr) {
    const auto* context = static_cast<const ucontext_t*>(record.signal_context);
    for (size_t i = 0; i < StoppedRegisters::kMax; ++i) {
      registers->value[i] = static_cast<uint64_t>(context->uc_mcontext.gregs[kContextRegisters[i]]);
      registers->is_known[i] = true;
    }
    return true;
  }
  const Addr frame = record.stack_pointer;
  if (frame == 0 || frame % kWordBytes != 0) return false;
  // Other callers give a stack pointer to which nothing was saved.
  constexpr size_t kWords = sizeof(SavedRegisters) / kWordBytes;
  Addr words[kWords];
  if (CopyIfMapped(words, frame, sizeof words) < sizeof words) return false;
  const Addr code = AddressOf(reinterpret_cast<const void*>(&WithRegistersOnStack));
  if (words[7] - code > kMaxSavedFrame || frame - words[6] > kMaxSavedFrame) return false;
  for (size_t i = 0; i < kWords; ++i) {
    registers->value[kSavedNumbers[i]] = words[i];
    registers->is_known[kSavedNumbers[i]] = true;
  }
  return true;
}
#else
bool GetStoppedRegisters(const StopRecord&, StoppedRegisters*) { return false; }
#endif

GLEANER_NOINLINE void WithRegistersOnStack(void (*f)(Addr, void*), void* context) {
#if defined(__x86_64__)
  // In clear: setjmp would mangle some of them.
  SavedRegisters registers;
  asm volatile(
      "movq %%rbx, 0(%0)\n\t"
      "movq %%rbp, 8(%0)\n\t"
      "movq %%r12, 16(%0)\n\t"
      "movq %%r13, 24(%0)\n\t"
      "movq %%r14, 32(%0)\n\t"
      "movq %%r15, 40(%0)\n\t"
      "movq %%rsp, 48(%0)\n\t"
      "leaq 0f(%%rip), %%rax\n"
      "0:\tmovq %%rax, 56(%0)"
      :
      : "r"(&registers)
      : "memory", "rax");
  f(AddressOf(&registers), context);
#else
  // __builtin_unwind_init makes the prologue save every callee-saved register in this frame.
  __builtin_unwind_init();
  // The address lies below the registers saved in this frame and above the frame of f, which
  // changes while other threads scan this one.
  f(AddressOf(__builtin_alloca(kWordBytes)), context);
#endif
  asm volatile("" ::: "memory");  // no tail call: the frame must outlive f
}

}  // namespace gleaner::platform
