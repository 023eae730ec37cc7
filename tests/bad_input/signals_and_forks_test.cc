// Programs whose every system call is interrupted, and programs that fork while their threads
// allocate and collect.
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "tests/bad_input/bad_input.h"

namespace {

using namespace gleaner::testing;

constexpr unsigned kSlowdown = kAddressSanitizer ? 4 : 1;

std::atomic<bool> g_stop{false};
std::atomic<int> g_wrong{0};
std::atomic<uint64_t> g_lists{0};
std::atomic<uint64_t> g_alarms{0};

// Keeps one list for long, and makes and drops others.
void* Work(void*) {
  Node* kept = MakeList(20000);
  for (unsigned round = 0; !g_stop; ++round) {
    if (!IsIntact(MakeList(2000), 2000)) ++g_wrong;
    if (round % 20 == 0) GC_gcollect();
    if (round % 64 == 0) {
      if (!IsIntact(kept, 20000)) ++g_wrong;
      kept = MakeList(20000);
    }
    ++g_lists;
  }
  if (!IsIntact(kept, 20000)) ++g_wrong;
  return nullptr;
}

class Workers {
 public:
  explicit Workers(int count) : count_(count) {
    g_stop = false;
    for (int i = 0; i < count_; ++i) {
      EXPECT_EQ(pthread_create(&threads_[i], nullptr, Work, nullptr), 0);
    }
  }
  void Join() {
    g_stop = true;
    for (int i = 0; i < count_; ++i) EXPECT_EQ(pthread_join(threads_[i], nullptr), 0);
    EXPECT_EQ(g_wrong, 0);
  }

 private:
  const int count_;
  pthread_t threads_[16];
};

// --- Signals ---

void OnAlarm(int) { ++g_alarms; }

void Interrupt(int which, int signal, int flags, long microseconds) {
  struct sigaction action = {};
  action.sa_handler = OnAlarm;
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
  const itimerval timer = {{0, microseconds}, {0, microseconds}};
  ASSERT_EQ(setitimer(static_cast<__itimer_which>(which), &timer, nullptr), 0);
}

// The handler itself does nothing to the heap. With and without SA_RESTART, by wall clock and by
// processor time; the first mark may be in any thread, the helpers of the marker included.
void CollectUnderSignals(int which, int signal, int flags) {
  const ChildResult result = RunInChild(
      [=] {
        setenv("GLEANER_MARKERS", "3", 1);
        GC_INIT();
        Interrupt(which, signal, flags, 1000);
        Workers workers(3);
        Node* mine = MakeList(100000);
        const size_t collections = GC_get_gc_no();
        for (int i = 0; i < 200; ++i) {
          GC_gcollect();
          if (i % 20 == 0) {
            ASSERT_TRUE(IsIntact(mine, 100000));
          }
        }
        workers.Join();
        EXPECT_TRUE(IsIntact(mine, 100000));
        EXPECT_GE(GC_get_gc_no(), collections + 200);
        const itimerval off = {};
        setitimer(static_cast<__itimer_which>(which), &off, nullptr);
        EXPECT_GT(g_alarms, 20u);
        EXPECT_GT(g_lists, 0u);
        fprintf(stderr, "%llu signals, %llu lists, %llu collections\n",
                static_cast<unsigned long long>(g_alarms), static_cast<unsigned long long>(g_lists),
                static_cast<unsigned long long>(GC_get_gc_no()));
      },
      100);
  EXPECT_OK(result);
  printf("%s", result.err.c_str());
}

TEST(SignalTest, AThousandAlarmsASecond) { CollectUnderSignals(ITIMER_REAL, SIGALRM, 0); }
TEST(SignalTest, AThousandAlarmsASecondRestarting) {
  CollectUnderSignals(ITIMER_REAL, SIGALRM, SA_RESTART);
}
TEST(SignalTest, AProfiler) { CollectUnderSignals(ITIMER_PROF, SIGPROF, SA_RESTART); }

// --- Forks ---

constexpr size_t kChildNodes = 10 * 1024 * 1024 / sizeof(Node);  // 10 MiB

Node* g_old;

// 0 if the child found everything right.
int InForkedChild() {
  alarm(240);
  if (!IsIntact(g_old, 50000)) return 2;
  Node* list = MakeList(kChildNodes);
  if (!IsIntact(list, kChildNodes)) return 3;
  GC_gcollect();
  if (!IsIntact(list, kChildNodes)) return 4;
  if (!IsIntact(g_old, 50000)) return 5;
  // A thread here gets the stack of one that has vanished, with frames that the sanitizer takes for
  // live ones.
  if (kAddressSanitizer) return 0;
  pthread_t thread;
  const auto allocate = [](void*) -> void* {
    return IsIntact(MakeList(1000), 1000) ? nullptr : g_old;
  };
  if (pthread_create(&thread, nullptr, allocate, nullptr) != 0) return 6;
  GC_gcollect();
  void* wrong = nullptr;
  if (pthread_join(thread, &wrong) != 0 || wrong != nullptr) return 7;
  return IsIntact(list, kChildNodes) ? 0 : 8;
}

struct Forker {
  int forks;
  int failed;
};

void* ForkOften(void* argument) {
  auto* forker = static_cast<Forker*>(argument);
  for (int i = 0; i < forker->forks; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(InForkedChild());
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "fork %d: child %d, status 0x%x\n", i, child, status);
      ++forker->failed;
      return nullptr;
    }
  }
  return nullptr;
}

// Half of the forks from the first thread, half from another, at the same time.
void ForkUnderLoad(const char* policy, int times) {
  const ChildResult result = RunInChild(
      [policy, times] {
        setenv("GLEANER_POLICY", policy, 1);
        setenv("GLEANER_MARKERS", "3", 1);
        GC_set_handle_fork(1);
        GC_INIT();
        g_old = MakeList(50000);
        Workers workers(4);
        const int forks = times / static_cast<int>(kSlowdown);
        Forker forkers[2] = {{forks / 2, 0}, {forks / 2, 0}};
        pthread_t thread;
        ASSERT_EQ(pthread_create(&thread, nullptr, ForkOften, &forkers[1]), 0);
        ForkOften(&forkers[0]);
        ASSERT_EQ(pthread_join(thread, nullptr), 0);
        EXPECT_EQ(forkers[0].failed, 0);
        EXPECT_EQ(forkers[1].failed, 0);
        workers.Join();
        EXPECT_TRUE(IsIntact(g_old, 50000));
        GC_gcollect();
        EXPECT_TRUE(IsIntact(g_old, 50000));
      },
      200);
  EXPECT_OK(result);
}

TEST(ForkTest, TwoHundredTimesUnderLoadLps) { ForkUnderLoad("lps", 200); }
TEST(ForkTest, FiftyTimesUnderLoadAl) { ForkUnderLoad("al", 50); }
TEST(ForkTest, FiftyTimesUnderLoadPs) { ForkUnderLoad("ps", 50); }

}  // namespace
