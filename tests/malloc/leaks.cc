// usage: leaks CASE [PLUGIN]: loses blocks, or does not; leaks_test.py knows how many. Also built
// with LeakSanitizer, as an oracle.
#include <alloca.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"

#ifdef __clang__
#define NOINLINE __attribute__((optnone, noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

namespace {

// What earlier calls left in the stack counts as a root where a frame lies over it.
NOINLINE void Scrub() {
  volatile char dead[64 << 10];
  for (size_t i = 0; i < sizeof dead; ++i) dead[i] = 0;
}

struct Node {
  Node* next;
  char payload[40];
};
static_assert(sizeof(Node) == 48);

NOINLINE Node* MakeNode(Node* next) {
  auto* node = static_cast<Node*>(malloc(sizeof(Node)));
  memset(node->payload, 0, sizeof node->payload);
  node->next = next;
  return node;
}

void* volatile g_kept;
thread_local void* volatile t_kept;

NOINLINE void None() { g_kept = MakeNode(MakeNode(nullptr)); }
NOINLINE void Direct() { (void)MakeNode(nullptr); }
NOINLINE void Indirect() { (void)MakeNode(MakeNode(MakeNode(nullptr))); }
NOINLINE void Cycle() {
  Node* first = MakeNode(nullptr);
  first->next = MakeNode(MakeNode(first));
}
NOINLINE void SelfReference() {
  Node* node = MakeNode(nullptr);
  node->next = node;
}
// Two heads, one tail.
NOINLINE void Shared() {
  Node* tail = MakeNode(nullptr);
  (void)MakeNode(tail);
  (void)MakeNode(tail);
}
NOINLINE void InteriorRoot() { g_kept = static_cast<char*>(malloc(1000)) + 500; }
NOINLINE void InteriorIndirect() {
  auto* block = static_cast<char*>(malloc(1000));
  (void)MakeNode(reinterpret_cast<Node*>(block + 999));
}
NOINLINE void PastTheEnd() { g_kept = static_cast<char*>(malloc(1024)) + 1024; }
NOINLINE void HiddenPointer() {
  static uintptr_t hidden;
  hidden = ~reinterpret_cast<uintptr_t>(malloc(64));
  asm volatile("" : : "r"(&hidden) : "memory");
}
NOINLINE void FromMapping() {
  auto* memory = static_cast<void**>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED);
  memory[7] = malloc(10);
}

class Widget {
 public:
  NOINLINE explicit Widget(int size) : values_(new double[static_cast<size_t>(size)]) {}
  virtual ~Widget() = default;

 private:
  std::unique_ptr<double[]> values_;
};
// The compiler may leave a new out whose result goes nowhere.
void Escape(void* p) { asm volatile("" : : "r"(p) : "memory"); }
NOINLINE void CxxArray() { Escape(new int[25]); }
NOINLINE void CxxObject() { Escape(new Widget(10)); }
NOINLINE void CxxVector() { Escape(new std::vector<std::vector<int>>(3, std::vector<int>(5))); }

NOINLINE void Realloc() {
  void* p = malloc(20);
  p = realloc(p, 24);
  p = realloc(p, 5000);
  p = realloc(p, 300'000);
  p = realloc(p, 400'000);
  CHECK(p != nullptr);
}
NOINLINE void Sizes() {
  CHECK(malloc(0) != nullptr && malloc(1) != nullptr && calloc(3, 7) != nullptr);
  CHECK(memalign(256, 30) != nullptr && aligned_alloc(8192, 50) != nullptr);
  void* p;
  CHECK(posix_memalign(&p, 65536, 70) == 0);
  CHECK(malloc(3'000'001) != nullptr);
}

NOINLINE void LoseInThread() { (void)MakeNode(MakeNode(nullptr)); }
NOINLINE void EndedThreads() {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(LoseInThread);
    for (std::thread& thread : threads) thread.join();
  }
}

sem_t g_ready;
// They hold blocks in their stacks, registers and thread-local variables as the process exits.
NOINLINE void* StayBusy(void*) {
  void* on_stack = MakeNode(nullptr);
  t_kept = MakeNode(nullptr);
  LoseInThread();
  Scrub();
  sem_post(&g_ready);
  for (;;) asm volatile("" : : "r"(on_stack) : "memory");
}
NOINLINE void* StayAsleep(void*) {
  void* volatile on_stack = MakeNode(nullptr);
  t_kept = MakeNode(nullptr);
  LoseInThread();
  Scrub();
  sem_post(&g_ready);
  for (;;) pause();
  return on_stack;
}
NOINLINE void RunningThreads() {
  sem_init(&g_ready, 0, 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, StayBusy, nullptr) == 0);
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&thread, nullptr, StayAsleep, nullptr) == 0);
  for (int i = 0; i < 4; ++i) CHECK(sem_wait(&g_ready) == 0);
}

NOINLINE void ThreadSpecific() {
  pthread_key_t key;
  CHECK(pthread_key_create(&key, nullptr) == 0);
  pthread_setspecific(key, malloc(10));
}

// As many stacks as there are paths.
bool g_lose = true;
NOINLINE void AtTheEnd() {
  Node* node = MakeNode(nullptr);
  if (!g_lose) free(node);
}
template <bool kLeft>
NOINLINE void Turn(int depth, unsigned path) {
  if (depth == 0) {
    AtTheEnd();
  } else if ((path & 1) != 0) {
    Turn<true>(depth - 1, path >> 1);
  } else {
    Turn<false>(depth - 1, path >> 1);
  }
  asm volatile("" ::"i"(kLeft));  // no tail calls, and two functions
}
NOINLINE void ManyStacks() {
  for (unsigned path = 0; path < 1u << 12; ++path) Turn<false>(12, path);
}
// More than the table has room for, and then a block that is lost.
NOINLINE void TooManyStacks() {
  g_lose = false;
  for (unsigned path = 0; path < 1u << 20; ++path) Turn<false>(20, path);
  Direct();
}

NOINLINE void Recurse(int depth) {
  if (depth == 0) {
    (void)MakeNode(nullptr);
  } else {
    Recurse(depth - 1);
  }
  asm volatile("");
}
NOINLINE void DeepRecursion() { Recurse(50'000); }

// The stack pointer is aligned further, and the frame's size known only when it runs.
NOINLINE void AlignedFrame(size_t bytes) {
  alignas(64) char buffer[128];
  void* more = alloca(bytes);
  asm volatile("" : : "r"(buffer), "r"(more) : "memory");
  (void)MakeNode(nullptr);
  asm volatile("" : : "r"(buffer), "r"(more) : "memory");
}
NOINLINE void Aligned() { AlignedFrame(1000); }

int CompareAndLose(const void* a, const void* b) {
  static bool lost = false;
  if (!lost) (void)MakeNode(nullptr);
  lost = true;
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}
// Through a library's frames.
NOINLINE void Callback() {
  int numbers[] = {3, 1, 2};
  qsort(numbers, 3, sizeof(int), CompareAndLose);
}

NOINLINE void OnSignal(int) {
  (void)MakeNode(nullptr);
  asm volatile("");
}
NOINLINE void Interrupted() {
  raise(SIGUSR1);
  asm volatile("");
}
NOINLINE void SignalHandler(bool alternate) {
  static char memory[256 << 10];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  if (alternate) CHECK(sigaltstack(&stack, nullptr) == 0);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = alternate ? SA_ONSTACK : 0;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  Interrupted();
  memset(memory, 0, sizeof memory);
}

NOINLINE void InForkedChild() {
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    (void)MakeNode(nullptr);
    return;
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
}

NOINLINE void FromPlugin(const char* path, bool unload) {
  void* plugin = dlopen(path, RTLD_NOW);
  CHECK(plugin != nullptr);
  auto* lose = reinterpret_cast<void (*)()>(dlsym(plugin, "plugin_lose"));
  CHECK(lose != nullptr);
  lose();
  g_kept = plugin;
  if (unload) CHECK(dlclose(plugin) == 0);
}

NOINLINE void LiveAtExit() {
  Node* volatile node = MakeNode(nullptr);
  Scrub();
  exit(node != nullptr ? 0 : 1);
}

// Lost again and again, in so many blocks of so many bytes.
NOINLINE void Plenty() {
  for (int i = 0; i < 200'000; ++i) (void)MakeNode(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 2);
  const char* name = argv[1];
  const char* plugin = argc > 2 ? argv[2] : "";
  const struct {
    const char* name;
    void (*run)();
  } cases[] = {{"none", None},
               {"direct", Direct},
               {"indirect", Indirect},
               {"cycle", Cycle},
               {"self_reference", SelfReference},
               {"shared", Shared},
               {"interior_root", InteriorRoot},
               {"interior_indirect", InteriorIndirect},
               {"past_the_end", PastTheEnd},
               {"hidden_pointer", HiddenPointer},
               {"from_mapping", FromMapping},
               {"cxx_array", CxxArray},
               {"cxx_object", CxxObject},
               {"cxx_vector", CxxVector},
               {"realloc", Realloc},
               {"sizes", Sizes},
               {"ended_threads", EndedThreads},
               {"running_threads", RunningThreads},
               {"thread_specific", ThreadSpecific},
               {"many_stacks", ManyStacks},
               {"too_many_stacks", TooManyStacks},
               {"deep_recursion", DeepRecursion},
               {"aligned", Aligned},
               {"callback", Callback},
               {"forked_child", InForkedChild},
               {"live_at_exit", LiveAtExit},
               {"plenty", Plenty}};
  bool known = false;
  for (const auto& each : cases) {
    if (strcmp(each.name, name) != 0) continue;
    known = true;
    each.run();
  }
  const auto is = [&](const char* other) { return strcmp(name, other) == 0 && (known = true); };
  if (is("mixed")) {
    Direct();
    Indirect();
    CxxArray();
  }
  if (is("signal")) SignalHandler(false);
  if (is("alternate_stack")) SignalHandler(true);
  if (is("plugin")) FromPlugin(plugin, false);
  if (is("unloaded_plugin")) FromPlugin(plugin, true);
  if (is("quick_exit")) {
    Direct();
    Scrub();
    quick_exit(7);
  }
  if (is("underscore_exit")) {
    Direct();
    _exit(7);
  }
  if (is("crash")) {
    Direct();
    abort();
  }
  if (is("exit_in_thread")) {
    Direct();
    Scrub();
    std::thread([] { exit(7); }).join();
  }
  if (is("exec")) {
    Direct();
    execl(argv[0], argv[0], "mixed", static_cast<char*>(nullptr));
  }
  CHECK(known);
  Scrub();
  printf("done\n");
  return 5;
}
