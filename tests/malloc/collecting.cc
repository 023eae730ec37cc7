// GLEANER_COLLECT=1: what the program has lost is collected, and nothing else is, wherever the
// program keeps its pointers and whatever its threads do. usage: collecting CASE [--seed N]
#include <aio.h>
#include <fcntl.h>
#include <malloc.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../support/task_state.h"
#include "check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
unsigned g_seed = 1;

// Garbage enough for many collections, and for every free slot to be used again.
void Churn(size_t bytes) {
  std::mt19937 random(g_seed);
  for (size_t done = 0; done < bytes;) {
    const size_t block = random() % 50 == 0 ? random() % 60'000 : random() % 600;
    void* p = opaque(malloc(block));
    CHECK(p != nullptr);
    memset(p, 0xee, block);
    done += block;
  }
}

// --- Leaks ---

struct Node {
  Node* next;
  char rest[1];
};

// Lists of 1,000 nodes, each lost as soon as it is done.
void LeakLists(size_t node_bytes, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    Node* list = nullptr;
    for (int i = 0; i < 1000; ++i, done += node_bytes) {
      auto* node = static_cast<Node*>(malloc(node_bytes));
      CHECK(node != nullptr);
      node->next = list;
      list = node;
    }
    opaque(list);
  }
}

void LeakMixed(size_t bytes) {
  std::mt19937 random(g_seed);
  for (size_t done = 0; done < bytes;) {
    const size_t block = random() % 2000;
    void* p = random() % 3 == 0 ? calloc(1, block) : malloc(block);
    CHECK(p != nullptr);
    if (random() % 4 == 0) p = realloc(p, block + random() % 1000);
    opaque(p);
    done += block;
  }
}

void Leak(unsigned threads) {
  constexpr size_t kAll = size_t{1} << 30;
  std::vector<std::thread> leakers;
  for (unsigned t = 0; t < threads; ++t) {
    leakers.emplace_back([=] {
      const size_t part = kAll / threads / 5;
      for (const size_t bytes : {16, 48, 200, 1000}) LeakLists(bytes, part);
      LeakMixed(part);
    });
  }
  for (std::thread& thread : leakers) thread.join();
  const size_t peak = status_bytes("VmHWM:");
  printf("1 GiB lost by %u threads: peak %zu\n", threads, peak);
  CHECK(peak < 100 * kMiB);
}

// --- Pointers are seen wherever they are ---

constexpr size_t kBytes = 200;
unsigned char* NewBlock(unsigned tag, size_t more = 0) {
  auto* p = static_cast<unsigned char*>(malloc(kBytes + more));
  fill(p, kBytes, tag);
  return p;
}
// Nothing of the pointer is left on the stack.
__attribute__((noinline)) void Store(unsigned char** where, unsigned tag, size_t offset = 0) {
  *where = NewBlock(tag) + offset;
}
bool Holds(const unsigned char* p, unsigned tag) { return holds(p, kBytes, tag); }

unsigned char* g_static;
unsigned char* g_interior;
thread_local unsigned char* t_local;
pthread_key_t g_key;

unsigned char** Map(int flags) {
  void* p = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return static_cast<unsigned char**>(p);
}

void KeptInMemory() {
  Store(&g_static, 1);
  Store(&g_interior, 2, kBytes - 1);
  Store(&t_local, 3);
  CHECK(pthread_key_create(&g_key, nullptr) == 0);
  pthread_setspecific(g_key, NewBlock(4));
  unsigned char** mapped = Map(MAP_PRIVATE);
  Store(mapped + 1000, 5);
  unsigned char** shared = Map(MAP_SHARED);
  Store(shared + 1000, 6);
  unsigned char** read_only = Map(MAP_PRIVATE);
  Store(read_only + 1000, 7);
  CHECK(mprotect(read_only, 1 << 20, PROT_READ) == 0);
  // The program's copy of a file's page, next to pages that lie behind the file's end.
  char name[] = "/tmp/gleaner_collecting_XXXXXX";
  const int fd = mkstemp(name);
  CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, 5000) == 0);
  auto* file = static_cast<unsigned char**>(
      mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
  CHECK(file != MAP_FAILED);
  Store(file + 10, 8);
  // Through another block, by its inside; and a chain.
  auto** outer = static_cast<unsigned char**>(malloc(50'000));
  Store(outer + 5000, 9);
  auto* aligned = static_cast<unsigned char*>(aligned_alloc(1 << 16, 300'000));
  fill(aligned, 300'000, 10);
  unsigned char* inside = aligned + 299'000;
  aligned = nullptr;
  Node* list = nullptr;
  for (int i = 0; i < 100'000; ++i) {
    auto* node = static_cast<Node*>(malloc(24));
    node->next = list;
    list = node;
  }
  CHECK(setenv("GLEANER_TEST_VALUE", "a value that is long enough to be seen", 1) == 0);

  Churn(200 * kMiB);

  CHECK(Holds(g_static, 1) && Holds(g_interior - (kBytes - 1), 2) && Holds(t_local, 3));
  CHECK(Holds(static_cast<unsigned char*>(pthread_getspecific(g_key)), 4));
  CHECK(Holds(mapped[1000], 5) && Holds(shared[1000], 6) && Holds(read_only[1000], 7));
  CHECK(Holds(file[10], 8) && Holds(outer[5000], 9));
  CHECK(holds(inside - 299'000, 300'000, 10));
  int count = 0;
  for (Node* node = list; node != nullptr; node = node->next) ++count;
  CHECK(count == 100'000);
  CHECK(strcmp(getenv("GLEANER_TEST_VALUE"), "a value that is long enough to be seen") == 0);
  free(g_static);
  CHECK(malloc_usable_size(t_local) >= kBytes);
  t_local = static_cast<unsigned char*>(realloc(t_local, 100'000));
  CHECK(Holds(t_local, 3) && is_zero(t_local + 4096, 90'000));  // memory is zero
}

// --- Stacks of other kinds ---

ucontext_t g_main_context;
ucontext_t g_coroutine;

void Coroutine() {
  unsigned char* local = nullptr;
  Store(&local, 21);
  CHECK(swapcontext(&g_coroutine, &g_main_context) == 0);
  CHECK(Holds(local, 21));
  Churn(50 * kMiB);  // collections begin on this stack, too
  CHECK(Holds(local, 21));
}

void RunCoroutine(void* stack, size_t bytes) {
  CHECK(getcontext(&g_coroutine) == 0);
  g_coroutine.uc_stack.ss_sp = stack;
  g_coroutine.uc_stack.ss_size = bytes;
  g_coroutine.uc_link = &g_main_context;
  makecontext(&g_coroutine, Coroutine, 0);
  unsigned char* own = nullptr;
  Store(&own, 22);
  CHECK(swapcontext(&g_main_context, &g_coroutine) == 0);
  Churn(50 * kMiB);
  CHECK(swapcontext(&g_main_context, &g_coroutine) == 0);
  CHECK(Holds(own, 22));
}

std::atomic<int> g_ran{0};

void OnTimer(sigval value) {
  unsigned char* local = nullptr;
  Store(&local, 23);
  Churn(20 * kMiB);
  CHECK(Holds(local, 23) && Holds(static_cast<unsigned char*>(value.sival_ptr), 24));
  g_ran.store(1);
}

std::atomic<long> g_on_given_stack{0};
void* OnGivenStack(void* argument) {
  g_on_given_stack.store(task_self());
  unsigned char* local = nullptr;
  Store(&local, 25);
  Churn(30 * kMiB);
  CHECK(Holds(local, 25) && Holds(static_cast<unsigned char*>(argument), 26));
  return NewBlock(27);
}

std::atomic<bool> g_in_handler{false};
std::atomic<bool> g_leave{false};
void OnAlternateStack(int) {
  g_in_handler.store(true);
  const timespec pause = {0, 1'000'000};
  while (!g_leave.load()) nanosleep(&pause, nullptr);
}

void KeptOnStacks() {
  RunCoroutine(Map(MAP_PRIVATE), kMiB);
  RunCoroutine(malloc(kMiB), kMiB);

  // A thread that the C library starts by itself.
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = OnTimer;
  event.sigev_value.sival_ptr = NewBlock(24);
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const itimerspec once = {{0, 0}, {0, 1'000'000}};
  CHECK(timer_settime(timer, 0, &once, nullptr) == 0);
  while (g_ran.load() == 0) Churn(kMiB);
  CHECK(g_ran.load() == 1);

  // A stack in a block; the thread's result waits for its joiner.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstack(&attributes, aligned_alloc(4096, kMiB), kMiB) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, OnGivenStack, NewBlock(26)) == 0);
  do {
    Churn(kMiB);
  } while (g_on_given_stack.load() == 0 || task_state(g_on_given_stack.load()) != 0);
  Churn(50 * kMiB);
  void* result = nullptr;
  CHECK(pthread_join(thread, &result) == 0);
  Churn(50 * kMiB);
  CHECK(Holds(static_cast<unsigned char*>(result), 27));

  // A handler on an alternate stack, in a block, above frames with a pointer.
  std::thread other([] {
    stack_t stack = {};
    stack.ss_sp = malloc(1 << 16);
    stack.ss_size = 1 << 16;
    CHECK(sigaltstack(&stack, nullptr) == 0);
    struct sigaction action = {};
    action.sa_handler = OnAlternateStack;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
    unsigned char* local = nullptr;
    Store(&local, 28);
    pthread_kill(pthread_self(), SIGUSR1);
    CHECK(Holds(local, 28));
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, nullptr) == 0);
  });
  while (!g_in_handler.load()) usleep(1000);
  Churn(100 * kMiB);
  g_leave.store(true);
  other.join();
}

// --- Registers ---

// How the C library can start a thread besides pthread_create.
#ifdef __x86_64__
uintptr_t g_complement = 0;                      // of the block that the thread is to hold
unsigned char* volatile g_until_held = nullptr;  // the block, as what starts the thread allocates
int g_holding = 0;
int g_lets_go = 0;
std::atomic<bool> g_held{false};

// The only pointer is in a register while the other thread collects. free() ends the process if the
// block was collected.
void HoldInRegister() {
  unsigned char* block;
  asm volatile(
      "not %0\n\t"
      "movl $1, %[holding]\n\t"
      "1: pause\n\t"
      "cmpl $0, %[lets_go]\n\t"
      "je 1b"
      : "=&b"(block), [holding] "+m"(g_holding), [lets_go] "+m"(g_lets_go)
      : "0"(g_complement)
      : "memory", "cc");
  CHECK(Holds(block, 29));
  free(block);
  g_held.store(true);
}

// On a stack that is gone afterwards, with all that was on it.
void MakeBlock() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  void* stack = Map(MAP_PRIVATE);
  CHECK(pthread_attr_setstack(&attributes, stack, kMiB) == 0);
  pthread_t thread;
  const auto make = [](void*) -> void* {
    static size_t more = 0;  // no stale pointer to an earlier block is one to this
    g_until_held = NewBlock(29, more += 64);
    g_complement = ~reinterpret_cast<uintptr_t>(g_until_held);
    return nullptr;
  };
  CHECK(pthread_create(&thread, &attributes, make, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&attributes);
  CHECK(munmap(stack, kMiB) == 0);
}

template <class Start>
void ExpectHeld(const char* how, Start start) {
  printf("%s\n", how);
  fflush(stdout);
  g_holding = g_lets_go = 0;
  g_held.store(false);
  MakeBlock();
  start();
  while (__atomic_load_n(&g_holding, __ATOMIC_SEQ_CST) == 0) usleep(1000);
  g_until_held = nullptr;
  Churn(30 * kMiB);
  __atomic_store_n(&g_lets_go, 1, __ATOMIC_SEQ_CST);
  while (!g_held.load()) usleep(1000);
}

sigevent InThread() {
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = [](sigval) { HoldInRegister(); };
  return event;
}

void KeptInRegisters() {
  ExpectHeld("pthread_create", [] { std::thread(HoldInRegister).detach(); });
  ExpectHeld("thrd_create", [] {
    thrd_t thread;
    const auto start = [](void*) { return HoldInRegister(), 7; };
    CHECK(thrd_create(&thread, start, nullptr) == thrd_success);
    CHECK(thrd_detach(thread) == thrd_success);
  });
  ExpectHeld("timer_create", [] {
    sigevent event = InThread();
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    const itimerspec once = {{0, 0}, {0, 1'000'000}};
    CHECK(timer_settime(timer, 0, &once, nullptr) == 0);
  });
  ExpectHeld("aio_read", [] {
    static aiocb request = {};
    static char byte;
    request.aio_fildes = open("/dev/zero", O_RDONLY);
    request.aio_buf = &byte;
    request.aio_nbytes = 1;
    request.aio_sigevent = InThread();
    CHECK(aio_read(&request) == 0);
  });
  ExpectHeld("getaddrinfo_a", [] {
    static gaicb request = {};
    static gaicb* list[] = {&request};
    static addrinfo hints = {};
    hints.ai_flags = AI_NUMERICHOST;
    request.ar_name = "127.0.0.1";
    request.ar_request = &hints;
    sigevent event = InThread();
    CHECK(getaddrinfo_a(GAI_NOWAIT, list, 1, &event) == 0);
  });
  ExpectHeld("mq_notify", [] {
    char name[64];
    snprintf(name, sizeof name, "/gleaner_test_%d", getpid());
    const mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, nullptr);
    CHECK(queue != mqd_t{-1});
    CHECK(mq_unlink(name) == 0);
    const sigevent event = InThread();
    CHECK(mq_notify(queue, &event) == 0);
    CHECK(mq_send(queue, "x", 1, 0) == 0);
  });
  // A thread's result, and its argument.
  thrd_t thread;
  int result = 0;
  const auto start = [](void* argument) {
    return Holds(static_cast<unsigned char*>(argument), 30) ? -5 : 1;
  };
  CHECK(thrd_create(&thread, start, NewBlock(30)) == thrd_success);
  CHECK(thrd_join(thread, &result) == thrd_success);
  CHECK(result == -5);
}
#else
void KeptInRegisters() {}
#endif

// --- Signals ---

unsigned char* volatile g_from;
unsigned char* volatile g_to;
std::atomic<unsigned> g_moves{0};
// Signal-safe: allocates nothing. In a stopped world it would hide the block from the collector.
void MoveBlock(int) {
  unsigned char* block = g_from != nullptr ? g_from : g_to;
  unsigned char* volatile* other = g_from != nullptr ? &g_to : &g_from;
  g_from = nullptr;
  g_to = nullptr;
  *other = block;
  g_moves.fetch_add(1);
}

sigset_t AllButAlarm() {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGALRM);
  return all;
}

void Signals() {
  unsigned char* block = NewBlock(31);
  g_from = block;
  block = nullptr;
  struct sigaction action = {};
  action.sa_handler = MoveBlock;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  // Threads that wait for signals, with all of them blocked or taken; no stop waits for them.
  std::vector<pthread_t> waiters;
  static std::atomic<long> waiter{0};
  const auto start = [&waiters](void* (*f)(void*)) {
    waiter.store(0);
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, f, nullptr) == 0);
    waiters.push_back(thread);
    while (waiter.load() == 0) usleep(100);
    await_task_state(waiter.load(), 'S');
  };
  start([](void*) -> void* {
    const sigset_t all = AllButAlarm();
    CHECK(pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0);
    waiter.store(task_self());
    int number = 0;
    CHECK(sigwait(&all, &number) == 0 && number == SIGUSR2);
    return nullptr;
  });
  start([](void*) -> void* {
    const sigset_t all = AllButAlarm();
    CHECK(sigprocmask(SIG_SETMASK, &all, nullptr) == 0);
    waiter.store(task_self());
    const timespec long_time = {60, 0};
    int number;
    do {
      number = sigtimedwait(&all, nullptr, &long_time);
    } while (number < 0 && errno == EINTR);
    CHECK(number == SIGUSR2);
    return nullptr;
  });
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};
  CHECK(sigaction(SIGUSR2, &nothing, nullptr) == 0);
  static std::atomic<int> woken{0};
  start([](void*) -> void* {
    sigset_t mask = AllButAlarm();
    CHECK(pthread_sigmask(SIG_SETMASK, &mask, nullptr) == 0);
    sigdelset(&mask, SIGUSR2);
    waiter.store(task_self());
    while (woken.load() == 0) CHECK(sigsuspend(&mask) == -1 && errno == EINTR);
    return nullptr;
  });
  start([](void*) -> void* {
    sigset_t mask = AllButAlarm();
    CHECK(pthread_sigmask(SIG_SETMASK, &mask, nullptr) == 0);
    sigdelset(&mask, SIGUSR2);
    waiter.store(task_self());
    while (woken.load() == 0) CHECK(ppoll(nullptr, 0, nullptr, &mask) == -1 && errno == EINTR);
    return nullptr;
  });
  const itimerval often = {{0, 300}, {0, 300}};
  CHECK(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  std::thread other([] { Churn(150 * kMiB); });
  do {
    Churn(150 * kMiB);
  } while (g_moves.load() <= 100);  // the clock and the heap go at different paces
  other.join();
  const itimerval never = {};
  CHECK(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  CHECK(g_moves.load() > 100);
  CHECK(Holds(g_from != nullptr ? g_from : g_to, 31));
  const size_t resident = status_bytes("VmHWM:");
  printf("with threads that wait for signals: peak %zu\n", resident);
  CHECK(resident < 100 * kMiB);  // they were stopped
  woken.store(1);
  for (pthread_t thread : waiters) {
    CHECK(pthread_kill(thread, SIGUSR2) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
  }
}

// --- Threads that come and go ---

// Detached ones: the C library unmaps stacks of others' while they end.
void Threads() {
  std::atomic<int> running{0};
  static std::atomic<int>* count;
  count = &running;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  std::mt19937 random(g_seed);
  for (int round = 0; round < 60; ++round) {
    for (int t = 0; t < 12; ++t) {
      running.fetch_add(1);
      pthread_attr_setstacksize(&attributes, (1 + random() % 16) * kMiB);
      pthread_t thread;
      CHECK(pthread_create(
                &thread, &attributes,
                [](void* argument) -> void* {
                  CHECK(Holds(static_cast<unsigned char*>(argument), 41));
                  Churn(100'000);
                  count->fetch_sub(1);
                  return nullptr;
                },
                NewBlock(41)) == 0);
    }
    Churn(kMiB);
    while (running.load() != 0) Churn(10'000);
  }
}

// --- What must not be done, or cannot ---

// A child of vfork works in this process's memory, and cannot stop its threads.
void Vfork() {
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    unsigned char* local = nullptr;
    Store(&local, 51);
    while (!stop.load()) {
      Churn(100'000);
      CHECK(Holds(local, 51));
    }
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = vfork();
    if (child == 0) {
      Churn(20 * kMiB);
      _exit(7);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
  }
  stop.store(true);
  other.join();
}

// Nothing can be opened, so no roots can be found: nothing is collected, and nothing is lost.
void NoFiles() {
  std::vector<unsigned char*> blocks;
  for (unsigned i = 0; i < 1000; ++i) blocks.push_back(NewBlock(i));
  rlimit before;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none = {0, before.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(open("/dev/null", O_RDONLY) < 0 && errno == EMFILE);
  Churn(150 * kMiB);
  for (unsigned i = 0; i < blocks.size(); ++i) CHECK(Holds(blocks[i], i));
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  Churn(150 * kMiB);
  const size_t between = status_bytes("VmHWM:");
  Churn(1000 * kMiB);
  const size_t after = status_bytes("VmHWM:");
  printf("peak after a time without files %zu, in the end %zu\n", between, after);
  CHECK(between > 100 * kMiB && after < between + 30 * kMiB);
  for (unsigned i = 0; i < blocks.size(); ++i) CHECK(Holds(blocks[i], i));
}

// A thread that cannot collect, as it is about to be registered, meets a heap that is to grow no
// further without a collection: at whatever size that is.
void FirstThread() {
  for (size_t kept = 0; kept < 150; ++kept) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);
      std::vector<void*> blocks;
      for (size_t i = 0; i < kept; ++i) blocks.push_back(memset(malloc(20'000), 1, 20'000));
      std::thread([] { free(opaque(malloc(100))); }).join();
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

// A block is given back at once: no collection is needed for a program that frees everything.
void FreesAll() {
  void* first = malloc(100'000);
  free(first);
  CHECK(opaque(malloc(100'000)) == first);
  for (int i = 0; i < 3000; ++i) free(memset(malloc(kMiB), 1, kMiB));
  for (int i = 0; i < 10'000'000; ++i) free(opaque(malloc(static_cast<size_t>(i) % 500)));
  const size_t peak = status_bytes("VmHWM:");
  printf("all freed: peak %zu\n", peak);
  CHECK(peak < 40 * kMiB);
  while (malloc_trim(0) == 1) {
  }
  CHECK(status_bytes("VmRSS:") < 10 * kMiB);
}

}  // namespace

int main(int argc, char** argv) {
  require_gleaner();
  CHECK(argc >= 2);
  if (argc == 4 && strcmp(argv[2], "--seed") == 0) {
    g_seed = static_cast<unsigned>(strtoul(argv[3], nullptr, 10));
  }
  printf("seed %u\n", g_seed);
  fflush(stdout);
  const std::string which = argv[1];
  if (which == "leak_1") return Leak(1), 0;
  if (which == "leak_2") return Leak(2), 0;
  if (which == "memory") return KeptInMemory(), 0;
  if (which == "stacks") return KeptOnStacks(), 0;
  if (which == "registers") return KeptInRegisters(), 0;
  if (which == "signals") return Signals(), 0;
  if (which == "threads") return Threads(), 0;
  if (which == "first_thread") return FirstThread(), 0;
  if (which == "vfork") return Vfork(), 0;
  if (which == "no_files") return NoFiles(), 0;
  if (which == "frees_all") return FreesAll(), 0;
  return 2;
}
