// Threads and fibers: each fiber has data that only its stack knows, at every depth of a random
// recursion, and gives up its thread at random points; whichever thread is free goes on with it.
//
// The threads have data on their own stacks, too, while they run fibers. Fibers end and are
// replaced, threads end and are replaced, and the process forks. A fiber is left by
// gleaner_fiber_switch or by gleaner_fiber_announce, sometimes with a pause, or work on the stack,
// between the announcement and the switch. What is checked is the data, each time their frame goes
// on.
//
// usage: fiber_torture [--seed N] [--seconds N] [--threads N] [--nodes N]
#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gleaner.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "torture.h"

namespace {

using namespace torture;

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kFibersPerThread = 8;
constexpr size_t kMaxThreads = 48;
constexpr size_t kMaxDepth = 12;

std::atomic<bool> g_stop{false};
std::atomic<unsigned long> g_yields{0};
std::atomic<unsigned long> g_moves{0};
std::atomic<unsigned long> g_fibers{0};
std::atomic<unsigned long> g_forks{0};
std::atomic<unsigned long> g_threads_ended{0};

// --- Data ---

struct Node {
  Node* next;
  uint64_t value;
  uint64_t more[4];
};

__attribute__((noinline)) Node* MakeList(uint64_t tag, size_t count) {
  Node* list = nullptr;
  for (size_t i = 0; i < count; ++i) {
    auto* node = static_cast<Node*>(GC_MALLOC(sizeof(Node)));
    if (node == nullptr) Fail("out of memory");
    if (node->next != nullptr || node->value != 0 || node->more[3] != 0) Fail("memory is not zero");
    node->value = Mix(tag + i) | 1u << 31;
    node->more[3] = ~node->value;
    node->next = list;
    list = node;
  }
  return list;
}

__attribute__((noinline)) void CheckList(const Node* list, uint64_t tag, size_t count,
                                         const char* where) {
  for (size_t i = count; i-- > 0; list = list->next) {
    if (list == nullptr) Fail("%s: a list ends %zu nodes early", where, i + 1);
    if (list->value != (Mix(tag + i) | 1u << 31) || list->more[3] != ~list->value) {
      Fail("%s: node %zu of %zu is damaged", where, i, count);
    }
  }
  if (list != nullptr) Fail("%s: a list does not end", where);
}

// --- Fibers ---

struct Fiber {
  gleaner_fiber* handle = nullptr;
  char* stack = nullptr;
  ucontext_t context;
  ucontext_t* resumer = nullptr;
  pthread_t last_thread = 0;
  uint64_t seed = 0;
  bool done = false;
  Fiber* next = nullptr;
};

struct Pair {
  ucontext_t* from;
  ucontext_t* to;
};

void Swap(void* argument) {
  auto* pair = static_cast<Pair*>(argument);
  swapcontext(pair->from, pair->to);
}

// The announced stack is not the one in use for a while.
void SwapLater(void* argument) {
  constexpr size_t kNodes = 20;
  Node* list = MakeList(1, kNodes);
  sched_yield();
  free(malloc(100));
  MakeList(2, kNodes);
  CheckList(list, 1, kNodes, "between announcement and switch");
  Swap(argument);
}

__attribute__((noinline)) void SwitchTo(gleaner_fiber* to, Pair* pair, Random& random) {
  int error = 0;
  switch (random.Below(4)) {
    case 0:
      error = gleaner_fiber_announce(to);
      if (error == 0) Swap(pair);
      break;
    case 1:
      error = gleaner_fiber_switch(to, SwapLater, pair);
      break;
    default:
      error = gleaner_fiber_switch(to, Swap, pair);
  }
  if (error != 0) Fail("a switch was refused: %d", error);
}

__attribute__((noinline)) void Yield(Fiber* self, Random& random) {
  Pair pair{&self->context, self->resumer};
  SwitchTo(nullptr, &pair, random);
  if (gleaner_fiber_current() != self->handle) Fail("on another fiber than announced");
}

__attribute__((noinline)) void Dive(Fiber* self, Random& random, size_t depth) {
  const uint64_t tag = random.Next();
  const size_t count = 1 + random.Below(g_nodes / 10);
  Node* list = MakeList(tag, count);
  for (size_t i = random.Below(4); i-- > 0;) {
    if (depth > 0 && random.OneIn(2)) {
      Dive(self, random, random.Below(depth));
    } else {
      g_yields.fetch_add(1);
      Yield(self, random);
    }
    CheckList(list, tag, count, "fiber");
    if (random.OneIn(4)) list = MakeList(tag, count);
  }
}

void Entry(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low);
  {
    Random random(self->seed);
    for (size_t i = random.Below(10); i-- > 0;) Dive(self, random, kMaxDepth);
  }
  self->done = true;
  Random random(self->seed);
  Yield(self, random);
  Fail("a fiber that has ended goes on");
}

Fiber* NewFiber(uint64_t seed) {
  auto* fiber = new Fiber;
  void* memory =
      mmap(nullptr, kStackBytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("no memory for a stack");
  fiber->stack = static_cast<char*>(memory) + kGuardBytes;
  mprotect(fiber->stack, kStackBytes, PROT_READ | PROT_WRITE);
  fiber->seed = seed;
  fiber->handle = gleaner_fiber_create(fiber->stack, kStackBytes);
  if (fiber->handle == nullptr) Fail("no fiber");
  if (gleaner_fiber_set_context(fiber->handle, &fiber->context, sizeof fiber->context) != 0) {
    Fail("no context");
  }
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  const auto address = reinterpret_cast<uintptr_t>(fiber);
  makecontext(&fiber->context, reinterpret_cast<void (*)()>(Entry), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  g_fibers.fetch_add(1);
  return fiber;
}

void DeleteFiber(Fiber* fiber) {
  if (gleaner_fiber_destroy(fiber->handle) != 0) Fail("a fiber cannot be destroyed");
  munmap(fiber->stack - kGuardBytes, kStackBytes + 2 * kGuardBytes);
  delete fiber;
}

__attribute__((noinline)) void Resume(Fiber* fiber, Random& random) {
  ucontext_t here;
  Pair pair{&here, &fiber->context};
  fiber->resumer = &here;
  SwitchTo(fiber->handle, &pair, random);
  if (gleaner_fiber_current() != nullptr) Fail("the thread is not on its own stack");
}

// --- Threads ---

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
Fiber* g_ready = nullptr;  // guarded by g_lock

void Push(Fiber* fiber) {
  pthread_mutex_lock(&g_lock);
  fiber->next = g_ready;
  g_ready = fiber;
  pthread_mutex_unlock(&g_lock);
}

// The one at a random place among the first.
Fiber* Pop(Random& random) {
  pthread_mutex_lock(&g_lock);
  Fiber** at = &g_ready;
  for (size_t i = random.Below(8); i > 0 && *at != nullptr && (*at)->next != nullptr; --i) {
    at = &(*at)->next;
  }
  Fiber* fiber = *at;
  if (fiber != nullptr) *at = fiber->next;
  pthread_mutex_unlock(&g_lock);
  return fiber;
}

void* Work(void* argument) {
  Random random(reinterpret_cast<uintptr_t>(argument));
  for (size_t rounds = 20 + random.Below(400); rounds > 0 && !g_stop.load(); --rounds) {
    Fiber* fiber = Pop(random);
    if (fiber == nullptr) {
      sched_yield();
      continue;
    }
    if (fiber->last_thread != 0 && fiber->last_thread != pthread_self()) g_moves.fetch_add(1);
    fiber->last_thread = pthread_self();
    const uint64_t tag = random.Next();
    const size_t count = 1 + random.Below(g_nodes / 10);
    Node* list = MakeList(tag, count);
    Resume(fiber, random);
    CheckList(list, tag, count, "thread");
    if (fiber->done || random.OneIn(500)) {  // some are given up in the middle
      DeleteFiber(fiber);
      fiber = NewFiber(random.Next());
    }
    Push(fiber);
    // A collection that is asked for gives up the one that goes on concurrently.
    if (random.OneIn(GC_is_incremental_mode() != 0 ? 20000 : 300)) GC_gcollect();
  }
  g_threads_ended.fetch_add(1);
  return nullptr;
}

// The fibers that are suspended go on in the child.
void ForkAndCheck(Random& random) {
  pthread_mutex_lock(&g_lock);
  const pid_t child = fork();
  pthread_mutex_unlock(&g_lock);
  if (child < 0) Fail("fork");
  if (child == 0) {
    alarm(240);
    g_process = "child";
    GC_gcollect();
    for (int i = 0; i < 20; ++i) {
      Fiber* fiber = Pop(random);
      if (fiber == nullptr) break;
      Resume(fiber, random);
      if (fiber->done) {
        DeleteFiber(fiber);
      } else {
        Push(fiber);
      }
    }
    GC_gcollect();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) Fail("a child ended with status %d", status);
  g_forks.fetch_add(1);
}

void Start(pthread_t* thread, uint64_t seed) {
  if (pthread_create(thread, nullptr, Work, reinterpret_cast<void*>(seed & ~uint64_t{7})) != 0) {
    Fail("no thread");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!ReadOptions(argc, argv, "fiber_torture", kMaxThreads)) return 2;
  GC_set_handle_fork(1);
  GC_INIT();
  Random random(g_seed);
  for (size_t i = 0; i < g_threads * kFibersPerThread; ++i) Push(NewFiber(random.Next()));
  pthread_t threads[kMaxThreads];
  for (size_t i = 0; i < g_threads; ++i) Start(&threads[i], random.Next());
  for (const Period period; !period.IsOver();) {
    const size_t i = random.Below(g_threads);
    pthread_join(threads[i], nullptr);
    Start(&threads[i], random.Next());
    if (kForks && (g_forks.load() == 0 || random.OneIn(3))) ForkAndCheck(random);
  }
  g_stop.store(true);
  for (size_t i = 0; i < g_threads; ++i) pthread_join(threads[i], nullptr);
  for (Fiber* fiber = Pop(random); fiber != nullptr; fiber = Pop(random)) DeleteFiber(fiber);
  printf("%lu yields, %lu moves, %lu fibers, %lu threads, %lu forks, %lu collections\n",
         g_yields.load(), g_moves.load(), g_fibers.load(), g_threads_ended.load(), g_forks.load(),
         static_cast<unsigned long>(GC_get_gc_no()));
  CheckModes();
  return g_yields.load() == 0 || (kForks && g_forks.load() == 0) || GC_get_gc_no() == 0;
}
