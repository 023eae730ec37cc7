// Concurrent collections where the system refuses something: mappings, userfaultfd, rights,
// memory. Nothing aborts, and nothing is lost.
#include "tests/support/refusals.h"

#include <gc/gc_mark.h>
#include <link.h>
#include <linux/userfaultfd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/concurrent/workload.h"

namespace {

using namespace gleaner::testing;

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
  EXPECT_CONCURRENT(result, 3);
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
      EXPECT_CONCURRENT(result, 1) << left;
    }
  }
}

// --- Mechanisms ---

const Environment kBothModes = {"GLEANER_COLLECT_EVERY=4m", "GLEANER_MARK_VERIFY=1",
                                "GLEANER_GENERATIONAL=2", "GC_FULL_FREQUENCY=2"};
constexpr char kNone[] = "writes to memory cannot be tracked";

// As a program asks that is refused: the first mechanism does not work, for the reason given.
struct Obstacle {
  const char* what;
  bool (*put)();  // false if that is not to be had here
  const char* reason;
};
constexpr Obstacle kObstacles[] = {
    {"the system call",
     [] {
       RefuseUserfaultfd();
       return true;
     },
     "userfaultfd: the system call is refused (errno 1)"},
    {"asynchronous mode",
     [] {
       Refuse(SYS_ioctl, static_cast<uint32_t>(UFFDIO_API));
       return true;
     },
     "userfaultfd: no asynchronous write protection in this kernel"},
    {"registration",
     [] {
       Refuse(SYS_ioctl, static_cast<uint32_t>(UFFDIO_REGISTER));
       return true;
     },
     "userfaultfd: UFFDIO_REGISTER is refused (errno 1)"},
    {"PAGEMAP_SCAN",
     [] {
       Refuse(SYS_ioctl, static_cast<uint32_t>(_IOWR('f', 16, char[96])));
       return true;
     },
     "userfaultfd: PAGEMAP_SCAN is refused (errno 1)"},
    {"/proc", HideProc, "userfaultfd: /proc/self/pagemap cannot be read (errno 2)"},
    {"descriptors",
     [] {
       const rlimit none = {3, 3};
       return setrlimit(RLIMIT_NOFILE, &none) == 0;
     },
     "userfaultfd: the system call is refused (errno 24)"},
    {"rights to its own files in /proc", [] { return getuid() == 0 && setuid(65534) == 0; },
     "userfaultfd: /proc/self/pagemap cannot be read (errno 13)"},
};

bool IsTracked(Tracking tracking) {
  for (const Tracking t : Trackings()) {
    if (t == tracking) return true;
  }
  return false;
}

// Both modes are on, by mprotect, for each reason that userfaultfd may be refused for.
TEST(RefusalsTest, ProtectionTakesThePlaceOfUserfaultfd) {
  const bool has_userfaultfd = IsTracked(Tracking::kUserfaultfd);
  for (const Obstacle& obstacle : kObstacles) {
    bool put = true;
    const auto result = RunIncremental(Tracking::kAuto, kBothModes, [&] {
      if (!obstacle.put()) _exit(77);
      GC_INIT();
      ExpectModes(true, true, "mprotect");
      gleaner_modes modes;
      gleaner_get_modes(&modes, sizeof modes);
      if (has_userfaultfd) {
        EXPECT_STREQ(modes.reason, obstacle.reason);
      }
      ChangeGraphs(2, 20);
      ExpectModes(true, true, "mprotect");
      gleaner_stats stats;
      gleaner_get_stats(&stats, sizeof stats);
      EXPECT_GT(stats.concurrent_collections, 0u);
      EXPECT_GT(stats.minor_collections, 0u);
    });
    if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 77) put = false;
    if (!put) {
      // Without root, of /proc and rights.
      EXPECT_NE(getuid(), 0u) << obstacle.what;
      continue;
    }
    EXPECT_CONCURRENT(result, 1) << obstacle.what;
    EXPECT_EQ(Count(result.err, kNone), 0u) << result.err;
    EXPECT_EQ(Count(result.err, "writes to memory are tracked by mprotect (userfaultfd: "), 1u)
        << result.err;
  }
}

// All mechanisms are refused: the collections stop the program, and one line says why.
TEST(RefusalsTest, WithoutAnyTheProgramIsStopped) {
  for (void (*refuse_protection)() :
       {+[] { Refuse(SYS_rt_sigaction, SIGSEGV, 0); }, RefuseReadOnlyMemory}) {
    const auto result = RunIncremental(Tracking::kAuto, kBothModes, [&] {
      RefuseUserfaultfd();
      refuse_protection();
      GC_INIT();
      ExpectModes(false, false, "none");
      gleaner_modes modes;
      gleaner_get_modes(&modes, sizeof modes);
      EXPECT_NE(strstr(modes.reason, "; mprotect: "), nullptr) << modes.reason;
      GC_enable_incremental();  // nothing new is to be said
      ChangeGraphs(1, 20);
      ExpectModes(false, false, "none");
    });
    EXPECT_CONCURRENT(result, 0);
    EXPECT_EQ(ConcurrentCycles(result) + Count(result.err, ", minor"), 0u) << result.err;
    EXPECT_EQ(Count(result.err, "no concurrent or generational collections"), 1u) << result.err;
    EXPECT_EQ(Count(result.err, kNone), 1u) << result.err;
  }
}

// A mechanism that is asked for by name is the only one.
TEST(RefusalsTest, NoOtherTakesThePlaceOfANamedOne) {
  const auto result = RunIncremental(Tracking::kUserfaultfd, kVerified, [] {
    RefuseUserfaultfd();
    GC_INIT();
    ExpectModes(false, false, "none");
    ChangeGraphs(1, 10);
  });
  EXPECT_CONCURRENT(result, 0);
  EXPECT_EQ(ConcurrentCycles(result), 0u) << result.err;
  EXPECT_EQ(Count(result.err, kNone), 1u) << result.err;
  EXPECT_EQ(Count(result.err, "(userfaultfd: the system call is refused (errno 1))"), 1u)
      << result.err;
}

// By GC_enable_incremental: the program can ask how it came out, and its user is told.
TEST(RefusalsTest, AProgramThatAsksIsToldSo) {
  for (const bool refuses : {false, true}) {
    const auto result = RunInChild([&] {
      RefuseUserfaultfd();
      if (refuses) RefuseReadOnlyMemory();
      GC_INIT();
      EXPECT_EQ(GC_is_incremental_mode(), 0);
      // What would be.
      EXPECT_EQ(GC_incremental_protection_needs(),
                refuses ? GC_PROTECTS_NONE : GC_PROTECTS_POINTER_HEAP);
      EXPECT_EQ(GC_get_supported_vdbs(), refuses ? GC_VDB_MANUAL : GC_VDB_MANUAL | GC_VDB_MPROTECT);
      GC_enable_incremental();
      GC_enable_incremental();
      ExpectModes(!refuses, false, refuses ? "none" : "mprotect");
      ChangeGraphs(1, 10);
    });
    EXPECT_TRUE(result.ok()) << result.err;
    EXPECT_EQ(Count(result.err, "no concurrent collections"), refuses ? 1u : 0u) << result.err;
  }
}

// The environment can forbid it.
TEST(RefusalsTest, AProgramThatAsksMayBeIgnored) {
  for (const bool concurrent : {false, true}) {
    const auto result = RunInChild([&] {
      setenv("GC_DISABLE_INCREMENTAL", "1", 1);
      if (concurrent) setenv("GLEANER_CONCURRENT", "1", 1);
      GC_INIT();
      GC_enable_incremental();
      EXPECT_EQ(GC_is_incremental_mode(), concurrent ? 1 : 0);
    });
    EXPECT_TRUE(result.ok()) << result.err;
  }
}

// The program closes all descriptors when tracking has long been in use, and no new ones are to be
// had.
TEST(RefusalsTest, ProtectionTakesThePlaceInTheMiddleOfIt) {
  if (!IsTracked(Tracking::kUserfaultfd)) return;  // no other needs descriptors
  for (const Tracking tracking : {Tracking::kAuto, Tracking::kUserfaultfd}) {
    const bool goes_on = tracking == Tracking::kAuto;
    const auto result = RunIncremental(tracking, kBothModes, [&] {
      GC_INIT();
      ExpectModes(true, true, "userfaultfd");
      ChangeGraphs(1, 10);
      const rlimit none = {3, 1024};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
      for (int fd = 3; fd < 1024; ++fd) close(fd);
      ChangeGraphs(2, 40);
      ExpectModes(goes_on, goes_on, goes_on ? "mprotect" : "none");
      const size_t before = GC_get_gc_no();
      gleaner_stats stats;
      gleaner_get_stats(&stats, sizeof stats);
      const uint64_t concurrent = stats.concurrent_collections;
      ChangeGraphs(2, 20);
      gleaner_get_stats(&stats, sizeof stats);
      EXPECT_EQ(stats.concurrent_collections != concurrent, goes_on) << before;
      ExpectModes(goes_on, goes_on, goes_on ? "mprotect" : "none");
    });
    EXPECT_CONCURRENT(result, 1);
    EXPECT_EQ(Count(result.err, kNone), goes_on ? 0u : 1u) << result.err;
  }
}

// A child that may not what its parent may.
TEST(RefusalsTest, ProtectionTakesThePlaceInAForkedChild) {
  if (!IsTracked(Tracking::kUserfaultfd)) return;  // the child has what its parent has
  const auto result = RunIncremental(Tracking::kAuto, kBothModes, [] {
    GC_set_handle_fork(1);
    GC_INIT();
    ExpectModes(true, true, "userfaultfd");
    ChangeGraphs(1, 10);
    EXPECT_CHILD_OK([] {
      RefuseUserfaultfd();
      ChangeGraphs(1, 40);
      ExpectModes(true, true, "mprotect");
    });
    ChangeGraphs(1, 10);
    ExpectModes(true, true, "userfaultfd");
  });
  EXPECT_CONCURRENT(result, 1);
}

// Some hundred microseconds.
void SpinAWhile() {
  for (int i = 0; i < 200'000; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
}

// And the loader's lock is a thread's that is gone, in half of the children.
TEST(RefusalsTest, ProtectionTakesThePlaceWhereTheLoaderCannotBeAsked) {
  if (!IsTracked(Tracking::kUserfaultfd)) return;  // as above
  const auto result = RunIncremental(Tracking::kAuto, kBothModes, [] {
    GC_set_handle_fork(1);
    GC_INIT();
    ExpectModes(true, true, "userfaultfd");
    std::thread([] {
      // It does not sleep: the library has had the lock before the fork, and a sleeper would wake
      // too late to have it again. It has the lock half of the time, and long enough without it for
      // one who waits to wake: nobody hands the lock over.
      const auto hold = [](dl_phdr_info*, size_t, void*) {
        SpinAWhile();
        return 1;
      };
      for (;;) {
        dl_iterate_phdr(hold, nullptr);
        SpinAWhile();
      }
    }).detach();
    for (int i = 0; i < 10; ++i) {
      EXPECT_CHILD_OK([] {
        RefuseUserfaultfd();
        ChangeGraphs(1, 10);
        ExpectModes(true, true, "mprotect");
      });
    }
    ChangeGraphs(1, 10);
  });
  EXPECT_CONCURRENT(result, 1);
}

// A program announces its stores, and there is no room for cards.
TEST(RefusalsTest, PagesTakeThePlaceOfCards) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the memory itself";
  const auto result = RunInChild([] {
    GC_set_manual_vdb_allowed(1);
    GC_INIT();
    const Limit limit(RLIMIT_DATA, 100 * kMiB);
    GC_enable_incremental();
    gleaner_modes modes;
    gleaner_get_modes(&modes, sizeof modes);
    EXPECT_EQ(modes.concurrent, 1);
    EXPECT_STRNE(modes.tracking, "cards");
    EXPECT_EQ(strstr(modes.reason, "cards: no address space for its table"), modes.reason)
        << modes.reason;
  });
  EXPECT_TRUE(result.ok()) << result.err;
  EXPECT_EQ(Count(result.err, kNone), 0u) << result.err;
}

// Who asks for leaks has no other mode.
TEST(RefusalsTest, LeaksAreFoundByStops) {
  const auto result = RunIncremental(Tracking::kAuto, kVerified, [] {
    GC_INIT();
    gleaner_modes modes;
    gleaner_get_modes(&modes, sizeof modes);
    EXPECT_EQ(modes.concurrent, 1);
    GC_set_find_leak(1);
    gleaner_get_modes(&modes, sizeof modes);
    EXPECT_EQ(modes.concurrent, 0);
    GC_set_find_leak(0);
  });
  EXPECT_TRUE(result.ok()) << result.err;
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
    EXPECT_CONCURRENT(result, 3) << "installed before: " << before;
  }
}

// Objects count their scans, as Guile notes in a stack of its virtual machine that it was scanned;
// helpers mark, too.
struct Counting {
  uint64_t scans;
  Counting* next;
};
GC_ms_entry* ScanCounting(GC_word* object, GC_ms_entry* top, GC_ms_entry* limit, GC_word) {
  auto* counting = reinterpret_cast<Counting*>(object);
  // Relaxed: on a free list next may be anything, and the same object may be scanned twice at once.
  __atomic_fetch_add(&counting->scans, 1, __ATOMIC_RELAXED);
  return GC_MARK_AND_PUSH(counting->next, top, limit, reinterpret_cast<void**>(&counting->next));
}

TEST(FaultHandlerTest, MarkProceduresMayWriteIntoObjects) {
  const Environment four = {"GLEANER_COLLECT_EVERY=4m", "GLEANER_MARKERS=4"};
  const auto result = RunIncremental(Tracking::kProtection, four, [] {
    GC_INIT();
    const unsigned kind =
        GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(ScanCounting), 0), 0, 1);
    // Many short lists, so that there is work for all markers.
    constexpr size_t kLists = 2000;
    auto** lists = static_cast<Counting**>(GC_malloc(kLists * sizeof(Counting*)));
    for (size_t i = 0; i < 50 * kLists; ++i) {
      auto* object = static_cast<Counting*>(GC_generic_malloc(sizeof(Counting), kind));
      object->next = lists[i % kLists];
      lists[i % kLists] = object;
    }
    ChangeGraphs(2, 40);
    for (size_t i = 0; i < kLists; ++i) {
      size_t length = 0;
      for (const Counting* object = lists[i]; object != nullptr; object = object->next) {
        EXPECT_GT(object->scans, 0u);
        ++length;
      }
      ASSERT_EQ(length, 50u);
    }
  });
  EXPECT_CONCURRENT(result, 3);
}

void BlockAllButTheCollectors() {
  sigset_t all;
  sigfillset(&all);
  for (const int open : {GC_get_suspend_signal(), GC_get_thr_restart_signal(), SIGALRM}) {
    sigdelset(&all, open);
  }
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
}

// Signals that are blocked before there is a heap.
TEST(FaultHandlerTest, SignalsMayBeBlockedBeforeTheStart) {
  const auto result = RunIncremental(Tracking::kProtection, kVerified, [] {
    BlockAllButTheCollectors();
    GC_INIT();
    ChangeGraphs(2, 40);
  });
  EXPECT_CONCURRENT(result, 3);
}

// Signals that threads block which run already when the mode is turned on.
TEST(FaultHandlerTest, SignalsMayBeBlockedInThreadsThatRunAlready) {
  const auto result = RunInChild([] {
    for (const char* entry : {"GLEANER_WRITE_TRACKING=mprotect", "GLEANER_SHORT_PAUSE=0",
                              "GC_PRINT_STATS=1", "GLEANER_COLLECT_EVERY=4m"}) {
      putenv(const_cast<char*>(entry));
    }
    GC_INIT();
    BlockAllButTheCollectors();
    // One is in a blocking section then, where no stop finds it.
    static std::atomic<bool> is_on{false};
    static std::atomic<bool> is_over{false};
    pthread_t sleeper;
    ASSERT_EQ(pthread_create(
                  &sleeper, nullptr,
                  [](void*) -> void* {
                    auto** objects = static_cast<void**>(GC_malloc(64 * 4096));
                    const auto sleep = [](void*) -> void* {
                      while (!is_on) usleep(1000);
                      for (const GC_word n = GC_get_gc_no(); GC_get_gc_no() < n + 2;) usleep(100);
                      return nullptr;
                    };
                    GC_do_blocking(sleep, nullptr);
                    for (size_t i = 0; !is_over; ++i) objects[i * 512 % (64 * 512)] = nullptr;
                    return nullptr;
                  },
                  nullptr),
              0);
    Party party;
    ChangeGraphs(2, 40, &party, [&] {
      if (GC_get_gc_no() > 2 && !is_on) {
        GC_enable_incremental();
        ExpectModes(true, false, "mprotect");
        is_on = true;
      }
      usleep(1000);
    });
    EXPECT_TRUE(is_on);
    is_over = true;
    ASSERT_EQ(pthread_join(sleeper, nullptr), 0);
  });
  EXPECT_CONCURRENT(result, 3);
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
    EXPECT_CONCURRENT(result, 3) << NameOf(tracking);
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
    EXPECT_CONCURRENT(result, 4) << NameOf(tracking);
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
    EXPECT_CONCURRENT(result, 3) << NameOf(tracking);
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
      EXPECT_CONCURRENT(result, 0) << NameOf(tracking) << ", " << mib << " MiB";
      const bool told = Count(result.err, "cannot be tracked") != 0;
      EXPECT_NE(told, ConcurrentCycles(result) > 0) << result.err;
    }
  }
}

}  // namespace
