// Stops that are given up and tried again, because a thread does not answer for a while.
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "gc.h"
#include "platform/clock.h"
#include "platform/stop_world.h"
#include "runtime/runtime.h"
#include "tests/support/child.h"

namespace gleaner::runtime {
namespace {

std::atomic<int> g_handled{0};
std::atomic<int> g_with_lock{0};

void HandleWith(int number) {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    ++g_handled;
    if (gc::g_collector.lock().IsHeld()) ++g_with_lock;
  };
  ASSERT_EQ(sigaction(number, &action, nullptr), 0);
}

// A registered thread that no signal reaches for the first 60 ms of each collection.
class DeafThread {
 public:
  DeafThread() : thread_(&DeafThread::Run, this) {}
  ~DeafThread() {
    is_over_.store(true);
    thread_.join();
  }
  void BeginDeafness() {
    const int before = begun_.load();
    wanted_.store(true);
    while (begun_.load() == before) sched_yield();
  }

 private:
  void Run() {
    GC_stack_base base;
    GC_get_stack_base(&base);
    ASSERT_EQ(GC_register_my_thread(&base), GC_SUCCESS);
    sigset_t all, before;
    sigfillset(&all);
    while (!is_over_.load()) {
      if (!wanted_.exchange(false)) {
        sched_yield();
        continue;
      }
      ASSERT_EQ(platform::RealSigmask(SIG_SETMASK, &all, &before), 0);
      begun_.fetch_add(1);
      const uint64_t until = platform::NowNs() + 60'000'000;
      while (platform::NowNs() < until) sched_yield();
      platform::RestoreSigmask(&before);
    }
    GC_unregister_my_thread();
  }

  std::atomic<bool> is_over_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<int> begun_{0};
  std::thread thread_;
};

// A handler that runs while its thread has the collector lock may jump away with it.
TEST(GivenUpStopTest, TheHandlerOfATimerWaitsForTheLock) {
  EXPECT_CHILD_OK([] {
    putenv(const_cast<char*>("GLEANER_MODE=stop"));
    GC_init();
    GC_allow_register_threads();
    HandleWith(SIGALRM);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &alarm, nullptr), 0);  // in the other thread, too
    DeafThread thread;
    ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr), 0);
    for (int round = 1; round <= 5; ++round) {
      thread.BeginDeafness();
      const itimerval soon = {{0, 0}, {0, 5000}};
      ASSERT_EQ(setitimer(ITIMER_REAL, &soon, nullptr), 0);
      const uint64_t began = platform::NowNs();
      GC_gcollect();
      EXPECT_GT(platform::NowNs() - began, 20'000'000u) << "no stop was given up";
      EXPECT_EQ(g_handled.load(), round);
      EXPECT_EQ(g_with_lock.load(), 0);
    }
  });
}

}  // namespace
}  // namespace gleaner::runtime
