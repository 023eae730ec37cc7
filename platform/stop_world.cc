#include "platform/stop_world.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>

#include "platform/cancellation.h"
#include "platform/clock.h"
#include "platform/fault_signal.h"
#include "platform/lock.h"
#include "platform/stalls.h"
#include "platform/thread.h"

namespace gleaner::platform {

namespace {
// Of threads without a record. Never written.
constinit Atomic<bool> g_never_pending{false};
}  // namespace

constinit __thread CriticalState t_critical
    __attribute__((tls_model("initial-exec"))) = {0, &g_never_pending};
__thread StopRecord* t_stop_record __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

constexpr int kDefaultSuspendSignal = SIGPWR;
constinit int g_suspend_signal = kDefaultSuspendSignal;
constinit int g_restart_signal = SIGXCPU;
// What takes the place of the suspend signal when somebody else installs a handler for it. Kept
// open by all threads from the start, since a thread cannot be asked to open it later. 0: none is
// free.
constinit int g_reserve_signal = 0;
constinit bool g_handler_installed = false;
// The stopper's signal mask outside the stop. Guarded by the collector lock.
constinit sigset_t g_mask_before_stop = {};
// What the calling thread has blocked outside its outermost HandlersWait; null if it is in none.
constinit __thread const sigset_t* t_mask_of_program = nullptr;

// Number of the stop under way, 0 when the world runs; see StateWord. Stopped threads sleep on it.
constinit Atomic<uint32_t> g_stop{0};
// Threads still to park. The stopper sleeps on it.
constinit Atomic<uint32_t> g_remaining{0};
// Number of the last stop. Guarded by the collector lock.
constinit uint32_t g_last_stop = 0;

// How often to look before sleeping, when every thread has a processor to itself: some 50 us, less
// than a sleep and a wake-up cost.
constexpr int kSpins = 1200;
// Whether spinning pays, decided by the stopper: read by the threads it has stopped.
constinit Atomic<bool> g_spin{false};
// A thread that spins takes a processor from the markers, and after a stop of this length it will
// sleep anyway.
constexpr uint64_t kShortStopNs = 100000;
// When the last stop began, and whether it was a short one. Both written and read by StopAll and
// ResumeAll only: guarded by the collector lock.
constinit uint64_t g_stop_began_ns = 0;
constinit bool g_last_was_short = true;

// How long to wait for threads to reach the end of a critical section before they are signalled:
// some 3 us, a fraction of what a signal takes.
constexpr int kSpinsBeforeSignal = 80;
// How long a thread that could not be signalled waits for room in the queue of signals.
constexpr uint64_t kRoomForSignalNs = 1'000'000;

// Waits until *word differs from `value`.
void AwaitChange(Atomic<uint32_t>* word, uint32_t value) {
  if (g_spin.Load(memory_order_relaxed)) {  // a hint
    for (int i = 0; i < kSpins; ++i) {
      if (word->Load(memory_order_seq_cst) != value) return;
      CpuRelax();
    }
  }
  while (word->Load(memory_order_seq_cst) == value) FutexWait(word, value);
}

// The calling thread has answered the stop.
void CountOff() {
  if (g_remaining.FetchSub(1, memory_order_seq_cst) == 1) FutexWakeAll(&g_remaining);
}

// The rest of a stop for a thread that is suspended by itself: as in a blocking section whose stack
// is in use down to `stack_pointer`. Async-signal-safe. Stops that come meanwhile find the thread
// blocked, or signal it between two suspensions; the signal is open for that, and Park nests.
GLEANER_NOINLINE void StaySuspended(StopRecord* self, Addr stack_pointer,
                                    Addr alternate_stack_end) {
  UnblockSuspendSignal();
  self->stack_pointer = stack_pointer;
  self->alternate_stack_end = alternate_stack_end;
  self->state.Store(StateWord::Of(MutatorState::kBlocked), memory_order_seq_cst);
  LeaveBlocking(self);
  self->alternate_stack_end = 0;
}

// Async-signal-safe. The stack is in use down to `stack_pointer`, registers included: the frames
// below are ours, hold nothing of the program's, and show old words where they are not written.
GLEANER_NOINLINE void Park(StopRecord* self, Addr stack_pointer) {
  const uint32_t stop = self->asked.Exchange(0, memory_order_seq_cst);
  if (stop == 0) return;  // somebody else's signal, or one that was answered already
  // What the signal has interrupted may be a point of cancellation, where the thread is cancelled
  // by another signal, which cannot be blocked.
  const UncancellableSection section;
  StallScope stall(StallCause::kPause);
  // A thread that was asked while it entered a blocking section is in that section again
  // afterwards.
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

// The signal frame, above which lies what was interrupted. It has the registers.
Addr SignalFrame(const void* context) {
  // ThreadSanitizer hands on a copy that lies elsewhere.
  constexpr size_t kHandlerBytes = 64 * kKiB;  // more than the frames of a handler take
  const Addr here = AddressOf(__builtin_frame_address(0));
  const Addr frame = AddressOf(context);
  return frame - here < kHandlerBytes ? frame : here;
}

void OnSuspendSignal(int, siginfo_t*, void* context) {
  auto* interrupted = static_cast<ucontext_t*>(context);
  sigset_t* mask = &interrupted->uc_sigmask;
  KeepFaultSignalOpen(mask);
  StopRecord* self = t_stop_record;
  if (self == nullptr) return;
  stack_t* stack = &interrupted->uc_stack;  // which the return puts in force, as the mask
  KeepAlternateStackApart(stack->ss_flags, &stack->ss_sp, &stack->ss_size, self->stack);
  if (t_critical.depth != 0) {
    self->stop_pending.Store(true, memory_order_relaxed);  // same thread
    return;
  }
  const int saved = errno;
  Park(self, SignalFrame(context));
  KeepFaultSignalOpen(mask);
  KeepAlternateStackApart(stack->ss_flags, &stack->ss_sp, &stack->ss_size, self->stack);
  errno = saved;
}

bool IsFreeSignal(int number) {
  struct sigaction action;
  return sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

// The real-time signals that the calling thread has blocked, if others are open: the program names
// those, to wait for them. Who blocks all does not say which of them there will be.
sigset_t NamedSignals() {
  sigset_t blocked;
  RealSigmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
    if (sigismember(&blocked, number) == 0) return blocked;
  }
  sigemptyset(&blocked);
  return blocked;
}

// A real-time signal that nobody has a handler for and that is not named, or 0. From above:
// programs count from below.
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

// A fault while parked is a bug of ours and should be seen as one. SIGSYS: a program that serves
// its own system calls (seccomp) serves ours, too.
sigset_t AllButFaults() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP}) {
    sigdelset(&all, fault);
  }
  return all;
}

// Never opens a signal: one that is blocked may be pending, and end the program.
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

// A signal sent to another's handler would not stop the thread, and might crash it.
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
  RealSigmask(SIG_BLOCK, nullptr, nullptr);  // looked up now: see DistrustLoader
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

int RealSigmask(int how, const sigset_t* set, sigset_t* old) {
  using Sigmask = int (*)(int, const sigset_t*, sigset_t*);
  static Sigmask real = nullptr;  // racing threads store the same value
  Sigmask set_mask = __atomic_load_n(&real, __ATOMIC_RELAXED);
  if (set_mask == nullptr) {
    set_mask = reinterpret_cast<Sigmask>(NextFunction("pthread_sigmask"));
    __atomic_store_n(&real, set_mask, __ATOMIC_RELAXED);  // as above
  }
  return set_mask(how, set, old);
}

void RestoreSigmask(const sigset_t* mask) {
  constexpr size_t kKernelBytes = 8;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, nullptr, kKernelBytes);
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
  KeepFaultSignalOpen(&before_);
  RestoreSigmask(&before_);
  UnblockFaultSignal();  // the handler may have been installed meanwhile
}

void BeginStop() {
  KeepSuspendSignalOurs();
  BlockAllButFaults(&g_mask_before_stop);
}

void EndStop() { RestoreSigmask(&g_mask_before_stop); }

void PauseStop() {
  const sigset_t* open = t_mask_of_program != nullptr ? t_mask_of_program : &g_mask_before_stop;
  RealSigmask(SIG_SETMASK, open, nullptr);
}

void ParkPending() {
  t_stop_record->stop_pending.Store(false, memory_order_relaxed);  // a hint
  // The handler may run between the two lines; `asked` lets only one of them park.
  const HandlersWait section;
  WithRegistersOnStack(ParkWithRegisters, t_stop_record);
}

namespace {

// Whether the thread is in a blocking section, which it does not leave before the stop is over.
bool Claim(StopRecord* record, uint32_t stop) {
  uint32_t word = record->state.Load(memory_order_seq_cst);
  while (StateWord::State(word) == MutatorState::kBlocked) {
    const uint32_t claimed = StateWord::Of(MutatorState::kBlocked, stop);
    if (record->state.CompareExchange(word, claimed, memory_order_seq_cst)) return true;
  }
  return false;
}

// Takes back what threads have not answered. Those that had just begun to answer count themselves
// off and find no stop to wait for.
void Withdraw(StopRecord* const* records, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (records[i]->asked.Exchange(0, memory_order_seq_cst) != 0) {
      g_remaining.FetchSub(1, memory_order_seq_cst);
    }
  }
  g_stop.Store(0, memory_order_seq_cst);
  FutexWakeAll(&g_stop);
}

// Sends the signal to those that have not answered. False if there was no room in a queue of
// signals.
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
    // ESRCH: the thread ended without telling us (a raw exit); it has no stack any more.
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
  static const int cpus = UsableCpuCount();
  const bool spin = count <= static_cast<size_t>(cpus);
  g_spin.Store(spin && g_last_was_short, memory_order_relaxed);  // a hint
  g_stop_began_ns = NowNs();
  g_last_stop += StateWord::kOneStop;
  if (g_last_stop == 0) g_last_stop = StateWord::kOneStop;
  const uint32_t stop = g_last_stop;
  // One more than the threads asked, so that it cannot reach zero while we still ask.
  g_remaining.Store(1, memory_order_seq_cst);
  g_stop.Store(stop, memory_order_seq_cst);
  for (size_t i = 0; i < count; ++i) {
    StopRecord* record = records[i];
    if (record == self || Claim(record, stop)) continue;
    g_remaining.FetchAdd(1, memory_order_seq_cst);
    record->asked.Store(stop, memory_order_seq_cst);
    record->stop_pending.Store(true, memory_order_relaxed);  // a hint
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

// A stop that has asked the thread while it ran finds it blocked now. The thread claims itself for
// the stop, which need not send the signal. See Note [blocking].
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

// Whether the thread has left its section. If not, it has a reason to wait: see AwaitLeave.
bool TryLeave(StopRecord* self) {
  uint32_t word = self->state.Load(memory_order_seq_cst);
  const uint32_t claim = StateWord::Claim(word);
  if (claim != 0 && claim == g_stop.Load(memory_order_seq_cst)) return false;
  if (self->suspended.Load(memory_order_seq_cst) != 0) return false;
  // Fails if a stop has claimed the thread in this instant.
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
  UnblockFaultSignal();  // a blocked thread is not stopped when the handler is installed
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
    t_stop_record->stop_pending.Store(false, memory_order_relaxed);  // no other thread
    t_stop_record->tid = static_cast<int32_t>(syscall(SYS_gettid));
    t_stop_record->asked.Store(0, memory_order_seq_cst);
  }
}

GLEANER_NOINLINE void WithRegistersOnStack(void (*f)(Addr, void*), void* context) {
#if defined(__x86_64__)
  // Those that a called function must leave as they are, in clear (setjmp would mangle some of
  // them). The last words fill the frame: what is not written shows old words.
  Addr registers[8] = {};
  asm volatile(
      "movq %%rbx, 0(%0)\n\t"
      "movq %%rbp, 8(%0)\n\t"
      "movq %%r12, 16(%0)\n\t"
      "movq %%r13, 24(%0)\n\t"
      "movq %%r14, 32(%0)\n\t"
      "movq %%r15, 40(%0)"
      :
      : "r"(registers)
      : "memory");
  f(AddressOf(registers), context);
#else
  // __builtin_unwind_init makes the prologue save every callee-saved register in this frame.
  __builtin_unwind_init();
  // Below what this frame saved and above what f will use: its frame changes while others scan
  // ours.
  f(AddressOf(__builtin_alloca(kWordBytes)), context);
#endif
  asm volatile("" ::: "memory");  // no tail call: the frame must outlive f
}

}  // namespace gleaner::platform
