// Random calls of the C API against a model of what must live, what may go and what each call
// returns: api_fuzz [--seed N] [--seconds N] [--episodes N] [--kind N] [--steps N] [--tell 1]
//
// There are three kinds of episode: 1, random calls; 2, explicit frees, and 3, finalizers, whose
// memory has a bound (api_bounds.h). Without --kind the seed decides: two of three are of kind 1.
// An episode is a process of its own, with one to four threads; its seed is the first one plus its
// number, so `--seed N --episodes 1` repeats one. What it prints stays in api_fuzz.N.txt if it
// fails. The mode of collection is that of the environment.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "tests/fuzz/api_actor.h"
#include "tests/fuzz/api_bounds.h"

namespace gleaner::fuzz {
namespace {

unsigned g_steps = 4000;
unsigned long g_kind = 0;  // of episodes; 0: the seed decides
bool g_tell = false;       // what each episode did

void ExpectModeIsOn() {
  gleaner_modes modes = {};
  gleaner_get_modes(&modes, sizeof modes);
  const auto is_asked_for = [](const char* option) {
    const char* value = getenv(option);
    return value != nullptr && strcmp(value, "0") != 0;
  };
  if (is_asked_for("GLEANER_FAILURES")) {  // a mode may be refused
    g_shared.may_run_out = g_shared.calls_fail = true;
    return;
  }
  const char* mode = getenv("GLEANER_MODE");
  const auto is_mode = [mode](const char* name) {
    return mode != nullptr && strcmp(mode, name) == 0;
  };
  if (is_asked_for("GLEANER_CONCURRENT") || is_mode("concurrent")) EXPECT(modes.concurrent == 1);
  if (is_asked_for("GLEANER_GENERATIONAL") || is_mode("generational")) {
    EXPECT(modes.generational == 1);
  }
}

void Start(std::mt19937& random) {
  GC_set_handle_fork(1);
  GC_INIT();
  ExpectModeIsOn();
  GC_allow_register_threads();
  GC_word bits[8];
  for (GC_word& word : bits) word = 0xaaaaaaaaaaaaaaaau;
  g_shared.typed = GC_make_descriptor(bits, 512);
  g_shared.typed_array = GC_make_descriptor(bits, 4);
  GC_init_gcj_malloc(0, reinterpret_cast<void*>(MarkOddWords));
  g_shared.made_kind = static_cast<int>(GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1));
  // Where there are such procedures all collections are full ones.
  g_shared.disclaims = random() % 2 == 0;
  if (g_shared.disclaims) {
    GC_init_finalized_malloc();
    GC_register_disclaim_proc(g_shared.made_kind, OnDisclaim, static_cast<int>(random() % 2));
  }
  g_shared.procedure_kind = static_cast<int>(
      GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(MarkOddWords), 0), 0, 1));
  if (random() % 8 == 0) {
    g_shared.may_run_out = true;
    GC_set_max_heap_size(size_t{4} << 20 << random() % 4);
  }
}

struct Job {
  Actor* actor;
};

void* RunActor(void* arg) {
  static_cast<Job*>(arg)->actor->Run(g_steps);
  return nullptr;
}
void* DropAll(void* arg) {
  static_cast<Job*>(arg)->actor->DropAll();
  return nullptr;
}

// Nothing of the actor's stays on this thread's stack.
void OnThreads(Job* jobs, size_t count, void* (*f)(void*)) {
  pthread_t threads[kMaxThreads];
  for (size_t i = 0; i < count; ++i) {
    while (pthread_create(&threads[i], nullptr, f, &jobs[i]) != 0) EXPECT(g_shared.calls_fail);
  }
  for (size_t i = 0; i < count; ++i) EXPECT(pthread_join(threads[i], nullptr) == 0);
}

void RandomCalls(unsigned seed) {
  std::mt19937 random(seed);
  Start(random);
  const size_t threads = 1 + random() % kMaxThreads;
  std::vector<Actor*> actors;
  Job jobs[kMaxThreads];
  for (size_t i = 0; i < threads; ++i) {
    actors.push_back(new Actor(i, static_cast<unsigned>(random()), threads == 1));
    jobs[i].actor = actors[i];
  }
  OnThreads(jobs, threads, RunActor);
  OnThreads(jobs, threads, DropAll);
  GC_set_finalize_on_demand(0);
  for (int i = 0; i < 6; ++i) {
    GC_gcollect();
    GC_invoke_finalizers();
  }
  size_t objects = 0, linked = 0, cleared = 0, finalized = 0;
  for (const Actor* actor : actors) actor->Count(&objects, &linked, &cleared, &finalized);
  gleaner_stats stats = {};
  gleaner_get_stats(&stats, sizeof stats);
  printf(
      "%zu threads, %zu objects, %zu of %zu links cleared, %zu finalized, %lu collections, %lu "
      "concurrent, %lu minor\n",
      threads, objects, cleared, linked, finalized, stats.collections, stats.concurrent_collections,
      stats.minor_collections);
  // Stale words may keep some.
  if (linked >= 50) EXPECT(cleared * 10 >= linked * 9);
}

void StartForBounds() {
  GC_INIT();
  ExpectModeIsOn();
  GC_allow_register_threads();
  const GC_word odd = 0xaaaaaaaaaaaaaaaau;
  g_shared.typed = GC_make_descriptor(&odd, 2);
}

[[noreturn]] void Episode(unsigned seed) {
  constexpr unsigned long kOfSeeds[] = {2, 1, 1, 3, 1, 1};
  switch (g_kind != 0 ? g_kind : kOfSeeds[seed % 6]) {
    case 2:
      StartForBounds();
      Frees(seed).Run(1 + seed % kMaxThreads, g_steps / 100);
      break;
    case 3:
      StartForBounds();
      FinalizersBound(seed).Run(g_steps * (size_t{32} << 10));
      break;
    default:
      RandomCalls(seed);
  }
  fflush(nullptr);
  _exit(0);
}

// False if it fails.
bool RunEpisode(unsigned seed) {
  char path[64];
  snprintf(path, sizeof path, "api_fuzz.%u.txt", seed);
  fflush(nullptr);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(300);  // a small heap is collected all the time
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
    Episode(seed);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  if (status == 0) {
    if (g_tell) {
      char line[512] = {};
      FILE* text = fopen(path, "r");
      while (fgets(line, sizeof line, text) != nullptr) {
      }
      fclose(text);
      printf("seed %u: %s", seed, line);
    }
    unlink(path);
    return true;
  }
  printf("seed %u: status 0x%x; see %s\n", seed, status, path);
  fflush(stdout);
  // Why the library has ended the child, for who runs this program.
  if (FILE* text = fopen(path, "r"); text != nullptr) {
    char line[512] = {};
    while (fgets(line, sizeof line, text) != nullptr) {
      if (strncmp(line, "gleaner: fatal: ", 16) == 0) fputs(line, stderr);
    }
    fclose(text);
  }
  return false;
}

}  // namespace
}  // namespace gleaner::fuzz

int main(int argc, char** argv) {
  unsigned long seed = 1, seconds = 0, episodes = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    const unsigned long value = strtoul(argv[i + 1], nullptr, 10);
    if (strcmp(argv[i], "--seed") == 0) seed = value;
    if (strcmp(argv[i], "--seconds") == 0) seconds = value;
    if (strcmp(argv[i], "--episodes") == 0) episodes = value;
    if (strcmp(argv[i], "--kind") == 0) gleaner::fuzz::g_kind = value;
    if (strcmp(argv[i], "--tell") == 0) gleaner::fuzz::g_tell = value != 0;
    if (strcmp(argv[i], "--steps") == 0) gleaner::fuzz::g_steps = static_cast<unsigned>(value);
  }
  printf("seed %lu\n", seed);
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  unsigned long done = 0, failed = 0;
  for (; seconds != 0 ? time(nullptr) < end : done < episodes; ++done) {
    failed += gleaner::fuzz::RunEpisode(static_cast<unsigned>(seed + done)) ? 0 : 1;
  }
  printf("%lu episodes, %lu failed\n", done, failed);
  return failed != 0;
}
