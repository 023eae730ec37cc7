// Stops that are given up and tried again, because a thread does not answer for a while.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "gc.h"
#include "gc/collector.h"
#include "platform/threads/stop_world.h"
#include "runtime/process/runtime_state.h"
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

// A registered thread that answers no stop before one has been given up. When it has been asked, it
// sends SIGALRM to the thread that asks.
class DeafThread {
 public:
  explicit DeafThread(pthread_t asker) : asker_(asker), thread_(&DeafThread::Run, this) {}
  ~DeafThread() {
    is_over_.store(true);
    thread_.join();
  }
  // Returns when the thread is deaf for the next stop.
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
    const auto& asked = platform::t_stop_record->asked;
    while (!is_over_.load()) {
      if (!wanted_.exchange(false)) {
        sched_yield();
        continue;
      }
      ASSERT_EQ(platform::RealSigmask(SIG_SETMASK, &all, &before), 0);
      begun_.fetch_add(1);
      while (asked.Load(platform::memory_order_seq_cst) == 0) sched_yield();
      pthread_kill(asker_, SIGALRM);
      while (asked.Load(platform::memory_order_seq_cst) != 0) sched_yield();
      platform::RestoreSigmask(&before);
    }
    GC_unregister_my_thread();
  }

  std::atomic<bool> is_over_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<int> begun_{0};
  const pthread_t asker_;
  std::thread thread_;
};

// A handler that runs while its thread has the collector lock may jump away with it. In mode stop
// no other thread takes the lock.
CHILD_TEST(GivenUpStopTest, TheHandlerOfATimerWaitsForTheLock) {
  putenv(const_cast<char*>("GLEANER_MODE=stop"));
  GC_init();
  GC_allow_register_threads();
  HandleWith(SIGALRM);
  DeafThread thread(pthread_self());
  for (int round = 1; round <= 5; ++round) {
    thread.BeginDeafness();
    GC_gcollect();
    EXPECT_EQ(g_handled.load(), round);
    EXPECT_EQ(g_with_lock.load(), 0);
  }
}

}  // namespace
}  // namespace gleaner::runtime
