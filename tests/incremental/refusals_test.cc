// Collections beside the program where the system refuses something: mappings, userfaultfd, rights,
// memory. Nothing aborts, and nothing is lost.
#include "tests/support/refusals.h"

#include <csignal>

#include "tests/incremental/workload.h"

namespace {

using namespace gleaner::testing;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kAddressSanitizer = true;  // needs memory, mappings and signals of its own
#else
constexpr bool kAddressSanitizer = false;
#endif

// --- Mappings ---

TEST(MappingsTest, AThousandAreEnoughForProtection) {
  const auto allowed = RunInChild([] { ASSERT_TRUE(ShowMapCount("1000\n")); });
  if (!allowed.ok()) GTEST_SKIP() << "a mount namespace is not to be had here";
  const auto result = RunIncremental(Tracking::kProtection, kVerified, [] {
    ASSERT_TRUE(ShowMapCount("1000\n"));
    GC_INIT();
    Party party;
    party.places = 20000;
    size_t most = 0;
    ChangeGraphs(2, 40, &party, [&most] {
      most = std::max(most, MappingsOfProcess());
      usleep(2000);
    });
    EXPECT_EQ(party.refused, 0u);
    EXPECT_LT(most, 1000u);
  });
  EXPECT_BESIDE(result, 3);
}

// The system's limit, whatever it is, and this process nearly there: it is refused in earnest.
TEST(MappingsTest, NoneAreLeft) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs mappings itself";
  for (const Tracking tracking : Trackings()) {
    for (const size_t left : {1000, 100, 30}) {
      const auto result = RunIncremental(tracking, kUnverified, [left] {
        GC_INIT();
        // Started before, as stacks need mappings, too.
        Party party;
        bool used_up = false;
        ChangeGraphs(2, 40, &party, [&] {
          if (!used_up) UseUpMappings(left);
          used_up = true;
          usleep(2000);
        });
      });
      EXPECT_BESIDE(result, 1) << left;
    }
  }
}

// --- Userfaultfd ---

TEST(UserfaultfdRefusedTest, CollectionsStopTheProgramInstead) {
  const auto result = RunIncremental(Tracking::kUserfaultfd, kVerified, [] {
    RefuseUserfaultfd();
    GC_INIT();
    EXPECT_EQ(GC_is_incremental_mode(), 0);
    ChangeGraphs(2, 40);
  });
  EXPECT_BESIDE(result, 0);
  EXPECT_EQ(CyclesBeside(result), 0u) << result.err;
  EXPECT_EQ(Count(result.err, "writes to memory cannot be tracked by userfaultfd here"), 1u)
      << result.err;
}

TEST(UserfaultfdRefusedTest, ProtectionIsToBeHadStill) {
  const auto result = RunIncremental(Tracking::kProtection, kVerified, [] {
    RefuseUserfaultfd();
    GC_INIT();
    EXPECT_NE(GC_is_incremental_mode(), 0);
    ChangeGraphs(2, 40);
  });
  EXPECT_BESIDE(result, 3);
}

// By GC_enable_incremental the program can ask how it came out; nothing is printed.
TEST(UserfaultfdRefusedTest, AProgramThatAsksIsToldSo) {
  const auto result = RunInChild([] {
    RefuseUserfaultfd();
    GC_INIT();
    GC_enable_incremental();
    EXPECT_EQ(GC_is_incremental_mode(), 0);
    ChangeGraphs(1, 10);
  });
  EXPECT_TRUE(result.ok()) << result.err;
  EXPECT_EQ(Count(result.err, "cannot be tracked"), 0u) << result.err;
}

// The program closes all descriptors when tracking has long been in use, and no new ones are to be
// had.
TEST(UserfaultfdRefusedTest, InTheMiddleOfIt) {
  const auto result = RunIncremental(Tracking::kUserfaultfd, kVerified, [] {
    GC_INIT();
    EXPECT_NE(GC_is_incremental_mode(), 0);
    ChangeGraphs(1, 10);
    const rlimit none = {3, 1024};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    ChangeGraphs(2, 40);
    EXPECT_EQ(GC_is_incremental_mode(), 0);
  });
  EXPECT_BESIDE(result, 1);
  EXPECT_EQ(Count(result.err, "cannot be tracked by userfaultfd any more"), 1u) << result.err;
}

// --- Signals under mprotect ---

#ifndef __SANITIZE_ADDRESS__
size_t g_page_bytes = 4096;
char* g_own_page;
std::atomic<size_t> g_own_faults{0};

// The program's own: a page of its own that it protects now and then.
void OnOwnFault(int, siginfo_t* info, void*) {
  if (info->si_addr != g_own_page) {
    const char text[] = "a fault that is not the program's reached its handler\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
  }
  g_own_faults.fetch_add(1);
  mprotect(g_own_page, g_page_bytes, PROT_READ | PROT_WRITE);
}

void InstallOwnHandler() {
  g_own_page = static_cast<char*>(
      mmap(nullptr, g_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(g_own_page, MAP_FAILED);
  struct sigaction action = {};
  action.sa_sigaction = OnOwnFault;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}

TEST(FaultHandlerTest, TheProgramsOwnFaultsGoToItsHandler) {
  for (const bool before : {true, false}) {
    const auto result = RunIncremental(Tracking::kProtection, kVerified, [before] {
      if (before) InstallOwnHandler();
      GC_INIT();
      if (!before) InstallOwnHandler();
      Party party;
      size_t own = 0;
      ChangeGraphs(2, 40, &party, [&own] {
        mprotect(g_own_page, g_page_bytes, PROT_NONE);
        *static_cast<volatile char*>(g_own_page) = 1;
        ++own;
        usleep(1000);
      });
      EXPECT_GT(own, 0u);
      EXPECT_EQ(g_own_faults, own);
      struct sigaction action;
      ASSERT_EQ(sigaction(SIGSEGV, nullptr, &action), 0);
      EXPECT_EQ(action.sa_sigaction, OnOwnFault);
    });
    EXPECT_BESIDE(result, 3) << "installed before: " << before;
  }
}

// Who blocks all signals but that of the collector stores into the heap nevertheless.
TEST(FaultHandlerTest, ThreadsMayBlockAllSignals) {
  const auto result = RunIncremental(Tracking::kProtection, kVerified, [] {
    GC_INIT();
    sigset_t all;
    sigset_t blocked;
    sigfillset(&all);
    for (const int open : {GC_get_suspend_signal(), GC_get_thr_restart_signal(), SIGALRM}) {
      sigdelset(&all, open);
    }
    ASSERT_EQ(sigprocmask(SIG_SETMASK, &all, nullptr), 0);
    ASSERT_EQ(sigprocmask(SIG_SETMASK, nullptr, &blocked), 0);
    EXPECT_EQ(sigismember(&blocked, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
    ChangeGraphs(2, 40);
  });
  EXPECT_BESIDE(result, 3);
}
#endif

// --- Rights ---

TEST(OrdinaryUserTest, Collects) {
  for (const Tracking tracking : Trackings()) {
    const auto result = RunIncremental(tracking, kVerified, [] {
      BecomeAnOrdinaryUser();
      GC_INIT();
      EXPECT_NE(GC_is_incremental_mode(), 0);
      ChangeGraphs(2, 40);
    });
    EXPECT_BESIDE(result, 3) << NameOf(tracking);
  }
}

// A daemon that starts as root.
TEST(OrdinaryUserTest, RightsAreGivenUpInTheMiddleOfIt) {
  if (getuid() != 0) GTEST_SKIP() << "only root has rights to give up";
  for (const Tracking tracking : Trackings()) {
    const auto result = RunIncremental(tracking, kVerified, [] {
      GC_INIT();
      ChangeGraphs(1, 10);
      ASSERT_EQ(setuid(65534), 0);
      ChangeGraphs(2, 40);
      EXPECT_NE(GC_is_incremental_mode(), 0);
    });
    EXPECT_BESIDE(result, 4) << NameOf(tracking);
  }
}

// --- Memory ---

TEST(MemoryLimitTest, InsideACgroup) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the memory itself";
  const MemoryGroup group(96 * kMiB);
  if (!group.made()) GTEST_SKIP() << "no memory cgroup of ours to be had";
  for (const Tracking tracking : Trackings()) {
    const auto result = RunIncremental(tracking, kVerified, [&group] {
      group.Enter();
      GC_INIT();
      EXPECT_NE(GC_is_incremental_mode(), 0);
      ChangeGraphs(2, 60);
    });
    EXPECT_BESIDE(result, 3) << NameOf(tracking);
  }
}

// With little address space the tables may not be to be had: then the program is stopped.
TEST(MemoryLimitTest, LittleAddressSpace) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the address space itself";
  for (const Tracking tracking : Trackings()) {
    for (const size_t mib : {200, 400, 2000}) {
      const auto result = RunIncremental(tracking, kUnverified, [mib] {
        const Limit limit(RLIMIT_AS, mib * kMiB);
        GC_INIT();
        Party party;
        party.places = 2000;
        ChangeGraphs(2, 40, &party, Doze);
      });
      EXPECT_BESIDE(result, 0) << NameOf(tracking) << ", " << mib << " MiB";
      const bool told = Count(result.err, "cannot be tracked") != 0;
      EXPECT_NE(told, CyclesBeside(result) > 0) << result.err;
    }
  }
}

}  // namespace
