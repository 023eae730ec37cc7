// System calls of the library fail, in builds that can have them fail: whatever does, objects that
// are in use stay, and the program goes on, or ends with a message that says why.
#include <sys/wait.h>

#include <ios>

#include "tests/concurrent/workload.h"

namespace {

using namespace gleaner::testing;

// A refusal may be over at the next attempt.
template <class F>
auto Insist(const F& f) {
  auto result = f();
  while (!result) result = f();
  return result;
}

struct Program {
  uint64_t seed;
  std::atomic<uint64_t> born{0};
  std::atomic<bool> wrong{false};
};

void* ChangeForAWhile(void* argument) {
  auto* program = static_cast<Program*>(argument);
  Graph graph(program->seed + program->born++, 100);
  bool right = true;
  for (int i = 0; right && i < 8000; ++i) right = !graph.ok() || graph.Change();
  if (!right || (graph.ok() && !graph.Check())) program->wrong = true;
  return nullptr;
}

std::atomic<size_t> g_finalized{0};
void* g_large[4];

// Uses what makes system calls: threads, collections, forks, roots, finalizers, large objects.
void UseTheLibrary(uint64_t seed) {
  GC_set_handle_fork(1);
  GC_INIT();
  Program program{seed};
  constexpr size_t kThreads = 3;
  pthread_t threads[kThreads];
  for (int round = 0; round < 3 && !program.wrong; ++round) {
    for (pthread_t& thread : threads) {
      Insist([&] { return GC_pthread_create(&thread, nullptr, ChangeForAWhile, &program) == 0; });
    }
    for (int i = 0; i < 20; ++i) {
      void* object = GC_malloc(24);
      if (object != nullptr) {
        GC_register_finalizer(
            object, [](void*, void*) { ++g_finalized; }, nullptr, nullptr, nullptr);
      }
      g_large[i % 4] = GC_malloc(100'000 + static_cast<size_t>(i) * 10'000);
      if (i % 5 == 0) GC_gcollect();
    }
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      ChangeForAWhile(&program);
      GC_gcollect();
      _exit(program.wrong ? 1 : 0);
    }
    int status = -1;
    ASSERT_TRUE(child < 0 || waitpid(child, &status, 0) == child);
    if (child > 0 && status != 0) {
      fprintf(stderr, "the forked child ended with 0x%x\n", status);
      program.wrong = true;
    }
    for (const pthread_t thread : threads) ASSERT_EQ(GC_pthread_join(thread, nullptr), 0);
  }
  fflush(nullptr);
  _exit(program.wrong ? 1 : 0);  // with earlier failures the test would end by 1
}

struct Mode {
  const char* name;
  Environment environment;
};
const Mode kModes[] = {
    {"stop", {"GLEANER_COLLECT_EVERY=512k"}},
    {"sweep beside", {"GLEANER_CONCURRENT_SWEEP=1", "GLEANER_COLLECT_EVERY=512k"}},
    {"concurrent", {"GLEANER_CONCURRENT=1", "GLEANER_SHORT_PAUSE=0", "GLEANER_COLLECT_EVERY=1m"}},
    {"concurrent, mprotect",
     {"GLEANER_CONCURRENT=1", "GLEANER_SHORT_PAUSE=0", "GLEANER_COLLECT_EVERY=1m",
      "GLEANER_WRITE_TRACKING=mprotect"}},
    {"generational", {"GLEANER_GENERATIONAL=2", "GLEANER_COLLECT_EVERY=512k"}},
    {"generational, mprotect",
     {"GLEANER_GENERATIONAL=2", "GLEANER_COLLECT_EVERY=512k", "GLEANER_WRITE_TRACKING=mprotect"}},
};

// Ends that docs/design/reliability.md has.
bool IsDocumentedEnd(const ChildResult& result) {
  if (!result.aborted()) return false;
  for (const char* message :
       {"gleaner: fatal: cannot start: ", "gleaner: fatal: no memory for the list of roots",
        "gleaner: fatal: no memory for the list of loaded objects"}) {
    if (result.err.find(message) != std::string::npos) return true;
  }
  return false;
}

// How many programs reached their end.
size_t RunModes(uint64_t seed, const char* rate) {
  size_t finished = 0;
  char seed_entry[64];
  snprintf(seed_entry, sizeof seed_entry, "GLEANER_FAILURE_SEED=%lu", seed);
  for (const Mode& mode : kModes) {
    const auto result = RunInChild(
        [&] {
          for (const char* entry : mode.environment) putenv(const_cast<char*>(entry));
          putenv(const_cast<char*>("GLEANER_MARK_VERIFY=1"));
          putenv(const_cast<char*>(rate));
          putenv(seed_entry);
          UseTheLibrary(seed);
        },
        60);
    EXPECT_TRUE(result.ok() || IsDocumentedEnd(result))
        << mode.name << ", " << rate << " " << seed_entry << ": status 0x" << std::hex
        << result.status << "\n"
        << result.err;
    finished += result.ok() ? 1 : 0;
  }
  return finished;
}

// A seed may end every program at its start; so seeds are drawn until enough programs have reached
// their end.
TEST(FailuresTest, NothingIsLostWhateverFails) {
  uint64_t seed = std::random_device()() % 100'000;
  for (const char* rate : {"GLEANER_FAILURES=30", "GLEANER_FAILURES=300"}) {
    const uint64_t first = seed;
    size_t finished = 0;
    while (finished < 3 * std::size(kModes)) {
      ASSERT_LT(seed - first, 64) << finished << " programs reached their end";
      finished += RunModes(seed++, rate);
    }
    fprintf(stderr, "%s, seeds %lu to %lu: %zu programs reached their end\n", rate, first, seed - 1,
            finished);
  }
}

}  // namespace
