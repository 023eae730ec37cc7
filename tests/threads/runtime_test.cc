// The whole library under threads that start, register, block, are suspended, end and are replaced
// while others collect. Small enough for ThreadSanitizer, which runs it in each mode of collection
// (docs/design/invariants.md has what it sees of each protocol). The mode is that of the
// environment.
//
// ThreadSanitizer hands a signal over when the thread makes a call that it knows; each step of a
// thread makes one (Breathe).
#ifndef GC_THREADS
#define GC_THREADS
#endif
#define GC_NO_THREAD_REDIRECTS
#include <gc.h>
#include <gc/javaxfc.h>
#include <gleaner.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/threads/concurrent.h"

namespace gleaner {
namespace {

using testing::Random;

void Breathe() {
  static thread_local std::mutex mutex;
  std::lock_guard guard(mutex);
}

struct Node {
  Node* next;
  uint64_t value;
};

// A list on the calling thread's stack. It finds out if it has lost something.
class List {
 public:
  explicit List(uint64_t seed) : random_(seed) {}
  ~List() { Check(); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  void Change() {
    Breathe();
    if (length_ > 200 || random_.OneIn(500)) Drop();
    auto* node = static_cast<Node*>(GC_malloc(sizeof(Node) + random_.Below(200)));
    ASSERT_NE(node, nullptr);
    ASSERT_EQ(node->value, 0u);
    node->value = value_ + ++length_;
    Node* after = first_;
    // Half of them go to the second place, so that objects change that have been marked.
    if (after != nullptr && random_.OneIn(2)) {
      std::swap(node->value, after->value);
      GLEANER_STORE(&node->next, after->next);
      GLEANER_STORE(&after->next, node);
    } else {
      GLEANER_STORE(&node->next, after);
      first_ = node;
    }
    if (random_.OneIn(50)) Check();
  }
  Node* first() const { return first_; }

 private:
  void Drop() {
    Check();
    first_ = nullptr;
    length_ = 0;
    value_ += 1000;
  }
  void Check() {
    size_t length = length_;
    for (const Node* node = first_; node != nullptr; node = node->next, --length) {
      if (node->value != value_ + length) {
        ADD_FAILURE() << "an object is lost or changed: " << node->value - value_ << " at "
                      << length;
        return;
      }
    }
    EXPECT_EQ(length, 0u);
  }

  Random random_;
  Node* volatile first_ = nullptr;
  uint64_t value_ = 1;
  size_t length_ = 0;
};

bool IsAskedFor(const char* option) { return getenv(option) != nullptr; }

gleaner_stats Statistics() {
  gleaner_stats stats;
  gleaner_get_stats(&stats, sizeof stats);
  return stats;
}

constexpr size_t kThreads = 3;
// ThreadSanitizer runs this in six modes, and slowly.
constexpr size_t kRounds = testing::kThreadSanitizer ? 12 : 24;
constexpr size_t kSteps = 20'000;

// Calls f on `count` threads of the library's, with their number, and waits for them.
template <class F>
void OnThreads(size_t count, const F& f) {
  struct Start {
    const F* f;
    size_t number;
  };
  std::vector<pthread_t> threads(count);
  std::vector<Start> starts(count);
  for (size_t i = 0; i < count; ++i) {
    starts[i] = {&f, i};
    ASSERT_EQ(GC_pthread_create(
                  &threads[i], nullptr,
                  [](void* start) -> void* {
                    (*static_cast<Start*>(start)->f)(static_cast<Start*>(start)->number);
                    return nullptr;
                  },
                  &starts[i]),
              0);
  }
  for (const pthread_t thread : threads) ASSERT_EQ(GC_pthread_join(thread, nullptr), 0);
}

void* MakeList(void* seed) {
  List list(reinterpret_cast<uintptr_t>(seed));
  for (size_t i = 0; i < 100; ++i) list.Change();
  return list.first();
}

class RuntimeTest : public testing::ConcurrentTest {
 protected:
  // The first calls of the library, of several threads at once.
  static void SetUpTestSuite() {
    testing::RunThreads(kThreads, [](size_t self) {
      GC_init();
      MakeList(reinterpret_cast<void*>(self + 1));
    });
  }
  void SetUp() override {
    ConcurrentTest::SetUp();
    GC_INIT();
    GC_allow_register_threads();
    gleaner_modes modes;
    gleaner_get_modes(&modes, sizeof modes);
    if (modes.automatic == 0) {
      ASSERT_EQ(modes.concurrent, IsAskedFor("GLEANER_CONCURRENT") ? 1 : 0) << modes.reason;
      ASSERT_EQ(modes.generational, IsAskedFor("GLEANER_GENERATIONAL") ? 1 : 0) << modes.reason;
    }
    before_ = Statistics();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    const gleaner_stats after = Statistics();
    EXPECT_GT(after.collections, before_.collections);
  }
  gleaner_stats before_;
};

std::atomic<size_t> g_detached{0};

// A thread that the library has not made.
void* RegisterByHand(void* seed) {
  GC_stack_base base;
  EXPECT_EQ(GC_get_stack_base(&base), GC_SUCCESS);
  EXPECT_EQ(GC_register_my_thread(&base), GC_SUCCESS);
  MakeList(seed);
  // The others are noticed as they end.
  if (reinterpret_cast<uintptr_t>(seed) % 2 == 0) {
    EXPECT_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  }
  return nullptr;
}

TEST_F(RuntimeTest, ThreadsComeAndGoWhileOthersCollect) {
  OnThreads(kThreads, [](size_t self) {
    Random random(self);
    List list(100 + self);
    for (size_t round = 0; round < kRounds; ++round) {
      void* const seed = reinterpret_cast<void*>(self * 1000 + round + 1);
      pthread_t joined, by_hand, detached;
      ASSERT_EQ(GC_pthread_create(&joined, nullptr, MakeList, seed), 0);
      ASSERT_EQ(pthread_create(&by_hand, nullptr, RegisterByHand, seed), 0);
      ASSERT_EQ(GC_pthread_create(
                    &detached, nullptr,
                    [](void* argument) -> void* {
                      void* result = MakeList(argument);
                      ++g_detached;
                      return result;
                    },
                    seed),
                0);
      ASSERT_EQ(GC_pthread_detach(detached), 0);
      for (size_t i = 0; i < 50; ++i) list.Change();
      if (random.OneIn(2)) GC_gcollect();
      void* result = nullptr;
      ASSERT_EQ(GC_pthread_join(joined, &result), 0);
      // Nothing but the library has kept it.
      size_t length = 0;
      for (auto* node = static_cast<const Node*>(result); node != nullptr; node = node->next)
        ++length;
      ASSERT_NE(length, 0u);
      EXPECT_EQ(static_cast<const Node*>(result)->value % 1000, 1 + length);
      ASSERT_EQ(pthread_join(by_hand, nullptr), 0);
    }
  });
  while (g_detached.load() != kThreads * kRounds) usleep(100);
  GC_gcollect();
}

TEST_F(RuntimeTest, BlockedThreadsAreLeftAlone) {
  OnThreads(kThreads, [](size_t self) {
    List list(200 + self);
    for (size_t round = 0; round < kRounds * 8; ++round) {
      for (size_t i = 0; i < 20; ++i) list.Change();
      GC_do_blocking(
          [](void* argument) -> void* {
            usleep(50);
            GC_call_with_gc_active(
                [](void* inner) -> void* {
                  for (size_t i = 0; i < 5; ++i) static_cast<List*>(inner)->Change();
                  return nullptr;
                },
                argument);
            return nullptr;
          },
          &list);
      if (round % 8 == self) GC_gcollect();
    }
  });
}

TEST_F(RuntimeTest, SuspendedThreadsStayAsTheyAre) {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer has one saved signal mask a thread. A stop that nests in a suspension
  // overwrites it, and the thread goes on with SIGSEGV blocked, which a write to protected memory
  // needs (GCC 12).
  const char* tracking = getenv("GLEANER_WRITE_TRACKING");
  if (tracking != nullptr && strcmp(tracking, "mprotect") == 0) {
    GTEST_SKIP() << "the sanitizer's signal masks are not for nested signals";
  }
#endif
  std::atomic<bool> done{false};
  std::atomic<size_t> ready{0};
  pthread_t threads[kThreads];
  OnThreads(kThreads, [&](size_t self) {
    threads[self] = pthread_self();
    ++ready;
    List list(300 + self);
    if (self != 0) {
      while (!done.load()) list.Change();
      return;
    }
    while (ready.load() != kThreads) Breathe();
    for (size_t round = 0; round < kRounds * 2; ++round) {
      const pthread_t other = threads[1 + round % (kThreads - 1)];
      GC_suspend_thread(other);
      EXPECT_NE(GC_is_thread_suspended(other), 0);
      for (size_t i = 0; i < 20; ++i) list.Change();
      if (round % 4 == 0) GC_gcollect();
      GC_resume_thread(other);
    }
    done.store(true);
  });
}

TEST_F(RuntimeTest, CollectionsGoOnInTheirMode) {
  const auto is_enough = [this] {
    const gleaner_stats now = Statistics();
    if (IsAskedFor("GLEANER_CONCURRENT")) {
      return now.concurrent_collections >= before_.concurrent_collections + 3;
    }
    if (IsAskedFor("GLEANER_GENERATIONAL")) {
      return now.minor_collections >= before_.minor_collections + 3;
    }
    return now.collections >= before_.collections + 3;
  };
  OnThreads(kThreads, [&is_enough](size_t self) {
    List list(400 + self);
    size_t steps = 0;
    while (steps < kSteps || !is_enough()) {
      list.Change();
      if (++steps % 64 != 0) continue;
      ASSERT_NE(GC_malloc_atomic(20'000), nullptr);
    }
  });
}

}  // namespace
}  // namespace gleaner
