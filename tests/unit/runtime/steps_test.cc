// One event at a step of what a program does with the library (platform/faults/delays.h): a signal
// whose handler moves pointers and collects, forks, jumps or installs a filter; a cancellation; no
// more memory; no more descriptors. The thread's steps are counted first; then it does the same
// again for each of them, or for as many as are drawn from a seed, and the event happens there.
// Only in the verify build.
//
// Handlers may do what docs/reference/compatibility.md says they may: moving pointers at any step;
// all the rest where the thread has no lock of the library's and is in none of its critical
// sections.
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ostream>
#include <random>

#include "alloc/walk.h"
#include "gc/collector.h"
#include "platform/faults/delays.h"
#include "platform/faults/failures.h"
#include "platform/os/lock.h"
#include "runtime/collect/tracking.h"
#include "runtime/process/options.h"
#include "runtime/process/runtime_state.h"
#include "runtime/threads/threads.h"
#include "tests/support/at_steps.h"
#include "tests/support/child.h"
#include "tests/support/flags.h"
#include "tests/support/list.h"

namespace gleaner::runtime {
namespace {

// --- Objects ---

using namespace testing;

constexpr size_t kNodes = 10;

bool IsIntact(const Node* list) { return testing::IsIntact(list, kNodes); }

// The program's data. The library is linked into the test, so that they count if it says so.
struct Slot {
  Node* list;
  void* link;  // a hidden pointer to the list, cleared when that is found dead
};
Slot g_slot;

bool IsSlotIntact(const Node* list) { return g_slot.link != nullptr && IsIntact(list); }

// On a thread that is gone, so that no stack has a stale copy.
void Fill() {
  pthread_t thread;
  const auto make = [](void*) -> void* {
    GC_unregister_disappearing_link(&g_slot.link);
    g_slot.list = MakeList(kNodes);
    g_slot.link = reinterpret_cast<void*>(GC_HIDE_POINTER(g_slot.list));
    EXPECT_EQ(GC_general_register_disappearing_link(&g_slot.link, g_slot.list), GC_SUCCESS);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, make, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}

// The slots of all that is dead get other contents.
void Overwrite() {
  for (int round = 0; round < 8; ++round) MakeList(kNodes);
}

// --- Another thread, which collects when it is asked to ---

std::atomic<uint32_t> g_asked{0};
std::atomic<uint32_t> g_answered{0};

void* Answer(void*) {
  for (uint32_t seen = 0;; seen = g_asked) {
    g_answered = seen;
    g_answered.notify_all();
    g_asked.wait(seen);
    GC_gcollect();
    Overwrite();
  }
}

void StartOther() {
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, Answer, nullptr), 0);
  pthread_detach(thread);
}
void AskOther() {
  ++g_asked;
  g_asked.notify_all();
}
void AwaitOther() {
  for (uint32_t seen = g_answered; seen != g_asked; seen = g_answered) g_answered.wait(seen);
}

// --- What the program does ---

// Objects that others would write to if they were handed out twice.
class Kept {
 public:
  void Add(void* p, size_t bytes, bool is_zeroed) {
    if (p == nullptr) return;  // there is no memory
    auto* words = static_cast<uintptr_t*>(p);
    for (size_t i = 0; is_zeroed && i < bytes / sizeof *words; ++i) {
      if (words[i] != 0) ++g_wrong;
    }
    Object& object = objects_[count_++];
    object = {words, bytes / sizeof *words, ~AddressOf(words)};
    std::fill_n(words, object.length, object.value);
  }
  void* Take(size_t i) {
    Object& object = objects_[i % count_];
    void* p = object.words;
    Check(object);
    object.length = 0;
    object.words = nullptr;
    return p;
  }
  size_t count() const { return count_; }
  ~Kept() {
    for (const Object& object : objects_) Check(object);
  }

  static inline std::atomic<size_t> g_wrong{0};

 private:
  struct Object {
    uintptr_t* words;
    size_t length;
    uintptr_t value;
  };
  static void Check(const Object& object) {
    for (size_t i = 0; i < object.length; ++i) {
      if (object.words[i] != object.value) ++g_wrong;
    }
  }

  Object objects_[128] = {};
  size_t count_ = 0;
};

void UseSmallObjects() {
  static constexpr size_t kSizes[] = {16, 2048, 48, 4096, 200, 2048};
  Kept kept;
  for (size_t i = 0; i < 36; ++i) {
    const size_t bytes = kSizes[i % std::size(kSizes)];
    const bool is_atomic = i % 7 == 0;
    kept.Add(is_atomic ? GC_malloc_atomic(bytes) : GC_malloc(bytes), bytes, !is_atomic);
    if (i % 5 == 0 && kept.count() != 0) GC_free(kept.Take(i * 3));
  }
  if (kept.count() != 0) kept.Add(GC_realloc(kept.Take(1), 3000), 3000, false);
}

void UseLargeObjects() {
  static constexpr size_t kSizes[] = {12000, 40000, 9000};
  Kept kept;
  for (size_t i = 0; i < 9; ++i) {
    const size_t bytes = kSizes[i % std::size(kSizes)];
    kept.Add(GC_malloc(bytes), bytes, true);
    if (i % 4 == 3 && kept.count() != 0) GC_free(kept.Take(i - 1));
  }
  if (kept.count() != 0) kept.Add(GC_realloc(kept.Take(0), 60000), 60000, false);
}

void Collect() { GC_gcollect(); }

// As far as there are concurrent cycles in this mode.
void CollectALittle() {
  Kept kept;
  GC_start_incremental_collection();
  for (int i = 0; i < 60 && GC_collect_a_little() != 0; ++i) kept.Add(GC_malloc(64), 64, true);
}

// Collections that allocation starts.
void AllocateMuch() {
  Node* list = MakeList(kNodes);
  for (int i = 0; i < 80; ++i) GC_malloc(4096);
  if (list != nullptr && !IsIntact(list)) ++Kept::g_wrong;
}

void Block() {
  Node* list = MakeList(kNodes);
  const auto block = [](void*) -> void* {
    // Whoever counts as blocked must not be able to allocate.
    if (Threads::Current()->IsBlocked() != (alloc::t_heap == &alloc::g_no_heap)) ++Kept::g_wrong;
    const auto work = [](void*) -> void* { return MakeList(1); };
    return GC_call_with_gc_active(work, nullptr);
  };
  GC_do_blocking(block, nullptr);
  MakeList(1);
  if (list != nullptr && !IsIntact(list)) ++Kept::g_wrong;
}

std::atomic<size_t> g_finalized{0};

void Finalize() {
  static __thread void* link;
  for (int i = 0; i < 4; ++i) {
    void* object = GC_malloc(64);
    if (object == nullptr) continue;
    const auto finalize = [](void*, void*) {
      ++g_finalized;
      MakeList(1);
      pthread_testcancel();
    };
    GC_register_finalizer_no_order(object, finalize, nullptr, nullptr, nullptr);
    link = reinterpret_cast<void*>(GC_HIDE_POINTER(object));
    if (i == 0) GC_general_register_disappearing_link(&link, object);
    if (i == 3) GC_free(object);
  }
  GC_unregister_disappearing_link(&link);
  GC_gcollect();
  GC_invoke_finalizers();
}

void StartThread() {
  pthread_t thread;
  const auto work = [](void*) -> void* { return MakeList(kNodes); };
  if (GC_pthread_create(&thread, nullptr, work, nullptr) != 0) return;
  void* list = nullptr;
  int state;  // a join is a point of cancellation
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  ASSERT_EQ(GC_pthread_join(thread, &list), 0);
  pthread_setcancelstate(state, nullptr);
  if (list != nullptr && !IsIntact(static_cast<Node*>(list))) ++Kept::g_wrong;
}

void ComeAndGo() {
  GC_stack_base base;
  ASSERT_EQ(GC_get_stack_base(&base), GC_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    GC_register_my_thread(&base);
    MakeList(1);
    if (GC_thread_is_registered() != 0) GC_unregister_my_thread();
  }
}

struct Activity {
  const char* name;
  void (*work)();
};
constexpr Activity kActivities[] = {
    {"small objects", UseSmallObjects},
    {"large objects", UseLargeObjects},
    {"collection", Collect},
    {"a little of a collection", CollectALittle},
    {"much allocation", AllocateMuch},
    {"blocking section", Block},
    {"finalizers", Finalize},
    {"a thread's start", StartThread},
    {"registration", ComeAndGo},
};

// --- One run ---

// Whether a thread of the library's own marks concurrently.
bool HasDriver() {
  return (g_options.concurrent && g_options.cycle_slice == 0) || g_options.auto_after == 0;
}

bool g_is_child = false;  // of a fork at a step
bool g_waits = false;     // the activity waits for another thread

// What handlers have seen.
std::atomic<size_t> g_lost{0};
std::atomic<size_t> g_handled{0};

// Whatever has happened: nothing is wrong, and all works.
bool IsInOrder() {
  if (Kept::g_wrong != 0 || !IsSlotIntact(g_slot.list)) return false;
  GC_gcollect();
  Node* list = MakeList(kNodes);
  GC_gcollect();
  Overwrite();
  return Kept::g_wrong == 0 && IsSlotIntact(g_slot.list) && IsIntact(list);
}

thread_local sigjmp_buf t_before;

// On a thread of its own, does what the activity is, and at the step of that number calls `act`,
// which may be SIZE_MAX. Steps: from 0; of the thread's life from its first to its last
// instruction.
struct Attempt {
  void (*work)();
  size_t step;
  void (*act)();
  size_t steps = 0;
  void* result = nullptr;
  bool is_in_order_after_jump = true;

  static void AtStep(void* data) {
    auto* run = static_cast<Attempt*>(data);
    if (run->steps++ == run->step) run->act();
  }
  static void* Main(void* data) {
    auto* run = static_cast<Attempt*>(data);
    if (sigsetjmp(t_before, 1) == 0) {
      platform::CallAtSteps(AtStep, run);
      run->work();
    } else {
      platform::CallAtSteps(nullptr, nullptr);
      run->is_in_order_after_jump = IsInOrder();
    }
    if (g_is_child) _exit(IsInOrder() ? 0 : 1);
    pthread_testcancel();
    return nullptr;  // the steps go on to the end
  }
  // Whether the step was reached.
  bool Do() {
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, nullptr, Main, this), 0);
    EXPECT_EQ(pthread_join(thread, &result), 0);
    return steps > step;
  }
};

void Signal() { raise(SIGUSR1); }

void HandleWith(void (*handler)(int), int number = SIGUSR1) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(number, &action, nullptr), 0);
}

// --- Modes ---

struct Mode {
  const char* name;
  const char* environment[3];
};
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

constexpr Mode kModes[] = {
    {"stop", {"GLEANER_COLLECT_EVERY=256k", "GLEANER_MARK_VERIFY=1"}},
    {"steps", {"GLEANER_CONCURRENT=1", "GLEANER_CYCLE_SLICE=4k", "GLEANER_COLLECT_EVERY=256k"}},
    {"driver", {"GLEANER_CONCURRENT=1", "GLEANER_SHORT_PAUSE=0", "GLEANER_COLLECT_EVERY=256k"}},
    {"generational", {"GLEANER_GENERATIONAL=2", "GLEANER_COLLECT_EVERY=256k"}},
    {"auto", {"GLEANER_AUTO_AFTER=0", "GLEANER_PAUSE_GOAL=0.1", "GLEANER_COLLECT_EVERY=256k"}},
};

class StepsTest : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override { testing::Seed(); }  // is printed

  static void Start() {
    for (const char* entry : GetParam().environment) {
      if (entry != nullptr) putenv(const_cast<char*>(entry));
    }
    GC_set_handle_fork(1);
    GC_init();
    GC_add_roots(&g_slot, &g_slot + 1);
    Fill();
    StartOther();
    AskOther();
    AwaitOther();
  }

  // Calls `check` after each run with the event at a step: at all of them, or at as many of each
  // activity as said. Returns how often the event has happened.
  template <class F>
  static size_t AtSteps(size_t max, void (*act)(), const F& check) {
    std::mt19937 random(testing::Seed());
    size_t events = 0;
    for (const Activity& activity : kActivities) {
      g_waits = activity.work == StartThread;
      Attempt first{activity.work, SIZE_MAX, nullptr};
      first.Do();
      size_t steps = first.steps;  // of the last attempt: not all are alike
      const bool all = steps <= max;
      size_t reached = 0;
      for (size_t i = 0; all ? i < steps : i < max; ++i) {
        if (i % 8 == 0) Fill();
        Attempt attempt{activity.work, all ? i : random() % steps, act};
        reached += attempt.Do() ? 1 : 0;
        if (attempt.steps != 0) steps = attempt.steps;
        check(attempt);
        if (::testing::Test::HasFailure() || Kept::g_wrong != 0) {
          ADD_FAILURE() << activity.name << ", step " << attempt.step << " of " << attempt.steps
                        << ", " << Kept::g_wrong << " wrong";
          return events;
        }
      }
      printf("%s: %zu of %zu steps\n", activity.name, reached, first.steps);
      fflush(stdout);
      events += reached;
    }
    return events;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, StepsTest, ::testing::ValuesIn(kModes),
                         [](const auto& test) { return test.param.name; });

// --- Signals ---

// Takes the list out of the program's data, has it collected, and puts it back.
void HideAndCollect(int) {
  const int saved = errno;
  const Thread* self = Threads::Current();
  if (self == nullptr || self->IsBlocked()) return;  // its stack is not searched
  ++g_handled;
  Node* volatile mine = g_slot.list;
  g_slot.list = nullptr;
  AskOther();
  if (!platform::IsInSection()) {
    AwaitOther();
    Node* list = MakeList(kNodes);
    GC_gcollect();
    Overwrite();
    if (!IsIntact(list)) ++g_lost;
  } else {
    for (int i = 0; i < 2; ++i) sched_yield();  // the other may have the lock, and stop us
  }
  if (!IsSlotIntact(mine)) ++g_lost;
  g_slot.list = mine;
  errno = saved;
}

CHILD_TEST_P(StepsTest, AHandlerHidesAPointerAndCollects) {
  Start();
  HandleWith(HideAndCollect);
  const size_t events = AtSteps(40, Signal, [](const Attempt&) {
    AwaitOther();
    EXPECT_EQ(g_lost, 0u);
    EXPECT_TRUE(IsSlotIntact(g_slot.list));
  });
  EXPECT_GT(events, 100u);
  // A third of the events are in activities that unregister or block the thread, where the
  // handler does nothing at some steps.
  EXPECT_GT(g_handled * 2, events);
  EXPECT_TRUE(IsInOrder());
}

// The child goes on where the signal came, and looks at all when it is done there; or at once, if
// it may. Where its thread was inside the library, nothing is promised if others may have been,
// too.
void Fork(int) {
  const int saved = errno;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (!platform::IsInSection()) {
      if (g_waits || g_handled % 4 == 0) _exit(IsInOrder() ? 0 : 1);
    } else if (g_waits || HasDriver()) {
      _exit(0);
    }
    g_is_child = true;
  } else {
    ++g_handled;
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) ++g_lost;
  }
  errno = saved;
}

CHILD_TEST_P(StepsTest, AHandlerForks) {
  Start();
  HandleWith(Fork);
  const size_t events = AtSteps(40, Signal, [](const Attempt&) { EXPECT_EQ(g_lost, 0u); });
  EXPECT_GT(events, 100u);
  EXPECT_GE(g_handled, events);
  EXPECT_TRUE(IsInOrder());
}

CHILD_TEST_P(StepsTest, AHandlerJumps) {
  Start();
  HandleWith([](int) {
    if (platform::IsInSection() || Threads::Current() == nullptr) return;
    ++g_handled;
    siglongjmp(t_before, 1);
  });
  const size_t events = AtSteps(40, Signal, [](const Attempt& attempt) {
    EXPECT_TRUE(attempt.is_in_order_after_jump);
    EXPECT_TRUE(IsInOrder());
  });
  EXPECT_GT(events, 100u);
  EXPECT_GE(g_handled, 10u);
}

// A filter of system calls waits for the steps of others, of which there are some then: the thread
// is stopped meanwhile, or waits no longer than it may where it has a lock itself.
void InstallFilter(int) {
  const int saved = errno;
  ++g_handled;
  AskOther();
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr, 0, 0) == 0) ++g_lost;  // is refused
  errno = saved;
}

CHILD_TEST_P(StepsTest, AHandlerInstallsAFilter) {
  Start();
  HandleWith(InstallFilter);
  const size_t events = AtSteps(40, Signal, [](const Attempt&) {
    AwaitOther();
    EXPECT_EQ(g_lost, 0u);
  });
  EXPECT_GT(events, 100u);
  EXPECT_GE(g_handled, events);
  EXPECT_TRUE(IsInOrder());
}

// A handler that runs while its thread has the collector lock may jump away with it. The first
// collection turns modes on after it has let go of the lock, which the driver may take then.
// SIGUSR1 would be open while a stop that is given up waits for its next attempt (PauseStop).
TEST(TurningOnTest, NoHandlerRunsWhileTheThreadHasTheLock) {
  size_t steps = 0;
  for (size_t step = 0; step < 2000; step += 7) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_CHILD_OK([step, &ends] {
      putenv(const_cast<char*>("GLEANER_AUTO_AFTER=0"));
      GC_init();
      HandleWith(
          [](int) {
            ++g_handled;
            if (gc::g_collector.lock().IsHeldByCaller()) ++g_lost;
          },
          SIGALRM);
      Attempt first{[] { GC_gcollect(); }, step, [] { raise(SIGALRM); }};
      const bool reached = first.Do();
      EXPECT_EQ(g_handled, reached ? 1u : 0u);
      EXPECT_EQ(g_lost, 0u);
      EXPECT_EQ(ModesInUse().generational, TrackingInUse() != platform::TrackingKind::kNone);
      ASSERT_EQ(write(ends[1], &first.steps, sizeof first.steps), ssize_t{sizeof first.steps});
    });
    ASSERT_EQ(read(ends[0], &steps, sizeof steps), ssize_t{sizeof steps});
    close(ends[0]);
    close(ends[1]);
    if (step >= steps) break;
  }
  printf("%zu steps\n", steps);
  EXPECT_GT(steps, 20u);
}

// --- Cancellation ---

CHILD_TEST_P(StepsTest, TheThreadIsCancelled) {
  Start();
  size_t cancelled = 0;
  const size_t events = AtSteps(
      40, [] { pthread_cancel(pthread_self()); },
      [&cancelled](const Attempt& attempt) {
        cancelled += attempt.result == PTHREAD_CANCELED ? 1 : 0;
        EXPECT_TRUE(IsInOrder());
      });
  EXPECT_GT(cancelled * 10, events * 8);
}

// --- No more memory, no more descriptors ---

CHILD_TEST_P(StepsTest, MemoryRunsOut) {
  // Under mprotect a write waits for its page to be opened, which a system never refuses for
  // long.
  putenv(const_cast<char*>("GLEANER_WRITE_TRACKING=userfaultfd"));
  Start();
  const auto refuse = [] {
    platform::SetFailures(1, testing::Seed(), SetOf(platform::Failing::kMapping));
  };
  const size_t events = AtSteps(40, refuse, [](const Attempt&) {
    platform::SetFailures(0, 0);
    EXPECT_TRUE(IsInOrder());
    GC_gcollect_and_unmap();
  });
  EXPECT_GT(events, 100u);
}

void CloseAll() {
  for (int fd = 0; fd < 256; ++fd) {
    if (fd != STDERR_FILENO) close(fd);
  }
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_NOFILE, &none);
}

TEST_P(StepsTest, AllDescriptorsAreClosed) {
  for (const Activity& activity : kActivities) {
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_CHILD_OK([&activity, i] {
        Start();
        Attempt whole{activity.work, SIZE_MAX, nullptr};
        whole.Do();
        std::mt19937 random(testing::Seed() + i);
        Attempt run{activity.work, random() % whole.steps, CloseAll};
        run.Do();
        EXPECT_TRUE(IsInOrder()) << activity.name;
        Attempt again{activity.work, SIZE_MAX, nullptr};
        again.Do();
        EXPECT_TRUE(IsInOrder()) << activity.name;
      });
    }
  }
}

// --- Results of threads that have the same name ---

struct Named {
  pthread_t thread;
  void* link;  // a hidden pointer to its result
};

void* MakeResult(void* data) {
  auto* named = static_cast<Named*>(data);
  void* result = MakeList(kNodes);
  if (named != nullptr) {
    named->link = reinterpret_cast<void*>(GC_HIDE_POINTER(result));
    EXPECT_EQ(GC_general_register_disappearing_link(&named->link, result), GC_SUCCESS);
  }
  return result;
}

// Joins or detaches a thread by `let_go`, and at each step of that starts another one, whose result
// stays, although it may have the first one's name by then.
void ExpectResultsStay(int (*let_go)(pthread_t)) {
  constexpr size_t kRegistered = 1;  // the test's own
  static Named other;
  pthread_t first;
  size_t had_the_name = 0;
  bool more = true;
  for (size_t step = 0; more; ++step) {
    ASSERT_EQ(GC_pthread_create(&first, nullptr, MakeResult, nullptr), 0);
    while (Threads::count() != kRegistered) sched_yield();
    bool started = false;
    more = testing::AtStep(
        step, [let_go, first] { ASSERT_EQ(let_go(first), 0); },
        [&] {
          if (Threads::lock().IsHeld()) return;
          started = true;
          ASSERT_EQ(GC_pthread_create(&other.thread, nullptr, MakeResult, &other), 0);
          had_the_name += pthread_equal(first, other.thread) != 0 ? 1 : 0;
          while (Threads::count() != kRegistered) sched_yield();
        });
    if (!started) continue;
    GC_gcollect();
    Overwrite();
    EXPECT_NE(other.link, nullptr) << "step " << step;
    GC_unregister_disappearing_link(&other.link);
    void* result = nullptr;
    ASSERT_EQ(GC_pthread_join(other.thread, &result), 0);
    EXPECT_TRUE(IsIntact(static_cast<Node*>(result))) << "step " << step;
  }
  EXPECT_GE(had_the_name, 1u);
}

CHILD_TEST(ResultsTest, AThreadOfTheSameNameKeepsItsResult) {
  GC_init();
  ExpectResultsStay([](pthread_t thread) { return GC_pthread_join(thread, nullptr); });
  ExpectResultsStay([](pthread_t thread) { return GC_pthread_detach(thread); });
}

}  // namespace
}  // namespace gleaner::runtime
