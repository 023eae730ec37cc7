// Stops of threads that park, block and leave blocking sections, and what becomes of their signals.
#include "platform/threads/stop_world.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "platform/threads/thread.h"
#include "tests/support/child.h"
#include "tests/support/sleep.h"
#include "tests/support/thread_state.h"

namespace gleaner::platform {
namespace {

constexpr uint64_t kPatienceNs = 20'000'000'000;

std::atomic<int> g_handled{0};

// A thread that can be stopped.
class Mutator {
 public:
  template <class F>
  explicit Mutator(F f)
      : thread_([this, f] {
          record_.tid = CurrentThreadId();
          record_.thread_pointer = CurrentThreadPointer();
          AdoptRecord(&record_);
          UnblockSuspendSignal();
          ready_ = true;
          f(&record_);
        }) {
    while (!ready_) testing::SleepNs(1000);
  }

  StopRecord* record() { return &record_; }
  pthread_t id() { return thread_.native_handle(); }
  void Join() { thread_.join(); }

  void AwaitSleep() const { gleaner::testing::AwaitSleep(record_.tid); }

 private:
  StopRecord record_;
  std::atomic<bool> ready_{false};
  std::thread thread_;
};

void Start() {
  struct sigaction action = {};
  action.sa_handler = [](int) { ++g_handled; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  InstallStopHandler();
}

bool Stop(Mutator& mutator) {
  StopRecord* record = mutator.record();
  return StopAll(&record, 1, nullptr, kPatienceNs, true);
}

// The thread has no handler run for it in the stop that is under way.
void ExpectHandlersWait(Mutator& mutator) {
  EXPECT_EQ(pthread_kill(mutator.id(), SIGUSR1), 0);
  mutator.AwaitSleep();
  EXPECT_EQ(g_handled, 0);
  ResumeAll();
  mutator.Join();
  EXPECT_EQ(g_handled, 1);
}

// [inv.handlers-wait], in this and the next two.
CHILD_TEST(StopWorldTest, HandlersWaitWhileAThreadIsParkedAtTheEndOfACriticalSection) {
  Start();
  Mutator mutator([](StopRecord* self) {
    const CriticalSection section;
    while (self->asked.Load(memory_order_seq_cst) == 0) CpuRelax();
  });
  ASSERT_TRUE(Stop(mutator));
  EXPECT_TRUE(mutator.record()->IsParked());
  ExpectHandlersWait(mutator);
}

CHILD_TEST(StopWorldTest, HandlersWaitWhileAThreadLeavesABlockingSection) {
  Start();
  std::atomic<bool> leave{false};
  Mutator mutator([&leave](StopRecord* self) {
    EnterBlocking(self, AddressOf(__builtin_frame_address(0)));
    while (!leave) CpuRelax();
    LeaveBlocking(self);
  });
  while (!mutator.record()->IsBlocked()) testing::SleepNs(1000);
  ASSERT_TRUE(Stop(mutator));
  leave = true;
  mutator.AwaitSleep();
  EXPECT_TRUE(mutator.record()->IsBlocked());
  ExpectHandlersWait(mutator);
}

CHILD_TEST(StopWorldTest, HandlersWaitWhileTheLibraryWaits) {
  Start();
  std::atomic<bool> leave{false};
  Mutator mutator([&leave](StopRecord* self) {
    const BlockingWait section(self, AddressOf(__builtin_frame_address(0)));
    while (!leave) CpuRelax();
  });
  while (!mutator.record()->IsBlocked()) testing::SleepNs(1000);
  ASSERT_TRUE(Stop(mutator));
  leave = true;
  ExpectHandlersWait(mutator);
}

// The stopper finds the thread running; it blocks before the signal comes, which never does here.
CHILD_TEST(StopWorldTest, AThreadThatBlocksAfterItWasAskedNeedsNoSignal) {
  Start();
  std::atomic<bool> leave{false};
  std::atomic<bool> left{false};
  Mutator mutator([&leave, &left](StopRecord* self) {
    sigset_t suspend;
    sigemptyset(&suspend);
    sigaddset(&suspend, SuspendSignal());
    EXPECT_EQ(RealSigmask(SIG_BLOCK, &suspend, nullptr), 0);
    while (self->asked.Load(memory_order_seq_cst) == 0) CpuRelax();
    EnterBlocking(self, AddressOf(__builtin_frame_address(0)));
    while (!leave) CpuRelax();
    LeaveBlocking(self);
    left = true;
  });
  ASSERT_TRUE(Stop(mutator));
  EXPECT_TRUE(mutator.record()->IsBlocked());
  leave = true;
  mutator.AwaitSleep();
  EXPECT_FALSE(left);
  ResumeAll();
  mutator.Join();
  EXPECT_TRUE(left);
}

// A signal that the program has blocked, and that is pending, stays so.
CHILD_TEST(StopWorldTest, NoSignalIsOpened) {
  Start();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) pthread_kill(pthread_self(), number);
  { const HandlersWait section; }
  BeginStop();
  EndStop();
  sigset_t after;
  sigset_t pending;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  sigpending(&pending);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
    EXPECT_TRUE(sigismember(&after, number)) << number;
    EXPECT_TRUE(sigismember(&pending, number)) << number;
  }
}

// One that the program has blocked by name, before the start, stays blocked in all threads.
CHILD_TEST(StopWorldTest, ASignalThatTheProgramWaitsForIsNotTaken) {
  sigset_t waited;
  sigemptyset(&waited);
  sigaddset(&waited, SIGRTMAX - 1);
  sigaddset(&waited, SIGRTMAX - 2);
  pthread_sigmask(SIG_BLOCK, &waited, nullptr);
  Start();
  UnblockSuspendSignal();
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_TRUE(sigismember(&after, SIGRTMAX - 1));
  EXPECT_TRUE(sigismember(&after, SIGRTMAX - 2));
  sigset_t copy;
  EXPECT_TRUE(sigismember(WithoutSuspend(&waited, &copy), SIGRTMAX - 1));
  EXPECT_TRUE(sigismember(WithoutSuspend(&waited, &copy), SIGRTMAX - 2));
}

CHILD_TEST(StopWorldTest, ARunningThreadIsNeverTakenForStopped) {
  Start();
  constexpr size_t kThreads = 3;
  constexpr int kStops = 300;
  static std::atomic<uint64_t> steps[kThreads];  // made in kRunning
  static std::atomic<bool> over{false};
  std::vector<std::unique_ptr<Mutator>> mutators;
  std::vector<StopRecord*> records;
  for (size_t i = 0; i < kThreads; ++i) {
    mutators.push_back(std::make_unique<Mutator>([i](StopRecord* self) {
      for (uint64_t round = 0; !over; ++round) {
        if (round % 3 == 0) {
          const BlockingWait section(self, AddressOf(__builtin_frame_address(0)));
          CpuRelax();
        } else {
          EnterBlocking(self, AddressOf(__builtin_frame_address(0)));
          for (int spin = 0; spin < 50; ++spin) CpuRelax();
          LeaveBlocking(self);
        }
        for (int step = 0; step < 5; ++step) steps[i].fetch_add(1);
        if (round % 7 == 0) const CriticalSection section;
      }
    }));
    records.push_back(mutators.back()->record());
  }
  uint64_t claimed = 0;
  for (int stop = 0; stop < kStops || claimed == 0; ++stop) {
    BeginStop();
    ASSERT_TRUE(StopAll(records.data(), records.size(), nullptr, kPatienceNs, true));
    uint64_t before[kThreads];
    for (size_t i = 0; i < kThreads; ++i) before[i] = steps[i];
    for (int spin = 0; spin < 100; ++spin) CpuRelax();
    if (stop % 16 == 0) sched_yield();
    for (size_t i = 0; i < kThreads; ++i) {
      ASSERT_EQ(steps[i], before[i]) << "stop " << stop;
      ASSERT_TRUE(records[i]->IsBlocked() || records[i]->IsParked());
      claimed += records[i]->IsBlocked() ? 1 : 0;
    }
    ResumeAll();
    EndStop();
    if (stop % 16 == 0) sched_yield();
  }
  over = true;
  for (auto& mutator : mutators) mutator->Join();
  printf("%llu times blocked\n", static_cast<unsigned long long>(claimed));
}

}  // namespace
}  // namespace gleaner::platform
