#include "platform/threads/fault_signal.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <thread>

#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "tests/support/child.h"
#include "tests/support/rounds.h"

namespace gleaner::platform {
namespace {

// One page is ours, the next is the program's; both are read-only.
char* g_pages = nullptr;
volatile sig_atomic_t g_ours = 0, g_programs = 0;
volatile sig_atomic_t g_segv_blocked = -1, g_usr1_blocked = -1, g_on_alternate = -1;

char* Ours() { return g_pages; }
char* Programs() { return g_pages + OsPageBytes(); }

bool MakeWritable(char* page) { return mprotect(page, OsPageBytes(), PROT_READ | PROT_WRITE) == 0; }
bool OnOurs(Addr address) {
  if (address - AddressOf(Ours()) >= OsPageBytes()) return false;
  g_ours = g_ours + 1;
  errno = ENOSPC;  // must not be seen outside
  return MakeWritable(Ours());
}
void MakePages() {
  g_pages = static_cast<char*>(
      mmap(nullptr, 2 * OsPageBytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(g_pages, MAP_FAILED);
}
void ProtectPages() { ASSERT_EQ(mprotect(g_pages, 2 * OsPageBytes(), PROT_READ), 0); }

void RecordCall() {
  g_programs = g_programs + 1;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  g_segv_blocked = sigismember(&mask, SIGSEGV);
  g_usr1_blocked = sigismember(&mask, SIGUSR1);
  stack_t stack;
  sigaltstack(nullptr, &stack);
  g_on_alternate = (stack.ss_flags & SS_ONSTACK) != 0;
}
void RepairWithInformation(int number, siginfo_t* info, void* context) {
  RecordCall();
  EXPECT_EQ(number, SIGSEGV);
  EXPECT_EQ(info->si_addr, Programs());
  EXPECT_NE(context, nullptr);
  MakeWritable(Programs());
}
void Repair(int) {
  RecordCall();
  MakeWritable(Programs());
}
sigjmp_buf g_jump;
void JumpOut(int) {
  RecordCall();
  siglongjmp(g_jump, 1);
}

struct sigaction PlainAction(void (*handler)(int), int flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  return action;
}

bool Chain(void (*handler)(int), int flags = 0) {
  const struct sigaction action = PlainAction(handler, flags);
  return ExchangeChainedAction(&action, nullptr);
}
void StartWithAlternateStack() {
  MakePages();
  static char stack[64 * 1024];
  const stack_t alternate = {stack, 0, sizeof stack};
  ASSERT_EQ(sigaltstack(&alternate, nullptr), 0);
  ASSERT_TRUE(InstallFaultHandler(OnOurs));
}

void WriteBoth() {
  errno = EXDEV;
  *static_cast<volatile char*>(Ours()) = 1;
  EXPECT_EQ(errno, EXDEV);
  *static_cast<volatile char*>(Programs()) = 1;
}

CHILD_TEST(FaultSignalTest, FaultsGoToWhomTheyConcern) {
  MakePages();
  struct sigaction action = {};
  action.sa_sigaction = RepairWithInformation;
  action.sa_flags = SA_SIGINFO;
  sigaddset(&action.sa_mask, SIGUSR1);
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
  ASSERT_TRUE(InstallFaultHandler(OnOurs));
  for (int round = 1; round <= 3; ++round) {
    ProtectPages();
    WriteBoth();
    EXPECT_EQ(g_ours, round);
    EXPECT_EQ(g_programs, round);
  }
  EXPECT_EQ(g_segv_blocked, 0);
  EXPECT_EQ(g_usr1_blocked, 1);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
  RemoveFaultHandler();
  struct sigaction after;
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &after), 0);
  EXPECT_EQ(after.sa_sigaction, RepairWithInformation);
}

CHILD_TEST(FaultSignalTest, AHandlerSetLaterIsChained) {
  MakePages();
  signal(SIGSEGV, SIG_DFL);  // a sanitizer may have a handler
  EXPECT_FALSE(ExchangeChainedAction(nullptr, nullptr));
  ASSERT_TRUE(InstallFaultHandler(OnOurs));
  struct sigaction action = PlainAction(Repair, SA_NODEFER);
  struct sigaction former;
  ASSERT_TRUE(ExchangeChainedAction(&action, &former));
  EXPECT_EQ(former.sa_handler, SIG_DFL);
  WriteBoth();
  EXPECT_EQ(g_ours, 1);
  EXPECT_EQ(g_programs, 1);
  EXPECT_EQ(g_segv_blocked, 0);
  EXPECT_EQ(g_usr1_blocked, 0);
  ASSERT_TRUE(ExchangeChainedAction(nullptr, &former));
  EXPECT_EQ(former.sa_handler, Repair);
  EXPECT_EQ(former.sa_flags, SA_NODEFER);
  // One that was not told to us.
  action = PlainAction(JumpOut);
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
  KeepFaultHandler();
  ProtectPages();
  for (int round = 2; round < 5; ++round) {
    if (sigsetjmp(g_jump, 1) == 0) WriteBoth();
    EXPECT_EQ(g_programs, round);
  }
  EXPECT_EQ(g_ours, 2);
}

// --- Faults in the program's handler ---

void WriteOursAndRepair(int) {
  RecordCall();
  *static_cast<volatile char*>(Ours()) = 2;
  MakeWritable(Programs());
}
void WriteOursAndJumpOut(int) {
  RecordCall();
  *static_cast<volatile char*>(Ours()) = 2;
  siglongjmp(g_jump, 1);
}
GLEANER_NOINLINE void FaultDeeper() {
  volatile char frame[8 * 1024];
  frame[0] = 1;
  *static_cast<volatile char*>(Programs()) = frame[0];
}

void FaultAndComeBack() {
  if (sigsetjmp(g_jump, 1) == 0) FaultDeeper();
}

CHILD_TEST(FaultSignalTest, TheProgramsHandlerMayWriteToOurMemory) {
  StartWithAlternateStack();
  int faults = 0;
  for (const int flags : {0, static_cast<int>(SA_NODEFER), SA_ONSTACK}) {
    for (const auto handler : {WriteOursAndRepair, WriteOursAndJumpOut}) {
      ASSERT_TRUE(Chain(handler, flags));
      for (int round = 0; round < 3; ++round) {
        ProtectPages();
        FaultAndComeBack();
        ++faults;
        EXPECT_EQ(g_programs, faults);
        EXPECT_EQ(g_ours, faults);
        EXPECT_EQ(*Ours(), 2);
      }
    }
  }
}

// The kernel blocks SIGSEGV in a handler without SA_NODEFER: a fault there ends the program.
void FaultInHandler(int) {
  RecordCall();
  *static_cast<volatile char*>(Ours()) = 2;
  if (g_programs == 2) MakeWritable(Programs());
  static_cast<void>(!write(STDERR_FILENO, "handler\n", 8));
  if (g_programs == 1) *static_cast<volatile char*>(Programs()) = 1;
}

TEST(FaultSignalTest, AFaultInTheProgramsHandlerEndsTheProgram) {
  const auto fault = [](int flags, bool open) {
    return gleaner::testing::RunInChild([=] {
      MakePages();
      ASSERT_TRUE(InstallFaultHandler(OnOurs));
      const auto handler = [](int) {
        OpenFaultSignalForProgram();
        FaultInHandler(SIGSEGV);
      };
      ASSERT_TRUE(Chain(open ? handler : FaultInHandler, flags));
      FaultDeeper();
    });
  };
  const auto blocked = fault(0, false);
  EXPECT_TRUE(blocked.ended_by(SIGSEGV)) << blocked.err;
  EXPECT_EQ(blocked.err, "handler\n");
  for (const auto& open : {fault(static_cast<int>(SA_NODEFER), false), fault(0, true)}) {
    EXPECT_TRUE(open.ok()) << open.err;
    EXPECT_EQ(open.err, "handler\nhandler\n");
  }
}

CHILD_TEST(FaultSignalTest, TheAlternateStackIsUsedIfTheProgramAsksForIt) {
  StartWithAlternateStack();
  for (const int flags : {0, SA_ONSTACK, 0}) {
    ASSERT_TRUE(Chain(Repair, flags));
    ProtectPages();
    WriteBoth();
    EXPECT_EQ(g_on_alternate, flags != 0);
  }
}

CHILD_TEST(FaultSignalTest, AStackOverflowReachesAHandlerOnTheAlternateStack) {
  StartWithAlternateStack();
  ASSERT_TRUE(Chain(JumpOut, SA_ONSTACK));
  struct Overflow {
    static int Recurse(volatile char* above, int depth) {
      volatile char frame[4096];
      frame[0] = above[0];
      return depth == 0 ? frame[0] : Recurse(frame, depth - 1) + frame[0];
    }
  };
  if (sigsetjmp(g_jump, 1) == 0) {
    volatile char frame[16] = {};
    Overflow::Recurse(frame, 1 << 30);
  }
  EXPECT_EQ(g_programs, 1);
}

TEST(FaultSignalTest, AResetHandlerIsCalledOnce) {
  const auto result = gleaner::testing::RunInChild([] {
    MakePages();
    ASSERT_TRUE(InstallFaultHandler(OnOurs));
    ASSERT_TRUE(Chain(Repair, static_cast<int>(SA_RESETHAND)));
    WriteBoth();
    EXPECT_EQ(g_programs, 1);
    struct sigaction now;
    ASSERT_TRUE(ExchangeChainedAction(nullptr, &now));
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    if (::testing::Test::HasFailure()) return;
    ProtectPages();
    *static_cast<volatile char*>(Ours()) = 1;
    EXPECT_EQ(g_ours, 2);
    if (::testing::Test::HasFailure()) return;
    *static_cast<volatile char*>(Programs()) = 1;
  });
  EXPECT_TRUE(result.ended_by(SIGSEGV)) << result.err;
}

// The default and an ignored fault end the program by SIGSEGV, as they would without us.
TEST(FaultSignalTest, FaultsWithoutAHandlerEndTheProgram) {
  for (const auto action : {SIG_DFL, SIG_IGN}) {
    const auto result = gleaner::testing::RunInChild([action] {
      MakePages();
      signal(SIGSEGV, action);
      ASSERT_TRUE(InstallFaultHandler(OnOurs));
      WriteBoth();
    });
    EXPECT_TRUE(result.ended_by(SIGSEGV)) << result.err;
  }
}

TEST(FaultSignalTest, SignalsThatSomebodySentFollowTheAction) {
  EXPECT_CHILD_OK([] {
    MakePages();
    signal(SIGSEGV, SIG_IGN);
    ASSERT_TRUE(InstallFaultHandler(OnOurs));
    raise(SIGSEGV);
    kill(getpid(), SIGSEGV);
    ASSERT_TRUE(Chain(Repair));
    raise(SIGSEGV);
    EXPECT_EQ(g_programs, 1);
  });
  const auto result = gleaner::testing::RunInChild([] {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer may have a handler
    ASSERT_TRUE(InstallFaultHandler(OnOurs));
    raise(SIGSEGV);
  });
  EXPECT_TRUE(result.ended_by(SIGSEGV)) << result.err;
}

// A child of vfork changes actions before it executes another program. They are its own.
__attribute__((noinline)) int ChangeActionInAChildOfVfork() {
  const pid_t child = vfork();
  if (child == 0) {
    const struct sigaction none = PlainAction(SIG_DFL);
    struct sigaction former;
    const bool right = ExchangeChainedAction(&none, &former) && former.sa_handler == Repair;
    WriteBoth();  // in its parent's memory, by its parent's handlers
    _exit(right ? 0 : 1);
  }
  return testing::StatusOf(child);
}

CHILD_TEST(FaultSignalTest, AChildOfVforkLeavesItsParentsAction) {
  MakePages();
  ASSERT_TRUE(OwnMemory());
  ASSERT_TRUE(InstallFaultHandler(OnOurs));
  ASSERT_TRUE(Chain(Repair));
  EXPECT_EQ(ChangeActionInAChildOfVfork(), 0);
  EXPECT_EQ(g_ours, 1);
  EXPECT_EQ(g_programs, 1);
  ProtectPages();
  WriteBoth();
  EXPECT_EQ(g_ours, 2);
  EXPECT_EQ(g_programs, 2);
}

CHILD_TEST(FaultSignalTest, ActionsChangeWhileOtherThreadsFault) {
  MakePages();
  ASSERT_TRUE(InstallFaultHandler(OnOurs));
  const struct sigaction one = PlainAction(Repair);
  struct sigaction other = {};
  other.sa_sigaction = RepairWithInformation;
  other.sa_flags = SA_SIGINFO | SA_NODEFER;
  ASSERT_TRUE(ExchangeChainedAction(&one, nullptr));
  std::atomic<bool> end{false};
  std::thread changer([&] {
    while (!end) {
      struct sigaction former;
      ASSERT_TRUE(ExchangeChainedAction(&other, &former));
      EXPECT_EQ(former.sa_handler, Repair);
      ASSERT_TRUE(ExchangeChainedAction(&one, &former));
      EXPECT_EQ(former.sa_sigaction, RepairWithInformation);
    }
  });
  for (gleaner::testing::Rounds rounds(20'000); rounds.Next();) {
    ProtectPages();
    WriteBoth();
    ASSERT_EQ(static_cast<uint64_t>(g_programs), rounds.current());
  }
  end = true;
  changer.join();
}

}  // namespace
}  // namespace gleaner::platform
