// Programs whose signal handlers move pointers: a handler takes the only reference to objects out
// of a global, uses them, and puts it back, whatever the thread does in the library meanwhile.
#include <fcntl.h>
#include <gleaner.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <random>

#include "platform/os/atomic.h"
#include "platform/os/clock.h"
#include "tests/bad_input/bad_input.h"
#include "tests/support/sleep.h"
#include "tests/support/thread_state.h"

namespace {

using namespace gleaner::testing;
using gleaner::platform::NowNs;
using gleaner::testing::SleepNs;

// The slots of all that is dead get other contents.
void Overwrite() {
  for (int round = 0; round < 100; ++round) MakeList(2 * kNodes);
}

// --- One handler, at a chosen place ---

Slot g_slot;
std::atomic<bool> g_is_hidden{false};
std::atomic<bool> g_is_overwritten{false};
std::atomic<size_t> g_lost{0};
std::atomic<int> g_handled{0};
std::atomic<bool> g_go{false};
std::atomic<bool> g_over{false};
std::atomic<int32_t> g_tid{0};
pthread_t g_thread;

void Hide(int) {
  Node* volatile mine = g_slot.list;
  g_slot.list = nullptr;
  g_is_hidden = true;
  while (!g_is_overwritten) SleepNs(100'000);
  g_lost += CountLost(g_slot, mine);
  g_slot.list = mine;
  ++g_handled;
}

void HandleWith(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
}

// The other thread is sent on, into the library, where it waits; then it gets the signal. Its
// handler may run at once, or wait.
void InterruptTheOther() {
  g_go = true;
  AwaitSleep(g_tid);
  ASSERT_EQ(pthread_kill(g_thread, SIGUSR1), 0);
  for (int i = 0; i < 50 && !g_is_hidden; ++i) SleepNs(1'000'000);
}

// Collects, and interrupts the other thread at the event.
std::atomic<int> g_event{-1};
void OnEvent(GC_EventType event) {
  if (g_event.load() != event) return;
  g_event = -1;
  InterruptTheOther();
}

void CollectAndInterrupt(GC_EventType event, void* (*other)(void*)) {
  const ChildResult result = RunWith({}, [event, other] {
    GC_INIT();
    HandleWith(Hide);
    Fill(&g_slot);
    GC_set_on_collection_event(OnEvent);
    ASSERT_EQ(pthread_create(&g_thread, nullptr, other, nullptr), 0);
    while (g_tid == 0) SleepNs(100'000);
    g_event = event;
    GC_gcollect();
    EXPECT_EQ(g_event, -1);
    Overwrite();
    GC_gcollect();
    Overwrite();
    g_is_overwritten = true;
    g_over = true;
    ASSERT_EQ(pthread_join(g_thread, nullptr), 0);
    EXPECT_EQ(g_handled, 1);
    EXPECT_EQ(g_lost, 0u) << "of " << kNodes;
    EXPECT_EQ(CountLost(g_slot, g_slot.list), 0u);
  });
  EXPECT_OK(result);
}

void AwaitGo() {
  while (!g_go) gleaner::platform::CpuRelax();
}

TEST(HandlersTest, AThreadThatWaitsForAnothersCollection) {
  CollectAndInterrupt(GC_EVENT_START, [](void*) -> void* {
    GC_malloc(1);
    g_tid = gettid();
    AwaitGo();
    GC_gcollect();
    while (!g_over) SleepNs(100'000);
    return nullptr;
  });
}

// The promise not to touch the heap is that of the function, and the handler runs after it.
TEST(HandlersTest, AThreadThatLeavesABlockingSectionInAStoppedWorld) {
  CollectAndInterrupt(GC_EVENT_POST_STOP_WORLD, [](void*) -> void* {
    GC_malloc(1);
    g_tid = gettid();
    GC_do_blocking(
        [](void*) -> void* {
          AwaitGo();
          return nullptr;
        },
        nullptr);
    while (!g_over) SleepNs(100'000);
    return nullptr;
  });
}

// Whoever has the allocation lock waits for a handler on a thread that waits for that lock.
TEST(HandlersTest, AHandlerOfAThreadThatWaitsForTheLockRunsBeforeTheLockIsFree) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    HandleWith([](int) { g_is_hidden = true; });
    const auto collect = [](void*) -> void* {
      GC_malloc(1);
      g_tid = gettid();
      AwaitGo();
      GC_gcollect();
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&g_thread, nullptr, collect, nullptr), 0);
    while (g_tid == 0) SleepNs(100'000);
    GC_call_with_alloc_lock(
        [](void*) -> void* {
          InterruptTheOther();
          while (!g_is_hidden) SleepNs(100'000);
          return nullptr;
        },
        nullptr);
    ASSERT_EQ(pthread_join(g_thread, nullptr), 0);
  });
  EXPECT_OK(result);
}

// --- Signals that are waited for ---

void* CollectToTheEnd(void*) {
  while (!g_over) {
    MakeList(500);
    GC_gcollect();
  }
  return nullptr;
}

// What the program blocks and waits for arrives, whoever else is stopped meanwhile: all that it can
// have but the signals that docs/reference/compatibility.md names.
TEST(HandlersTest, SignalsThatAreWaitedForArrive) {
  InEachMode([] {
    sigset_t waited;
    sigemptyset(&waited);
    for (const int number :
         {SIGUSR1, SIGUSR2, SIGTERM, SIGCHLD, SIGRTMIN, SIGRTMIN + 1, SIGRTMAX - 1, SIGRTMAX}) {
      sigaddset(&waited, number);
    }
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &waited, nullptr), 0);
    GC_INIT();
    const int file = signalfd(-1, &waited, SFD_CLOEXEC);
    ASSERT_GE(file, 0);
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, CollectToTheEnd, nullptr), 0);
    const timespec limit = {20, 0};
    for (int round = 0; round < 20; ++round) {
      for (int number = 1; number <= SIGRTMAX; ++number) {
        if (sigismember(&waited, number) == 0) continue;
        ASSERT_EQ(kill(getpid(), number), 0);
        if (round % 2 == 0) {
          int arrived;
          while ((arrived = sigtimedwait(&waited, nullptr, &limit)) < 0 && errno == EINTR) {
          }
          ASSERT_EQ(arrived, number);
        } else {
          signalfd_siginfo arrived;
          while (read(file, &arrived, sizeof arrived) < 0 && errno == EINTR) {
          }
          ASSERT_EQ(arrived.ssi_signo, static_cast<uint32_t>(number));
        }
      }
    }
    g_over = true;
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
  });
}

// --- A handler that forks, anywhere ---

// No lock is waited for that the thread has itself, or whose holder waits for the thread.
constexpr int kForks = kAddressSanitizer ? 10 : 100;  // there a fork takes long

// Once: what takes longer than the interval would leave the thread no time of its own.
void SetAlarm() {
  const itimerval timer = {{0, 0}, {0, 1000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

TEST(HandlersTest, AHandlerForks) {
  InEachMode([] {
    GC_INIT();
    pthread_t thread;
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &alarms, nullptr), 0);
    ASSERT_EQ(pthread_create(&thread, nullptr, CollectToTheEnd, nullptr), 0);
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr), 0);
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const int saved = errno;
      const pid_t child = fork();
      if (child == 0) _exit(0);
      int status = -1;
      if (waitpid(child, &status, 0) != child || status != 0) ++g_lost;
      if (++g_handled < kForks) SetAlarm();
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
    SetAlarm();
    while (g_handled < kForks) {
      Node* list = MakeList(kNodes);
      GC_malloc(20'000);
      for (size_t left = kNodes; left-- != 0; list = list->next) {
        ASSERT_EQ(list->number, ~left);
        if (left % 3 == 0) GC_free(GC_malloc(64));
      }
    }
    EXPECT_EQ(g_lost, 0u);
    g_over = true;
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
  });
}

// --- Many handlers, anywhere ---

constexpr int kWorkers = 3;

struct Worker {
  pthread_t thread;
  std::atomic<bool> ready{false};
};
Worker g_workers[kWorkers];
// What the handlers of a worker hide. Data of the program.
Slot g_slots[kWorkers];
__thread int t_worker;
__thread uint32_t t_draws;

void HideForAWhile(int) {
  const int saved = errno;
  Node* volatile mine = g_slots[t_worker].list;
  g_slots[t_worker].list = nullptr;
  t_draws = t_draws * 1664525 + 1013904223;
  const uint64_t end_ns = NowNs() + (t_draws >> 8) % 400'000;
  while (NowNs() < end_ns) gleaner::platform::CpuRelax();
  g_lost += CountLost(g_slots[t_worker], mine);
  g_slots[t_worker].list = mine;
  ++g_handled;
  errno = saved;
}

// Allocates, collects, and blocks; the handlers run meanwhile.
void* Work(void* data) {
  auto* self = static_cast<Worker*>(data);
  t_worker = static_cast<int>(self - g_workers);
  t_draws = static_cast<uint32_t>(t_worker + 1) * 2654435761u;
  GC_malloc(1);
  self->ready = true;
  for (unsigned round = 0; !g_over; ++round) {
    MakeList(500);
    if (round % 50 == 0) GC_gcollect();
    if (round % 8 == 0) GC_malloc_atomic(200'000);
  }
  return nullptr;
}

void InterruptEverywhere(std::initializer_list<const char*> environment, bool incremental) {
  constexpr unsigned kSeed = 1;
  constexpr int kHandlers = 2500;
  printf("seed %u\n", kSeed);
  const ChildResult result = RunWith(environment, [incremental] {
    GC_INIT();
    EXPECT_EQ(GC_is_incremental_mode() != 0, incremental);
    HandleWith(HideForAWhile);
    for (Slot& slot : g_slots) Fill(&slot);
    for (Worker& worker : g_workers) {
      ASSERT_EQ(pthread_create(&worker.thread, nullptr, Work, &worker), 0);
      while (!worker.ready) SleepNs(100'000);
    }
    std::mt19937 random(kSeed);
    while (g_handled < kHandlers) {
      ASSERT_EQ(pthread_kill(g_workers[random() % kWorkers].thread, SIGUSR1), 0);
      SleepNs(random() % 300'000);
    }
    g_over = true;
    for (Worker& worker : g_workers) ASSERT_EQ(pthread_join(worker.thread, nullptr), 0);
    EXPECT_EQ(g_lost, 0u);
    for (const Slot& slot : g_slots) EXPECT_EQ(CountLost(slot, slot.list), 0u);
    fprintf(stderr, "%d handlers, %llu collections\n", g_handled.load(),
            static_cast<unsigned long long>(GC_get_gc_no()));
  });
  EXPECT_OK(result);
  printf("%s", result.err.c_str());
}

TEST(HandlersTest, Anywhere) { InterruptEverywhere({}, false); }
TEST(HandlersTest, AnywhereConcurrent) { InterruptEverywhere({"GLEANER_CONCURRENT=1"}, true); }
TEST(HandlersTest, AnywhereConcurrentInSteps) {
  InterruptEverywhere({"GLEANER_CONCURRENT=1", "GLEANER_CYCLE_SLICE=64k"}, true);
}
TEST(HandlersTest, AnywhereGenerational) { InterruptEverywhere({"GLEANER_GENERATIONAL=1"}, false); }

}  // namespace
