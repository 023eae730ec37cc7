// Threads that are cancelled while they are in the library: it has no points of cancellation, so
// each of them ends at the next one of its own, and the heap works.
// Threads register by themselves, unless they are made by GC_pthread_create.
#define GC_NO_THREAD_REDIRECTS
#include <gleaner.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "tests/bad_input/bad_input.h"
#include "tests/support/sleep.h"
#include "tests/support/thread_state.h"

namespace {

using namespace gleaner::testing;
using gleaner::testing::SleepNs;

std::atomic<int> g_steps{0};

void* Allocate(size_t bytes) {
  void** list = nullptr;
  for (size_t i = 0; i < bytes / 64; ++i) {
    auto* object = static_cast<void**>(GC_malloc(64));
    if (object == nullptr) return nullptr;
    if (i % 16 != 0) object[0] = list;
    list = object;
  }
  return list;
}

void ExpectWorks() {
  for (int round = 0; round < 3; ++round) {
    EXPECT_NE(Allocate(kMiB), nullptr);
    GC_gcollect();
  }
}

void ExpectCancelled(pthread_t thread) {
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

// Runs f on a thread that has been cancelled before. It is to come to its end.
void RunCancelled(void (*f)()) {
  g_steps = 0;
  pthread_t thread;
  const auto run = [](void* data) -> void* {
    pthread_cancel(pthread_self());
    reinterpret_cast<void (*)()>(data)();
    ++g_steps;
    pthread_testcancel();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(f)), 0);
  ExpectCancelled(thread);
  EXPECT_EQ(g_steps, 1);
}

void ExpectRunsCancelled(void (*f)()) {
  InEachMode([f] {
    GC_INIT();
    RunCancelled(f);
    ExpectWorks();
  });
}

TEST(CancelTest, AtTheStart) {
  InEachMode([] {
    putenv(const_cast<char*>("GLEANER_NO_SUCH_OPTION=1"));
    RunCancelled([] { GC_init(); });
    ExpectWorks();
  });
}

TEST(CancelTest, InACollection) {
  ExpectRunsCancelled([] { GC_gcollect(); });
}
TEST(CancelTest, WhereAllocationCollects) {
  ExpectRunsCancelled([] { EXPECT_NE(Allocate(64 * kMiB), nullptr); });
}
TEST(CancelTest, InARegistration) {
  ExpectRunsCancelled([] {
    GC_stack_base base;
    ASSERT_EQ(GC_get_stack_base(&base), GC_SUCCESS);
    const bool known = GC_thread_is_registered() != 0;
    EXPECT_EQ(GC_register_my_thread(&base), known ? GC_DUPLICATE : GC_SUCCESS);
  });
}
TEST(CancelTest, InMessages) {
  ExpectRunsCancelled([] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    GC_free(&g_steps);
    EXPECT_EQ(GC_memalign(3, 10), nullptr);
    GC_dump();
  });
}

// Callbacks under the lock, whatever points of cancellation they have.
TEST(CancelTest, UnderTheLock) {
  ExpectRunsCancelled([] {
    GC_set_on_collection_event([](GC_EventType) { pthread_testcancel(); });
    GC_gcollect();
    GC_set_on_collection_event(nullptr);
    GC_call_with_alloc_lock(
        [](void*) -> void* {
          pthread_testcancel();
          return nullptr;
        },
        nullptr);
    GC_alloc_lock();
    pthread_testcancel();
    GC_alloc_unlock();
    GC_stop_world_external();
    pthread_testcancel();
    GC_start_world_external();
  });
}

TEST(CancelTest, AThreadThatStartsAnother) {
  ExpectRunsCancelled([] {
    pthread_t thread;
    const auto allocate = [](void*) -> void* { return Allocate(kMiB); };
    ASSERT_EQ(GC_pthread_create(&thread, nullptr, allocate, nullptr), 0);
    ASSERT_EQ(GC_pthread_detach(thread), 0);
  });
}

// A finalizer runs as the program has it: here it is where the thread ends.
TEST(CancelTest, InAFinalizer) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer takes unwound frames for live ones";
  const ChildResult result = RunWith(
      {},
      [] {
        GC_INIT();
        static std::atomic<int> begun{0};
        static std::atomic<int> done{0};
        pthread_t thread;
        const auto collect = [](void*) -> void* {
          for (int i = 0; i < 100; ++i) {
            GC_register_finalizer_no_order(
                GC_malloc(64),
                [](void*, void*) {
                  ++begun;
                  pthread_testcancel();
                  ++done;
                },
                nullptr, nullptr, nullptr);
          }
          pthread_cancel(pthread_self());
          for (int i = 0; i < 10; ++i) GC_gcollect();
          return nullptr;
        };
        ASSERT_EQ(pthread_create(&thread, nullptr, collect, nullptr), 0);
        ExpectCancelled(thread);
        EXPECT_EQ(begun, 1);
        EXPECT_EQ(done, 0);
        ExpectWorks();
        EXPECT_GE(done, 90);  // some stay on a conservative heap
      },
      30);
  EXPECT_OK(result);
}

// --- A thread that is cancelled while the world is stopped goes on to its end afterwards ---

std::atomic<bool> g_ready{false};  // or it sleeps
std::atomic<bool> g_cleaned{false};
std::atomic<bool> g_cleaned_in_stop{false};
std::atomic<int32_t> g_tid{0};
pthread_t g_thread;
int g_pipe[2];

void CancelInStop(GC_EventType event) {
  if (event != GC_EVENT_POST_STOP_WORLD || g_cleaned_in_stop) return;
  EXPECT_EQ(pthread_cancel(g_thread), 0);
  // It sleeps, as it is stopped.
  while (!g_cleaned && !Sleeps(g_tid)) SleepNs(100'000);
  g_cleaned_in_stop = g_cleaned.load();
  GC_set_on_collection_event(nullptr);
}

void* WithCleanup(void* data) {
  GC_malloc(1);
  pthread_cleanup_push(
      [](void*) {
        g_cleaned = true;
        Allocate(kMiB);
      },
      nullptr);
  g_tid = gettid();
  reinterpret_cast<void (*)()>(data)();
  pthread_cleanup_pop(0);
  return nullptr;
}

void CancelInStop(void (*f)()) {
  InEachMode([f] {
    GC_INIT();
    ASSERT_EQ(pipe(g_pipe), 0);
    ASSERT_EQ(pthread_create(&g_thread, nullptr, WithCleanup, reinterpret_cast<void*>(f)), 0);
    while (!g_ready && (g_tid == 0 || !Sleeps(g_tid))) SleepNs(100'000);
    GC_set_on_collection_event(CancelInStop);
    GC_gcollect();
    ExpectCancelled(g_thread);
    EXPECT_TRUE(g_cleaned);
    EXPECT_FALSE(g_cleaned_in_stop);
    ExpectWorks();
  });
}

TEST(CancelTest, AThreadThatIsStoppedAtAPointOfCancellation) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer takes unwound frames for live ones";
  CancelInStop([] {
    char byte;
    while (read(g_pipe[0], &byte, 1) != 1) {
    }
  });
}
TEST(CancelTest, AThreadThatIsStoppedAndMayBeCancelledAnywhere) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer takes unwound frames for live ones";
  CancelInStop([] {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    g_ready = true;
    for (;;) asm volatile("");
  });
}

// --- Joins ---

struct Joined {
  pthread_t thread;
  std::atomic<int32_t> tid{0}, joiner_tid{0};
  std::atomic<bool> end{false};
};

TEST(CancelTest, AThreadThatJoinsAnother) {
  const ChildResult result = RunWith(
      {},
      [] {
        GC_INIT();
        static Joined joined;
        const auto wait = [](void*) -> void* {
          auto* word = static_cast<uintptr_t*>(GC_malloc(64));
          *word = 17;
          joined.tid = gettid();
          while (!joined.end) SleepNs(100'000);
          return word;
        };
        ASSERT_EQ(GC_pthread_create(&joined.thread, nullptr, wait, nullptr), 0);
        pthread_t joiner;
        const auto join = [](void*) -> void* {
          joined.joiner_tid = gettid();
          GC_pthread_join(joined.thread, nullptr);
          return nullptr;
        };
        ASSERT_EQ(GC_pthread_create(&joiner, nullptr, join, nullptr), 0);
        while (joined.joiner_tid == 0) SleepNs(100'000);
        AwaitSleep(joined.joiner_tid);
        ASSERT_EQ(pthread_cancel(joiner), 0);
        ExpectCancelled(joiner);
        joined.end = true;
        await_task_state(joined.tid, 0);
        ExpectWorks();
        void* word = nullptr;
        ASSERT_EQ(GC_pthread_join(joined.thread, &word), 0);
        EXPECT_EQ(*static_cast<uintptr_t*>(word), 17u);
      },
      30);
  EXPECT_OK(result);
}

}  // namespace
