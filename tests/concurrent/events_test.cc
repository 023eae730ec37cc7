// What happens in the middle of a cycle: forks, threads that begin and end, libraries that come and
// go, system calls that write into the heap, finalizers, links.
//
// Cycles are made a step at a time, each of at most 2 KiB of marking, with the event between two
// steps: once after each, so that it meets every state of a cycle. Each cycle is verified at its
// end: whatever is reachable is marked.
#include <dlfcn.h>
#include <libgen.h>

#include <algorithm>
#include <cstring>

#include "tests/concurrent/workload.h"
#include "tests/support/by_system.h"

// As a program that has not been compiled for the collector calls it.
#undef pthread_create
#undef pthread_join

namespace {

using namespace gleaner::testing;

// Cycles with an event after the first step, after that and `stride` more, and so on up to the
// last. An event is told how many there were before. With AddressSanitizer steps are many times as
// many, since it has much data, and forks take long: strides are longer there.
template <class F>
size_t InEveryPhase(size_t stride, const F& event) {
  constexpr size_t kMaxEvents = kAddressSanitizer ? 30 : 100;
  size_t steps = 1;
  BeginCycle();
  while (Step()) ++steps;
  stride = std::max(stride, steps / kMaxEvents);
  for (size_t after = 0, events = 0;; after += stride, ++events) {
    BeginCycle();
    bool goes_on = true;
    for (size_t i = 0; i < after && goes_on; ++i) goes_on = Step();
    if (!goes_on) return events;
    event(events);
    FinishCycle();
  }
}

// A cycle with an event after each of its steps.
template <class F>
size_t AfterEachStep(const F& event) {
  size_t events = 0;
  BeginCycle();
  do event(events++);
  while (Step());
  EXPECT_LT(events, kMaxSteps);
  return events;
}

template <class F>
void ForEachTracking(const F& f) {
  for (const Tracking tracking : Trackings()) {
    EXPECT_CONCURRENT(RunIncremental(tracking, kSteps, f), 1) << NameOf(tracking);
  }
}

__attribute__((noinline)) void* RunInThread(void* (*f)(void*), void* argument) {
  pthread_t thread;
  void* result = nullptr;
  EXPECT_EQ(GC_pthread_create(&thread, nullptr, f, argument), 0);
  EXPECT_EQ(GC_pthread_join(thread, &result), 0);
  return result;
}

// --- Objects that are known by their numbers ---

// Each on an OS page of its own, so that nobody else's writes dirty it.
struct Holder {
  Holder* reference;
  uint64_t number;
  uint64_t contents[500];
};
static_assert(sizeof(Holder) > 4000 && sizeof(Holder) < 4096);

uint64_t Content(uint64_t number, size_t i) {
  return (number * 1009 + i) * 0x9e3779b97f4a7c15u | uint64_t{1} << 63;  // no address
}
Holder* NewHolder(uint64_t number) {
  auto* holder = static_cast<Holder*>(GC_malloc(sizeof(Holder)));
  EXPECT_NE(holder, nullptr);
  holder->number = number;
  for (size_t i = 0; i < 500; ++i) holder->contents[i] = Content(number, i);
  return holder;
}
bool IsRight(const Holder* holder, uint64_t number) {
  if (holder == nullptr || holder->number != number) return false;
  for (size_t i = 0; i < 500; ++i) {
    if (holder->contents[i] != Content(number, i)) return false;
  }
  return true;
}

constexpr size_t kHolders = 400;
struct Holders {
  Holder* of[kHolders];
};

// From[i] refers to an object numbered 1000 + i that nothing else refers to; To[i] to none. Made by
// a thread of its own, so that nothing is left on the caller's stack.
Holders* g_from;
Holders* g_to;
void MakeHolders() {
  RunInThread(
      [](void*) -> void* {
        g_from = static_cast<Holders*>(GC_malloc(sizeof(Holders)));
        g_to = static_cast<Holders*>(GC_malloc(sizeof(Holders)));
        for (size_t i = 0; i < kHolders; ++i) {
          g_from->of[i] = NewHolder(i);
          g_from->of[i]->reference = NewHolder(1000 + i);
          g_to->of[i] = NewHolder(2000 + i);
        }
        return nullptr;
      },
      nullptr);
}
// What the first `moved` of To refer to is as it should be.
void CheckMoved(size_t moved) {
  for (size_t i = 0; i < moved; ++i) {
    ASSERT_TRUE(IsRight(g_from->of[i], i)) << i;
    ASSERT_TRUE(IsRight(g_to->of[i], 2000 + i)) << i;
    ASSERT_TRUE(IsRight(g_to->of[i]->reference, 1000 + i)) << i;
  }
}
// So that freed objects are used again, and show it.
void UseFreeMemory() {
  RunInThread(
      [](void*) -> void* {
        for (size_t i = 0; i < 4 * kHolders; ++i) memset(GC_malloc(sizeof(Holder)), 0x77, 64);
        return nullptr;
      },
      nullptr);
}

// --- A library that is loaded ---

std::string PluginPath() {
  char program[4096] = {};
  EXPECT_GT(readlink("/proc/self/exe", program, sizeof program - 1), 0);
  return std::string(dirname(program)) + "/gleaner_api_plugin_data.so";
}

struct Plugin {
  void* handle = dlopen(PluginPath().c_str(), RTLD_NOW);
  Holder** slots = nullptr;
  long (*read)(int, void*, unsigned long) = nullptr;
  Plugin() {
    if (handle == nullptr) return;
    auto* find = reinterpret_cast<void** (*)()>(dlsym(handle, "data_slots"));
    if (find != nullptr) slots = reinterpret_cast<Holder**>(find());
    read = reinterpret_cast<long (*)(int, void*, unsigned long)>(dlsym(handle, "data_read"));
  }
};
const Plugin* g_plugin = nullptr;

// --- System calls that write into the heap ---

// References that only the system writes are followed.
void CheckReferencesBySystem(Tracking tracking, const Way& way) {
  const auto result = RunIncremental(tracking, kSteps, [&way] {
    GC_INIT();
    const Plugin plugin;
    ASSERT_NE(plugin.read, nullptr) << dlerror();
    g_plugin = &plugin;
    MakeHolders();
    BeginCycle();  // by its end the library is known
    FinishCycle();
    size_t moved = 0;
    while (moved < kHolders && !::testing::Test::HasFailure()) {
      AfterEachStep([&](size_t step) {
        if (step % 4 != 0 || moved == kHolders || ::testing::Test::HasFailure()) return;
        Holder** from = &g_from->of[moved]->reference;
        Holder** to = &g_to->of[moved]->reference;
        ASSERT_TRUE(MoveBySystem(way, from, to, sizeof *to)) << "object " << moved;
        ++moved;
      });
    }
    UseFreeMemory();
    CheckMoved(moved);
  });
  EXPECT_CONCURRENT(result, 1) << NameOf(tracking) << ", by " << way.name;
}

TEST(EventsTest, SystemCallsThatWriteReferences) {
  for (const Tracking tracking : Trackings()) {
#ifdef __SANITIZE_ADDRESS__
    // The sanitizer's functions take the place of these, and call the system themselves.
    if (tracking == Tracking::kProtection) continue;
#endif
    for (const Way& way : kWays) CheckReferencesBySystem(tracking, way);
    const Way in_library = {"read in a library", false, [](int from, void* to, size_t bytes) {
                              return static_cast<ssize_t>(g_plugin->read(from, to, bytes));
                            }};
    CheckReferencesBySystem(tracking, in_library);
  }
}

// mprotect does not see them: docs/design/write_tracking.md.
TEST(EventsTest, RingsThatWriteReferences) {
  if (!HasRing()) GTEST_SKIP() << "the system has no io_uring, or refuses it";
  for (const Tracking tracking : Trackings()) {
    if (tracking == Tracking::kUserfaultfd) {
      CheckReferencesBySystem(tracking, kRing);
      return;
    }
  }
  GTEST_SKIP() << "the system has no userfaultfd that tracks writes, or refuses it";
}

// --- Forks ---

TEST(EventsTest, Fork) {
  ForEachTracking([] {
    GC_set_handle_fork(1);
    GC_INIT();
    Graph graph(1, 250);
    bool right = true;
    const auto change = [&](size_t times) {
      for (size_t i = 0; i < times && right; ++i) right = graph.Change();
    };
    change(1000);
    const size_t forks = InEveryPhase(1, [&](size_t) {
      change(20);
      fflush(nullptr);
      const pid_t child = fork();
      if (child == 0) {
        alarm(240);
        change(50);
        // The cycle does not go on here; a collection that stops deals with it. Then another.
        GC_gcollect();
        change(50);
        AfterEachStep([&](size_t) { change(5); });
        change(50);
        right = right && graph.Check();
        fflush(nullptr);
        _exit(right && !::testing::Test::HasFailure() ? 0 : 1);
      }
      ASSERT_GT(child, 0);
      change(20);
      ASSERT_EQ(StatusOf(child), 0);
    });
    fprintf(stderr, "%zu forks\n", forks);
    EXPECT_GT(forks, 10u);
    EXPECT_TRUE(right && graph.Check());
  });
}

// --- Threads ---

// What a thread leaves behind, by way of its result alone: a chain of three.
void* MakeChain(void* number) {
  const auto first = reinterpret_cast<uintptr_t>(number);
  Holder* chain = nullptr;
  for (uint64_t i = 0; i < 3; ++i) {
    Holder* holder = NewHolder(first + i);
    holder->reference = chain;
    chain = holder;
  }
  return chain;
}
bool IsChain(const Holder* chain, uint64_t first) {
  for (uint64_t i = 3; i != 0; --i, chain = chain->reference) {
    if (!IsRight(chain, first + i - 1)) return false;
  }
  return chain == nullptr;
}

TEST(EventsTest, ThreadsBeginAndEnd) {
  ForEachTracking([] {
    GC_INIT();
    Graph graph(2, 250);
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(graph.Change());
    constexpr size_t kLive = 5;  // each lives for some steps
    pthread_t threads[kLive];
    size_t begun = 0, ended = 0;
    const auto join = [&] {
      void* chain = nullptr;
      ASSERT_EQ(GC_pthread_join(threads[ended % kLive], &chain), 0);
      ASSERT_TRUE(IsChain(static_cast<Holder*>(chain), ended)) << ended;
      ++ended;
    };
    for (int cycles = 0; cycles < 3; ++cycles) {
      AfterEachStep([&](size_t) {
        ASSERT_TRUE(graph.Change());
        if (begun - ended == kLive) join();
        ASSERT_EQ(GC_pthread_create(&threads[begun % kLive], nullptr, MakeChain,
                                    reinterpret_cast<void*>(begun)),
                  0);
        ++begun;
      });
    }
    while (ended != begun) join();
    EXPECT_GT(ended, 50u);
    EXPECT_TRUE(graph.Check());
  });
}

// A thread that the collector does not know, and that makes itself known for a while: its stack has
// the only reference.
struct Visit {
  size_t number;
  int gates[2];  // pipes: it has registered; it may go on
  int back[2];
  bool right;
};
void* VisitRegistered(struct GC_stack_base* base, void* argument) {
  auto* visit = static_cast<Visit*>(argument);
  EXPECT_EQ(GC_register_my_thread(base), GC_SUCCESS);
  void* volatile chain = MakeChain(reinterpret_cast<void*>(visit->number));
  struct Wait {
    Visit* visit;
  } wait{visit};
  // Blocked while the other thread goes on with the cycle.
  GC_do_blocking(
      [](void* of_wait) -> void* {
        Visit* v = static_cast<Wait*>(of_wait)->visit;
        char byte = 0;
        EXPECT_EQ(write(v->back[1], "r", 1), 1);
        EXPECT_EQ(read(v->gates[0], &byte, 1), 1);
        return nullptr;
      },
      &wait);
  visit->right = IsChain(static_cast<Holder*>(chain), visit->number);
  chain = nullptr;
  EXPECT_EQ(GC_unregister_my_thread(), GC_SUCCESS);
  return nullptr;
}
void* VisitByHand(void* visit) { return GC_call_with_stack_base(VisitRegistered, visit); }

TEST(EventsTest, ThreadsThatRegisterByHandAndBlock) {
  ForEachTracking([] {
    GC_INIT();
    GC_allow_register_threads();
    Graph graph(3, 250);
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(graph.Change());
    const size_t visits = InEveryPhase(1, [&](size_t number) {
      Visit visit{number, {}, {}, false};
      ASSERT_EQ(pipe(visit.gates), 0);
      ASSERT_EQ(pipe(visit.back), 0);
      pthread_t thread;
      ASSERT_EQ(pthread_create(&thread, nullptr, VisitByHand, &visit), 0);
      char byte = 0;
      ASSERT_EQ(read(visit.back[0], &byte, 1), 1);
      ASSERT_TRUE(graph.Change());
      FinishCycle();
      AfterEachStep([&](size_t) { ASSERT_TRUE(graph.Change()); });
      ASSERT_EQ(write(visit.gates[1], "g", 1), 1);
      ASSERT_EQ(pthread_join(thread, nullptr), 0);
      EXPECT_TRUE(visit.right) << number;
      for (const int fd : {visit.gates[0], visit.gates[1], visit.back[0], visit.back[1]}) close(fd);
    });
    EXPECT_GT(visits, 10u);
    EXPECT_TRUE(graph.Check());
  });
}

// --- Libraries ---

// Moves a reference as if by a register.
__attribute__((noinline)) void MoveReference(Holder** from, Holder** to) {
  Holder* volatile* source = from;
  *to = *source;
  *from = nullptr;
}

// Which objects are gone: links with hidden pointers, in memory that is not scanned.
GC_word g_links[kHolders];
void Watch(size_t i, Holder* object) {
  g_links[i] = GC_HIDE_POINTER(object);
  EXPECT_EQ(GC_general_register_disappearing_link(reinterpret_cast<void**>(&g_links[i]), object),
            GC_SUCCESS);
}

TEST(EventsTest, LibrariesComeAndGo) {
  ForEachTracking([] {
    GC_INIT();
    MakeHolders();
    RunInThread(
        [](void*) -> void* {
          for (size_t i = 0; i < kHolders; ++i) Watch(i, g_from->of[i]->reference);
          return nullptr;
        },
        nullptr);
    size_t loads = 0;
    // It is loaded in mid-cycle, has the only reference from then on, and is unloaded in the
    // middle of a later cycle.
    const size_t events = InEveryPhase(7, [&](size_t i) {
      if (i >= kHolders) return;
      const Plugin plugin;
      ASSERT_NE(plugin.slots, nullptr) << dlerror();
      MoveReference(&g_from->of[i]->reference, &plugin.slots[i % 100]);
      FinishCycle();
      UseFreeMemory();
      EXPECT_TRUE(IsRight(plugin.slots[i % 100], 1000 + i)) << i;
      EXPECT_NE(g_links[i], 0u) << i;
      BeginCycle();
      for (size_t steps = 0; steps < 7 * i && Step(); ++steps) {
      }
      EXPECT_NE(g_links[i], 0u) << i;
      ASSERT_EQ(dlclose(plugin.handle), 0);
      ++loads;
    });
    fprintf(stderr, "%zu phases, %zu loads\n", events, loads);
    EXPECT_GT(loads, 10u);
    for (int cycles = 0; cycles < 2; ++cycles) {
      BeginCycle();
      FinishCycle();
    }
    size_t gone = 0;
    for (size_t i = 0; i < loads; ++i) gone += g_links[i] == 0 ? 1 : 0;
    EXPECT_GE(gone, loads - loads / 10 - 1);
    for (size_t i = loads; i < kHolders; ++i) {
      ASSERT_TRUE(IsRight(g_from->of[i]->reference, 1000 + i)) << i;
    }
  });
}

// --- Finalizers and links ---

size_t g_finalized;
void Resurrect(void* object, void* number) {
  const auto i = reinterpret_cast<uintptr_t>(number);
  g_to->of[i]->reference = static_cast<Holder*>(object);
  ++g_finalized;
}

TEST(EventsTest, FinalizersThatResurrect) {
  ForEachTracking([] {
    GC_INIT();
    MakeHolders();
    RunInThread(
        [](void*) -> void* {
          for (size_t i = 0; i < kHolders; ++i) {
            Holder* object = g_from->of[i]->reference;
            object->reference = NewHolder(3000 + i);  // comes back with it
            GC_register_finalizer(object, Resurrect, reinterpret_cast<void*>(i), nullptr, nullptr);
          }
          return nullptr;
        },
        nullptr);
    // In each of the phases of some cycles one is dropped.
    size_t dropped = 0;
    while (dropped < kHolders) {
      AfterEachStep([&](size_t step) {
        if (step % 5 == 0 && dropped < kHolders) g_from->of[dropped++]->reference = nullptr;
        GC_invoke_finalizers();
      });
    }
    for (int cycles = 0; cycles < 3; ++cycles) {
      AfterEachStep([](size_t) { GC_invoke_finalizers(); });
      GC_invoke_finalizers();
    }
    UseFreeMemory();
    EXPECT_GE(g_finalized, kHolders - kHolders / 10);
    size_t back = 0;
    for (size_t i = 0; i < kHolders; ++i) {
      const Holder* object = g_to->of[i]->reference;
      if (object == nullptr) continue;
      ++back;
      ASSERT_TRUE(IsRight(object, 1000 + i)) << i;
      ASSERT_TRUE(IsRight(object->reference, 3000 + i)) << i;
    }
    EXPECT_EQ(back, g_finalized);
  });
}

TEST(EventsTest, WeakPointersAreReadInMidCycle) {
  ForEachTracking([] {
    GC_INIT();
    MakeHolders();
    RunInThread(
        [](void*) -> void* {
          for (size_t i = 0; i < kHolders; ++i) {
            Watch(i, g_from->of[i]->reference);
            g_from->of[i]->reference = nullptr;
          }
          return nullptr;
        },
        nullptr);
    // All are unreachable. Every other one that is still there when its turn comes is strong again.
    size_t read = 0;
    AfterEachStep([&](size_t step) {
      if (step % 2 != 0 || read + 2 > kHolders) return;
      const auto reveal = [](void* argument) -> void* {
        const size_t i = *static_cast<size_t*>(argument);
        if (g_links[i] != 0) {
          g_to->of[i]->reference = static_cast<Holder*>(GC_REVEAL_POINTER(g_links[i]));
        }
        return nullptr;
      };
      GC_call_with_alloc_lock(reveal, &read);
      read += 2;
    });
    UseFreeMemory();
    size_t strong = 0, gone = 0;
    for (size_t i = 0; i < kHolders; ++i) {
      const Holder* object = g_to->of[i]->reference;
      if (object == nullptr) {
        gone += g_links[i] == 0 ? 1 : 0;
        continue;
      }
      ++strong;
      ASSERT_TRUE(IsRight(object, 1000 + i)) << i;
      EXPECT_NE(g_links[i], 0u) << i;
    }
    EXPECT_GT(strong, 10u);
    EXPECT_GE(gone, (kHolders - strong) - kHolders / 10);
  });
}

}  // namespace
