// What a program or the system may do to the collector, one case a run: threads build lists and
// look whether they are whole, all the time, while the case happens to them. The same source is a
// program of the collector's (HAZARDS_GC: lists are dropped) and one of malloc's, which knows
// nothing of the library and runs on it by LD_PRELOAD: there lists are freed, unless malloc
// collects.
//
// usage: hazards CASE        exit status 77: the system does not let the case happen
//
// The mode is that of the environment; a run in which it is not on fails.
#ifdef HAZARDS_GC
#define GC_THREADS
#include <gc.h>
#include <gleaner.h>
#endif
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>

namespace {

constexpr int kSkipped = 77;
constexpr int kThreads = 3;
constexpr uintptr_t kMagic = 0x5eed0000;

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      abort();                                                                          \
    }                                                                                   \
  } while (false)

bool IsOn(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && strcmp(value, "0") != 0;
}

bool g_filtered = false;  // a filter of system calls is installed
std::atomic<bool> g_is_sandboxed{false};
bool g_drops = false;  // what is no longer needed is dropped, not freed

#ifdef HAZARDS_GC
void* New(size_t bytes) { return GC_MALLOC(bytes); }
void Free(void*) {}
void Collect() { GC_gcollect(); }
const char* Tracking() {
  gleaner_modes modes;
  CHECK(gleaner_get_modes(&modes, sizeof modes) == sizeof modes);
  return modes.tracking;
}
void CheckMode() {
  g_drops = true;
  gleaner_modes modes;
  CHECK(gleaner_get_modes(&modes, sizeof modes) == sizeof modes);
  if (getenv("GLEANER_AUTO_AFTER") == nullptr) {
    CHECK((modes.concurrent != 0) == IsOn("GLEANER_CONCURRENT"));
    CHECK((modes.generational != 0) == IsOn("GLEANER_GENERATIONAL"));
    return;
  }
  // With GLEANER_AUTO_AFTER=0 the first collection turns both on, if anything tracks writes that
  // the program cannot notice.
  const bool tracks = strcmp(modes.tracking, "none") != 0;
  CHECK(tracks ? !g_filtered : modes.reason[0] != 0);
  CHECK((modes.generational != 0) == tracks);
}
#else
void* New(size_t bytes) { return calloc(1, bytes); }
void Free(void* p) {
  if (!g_drops) free(p);
}
void Collect() { malloc_trim(0); }
const char* Tracking() { return "none"; }
size_t ResidentPages() {
  size_t all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && fscanf(file, "%zu %zu", &all, &resident) == 2);
  fclose(file);
  return resident;
}
void CheckMode() {
  Dl_info info;
  CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0);
  CHECK(strstr(info.dli_fname, "libgleaner_malloc") != nullptr);
  g_drops = IsOn("GLEANER_COLLECT");
  if (!g_drops || g_is_sandboxed) return;  // nothing is collected in a sandbox
  constexpr size_t kLost = size_t{96} << 20, kBlock = 64 << 10;
  const size_t before = ResidentPages();
  for (size_t lost = 0; lost < kLost; lost += kBlock) {
    char* volatile block = static_cast<char*>(malloc(kBlock));
    memset(block, 1, kBlock);
  }
  CHECK((ResidentPages() - before) * 4096 < kLost / 2);
}
#endif

// --- The work ---

struct Node {
  Node* next;
  uintptr_t number;
  void* more;
};

void FreeList(Node* list) {
  while (list != nullptr) {
    Node* next = list->next;
    Free(list->more);
    Free(list);
    list = next;
  }
}

Node* NewList(size_t length) {
  Node* list = nullptr;
  for (size_t i = 0; i < length; ++i) {
    auto* node = static_cast<Node*>(New(sizeof(Node)));
    CHECK(node != nullptr && node->next == nullptr && node->number == 0);
    node->next = list;
    node->number = kMagic + i;
    node->more = i % 16 == 0 ? New(600) : nullptr;
    list = node;
  }
  return list;
}

void CheckList(const Node* list, size_t length) {
  size_t left = length;
  for (; list != nullptr; list = list->next) CHECK(list->number == kMagic + --left);
  CHECK(left == 0);
}

constexpr size_t kLength = 150, kKept = 16;
Node* g_kept[kKept];  // by the main thread, from before the case until after it
std::atomic<bool> g_stop{false};
std::atomic<size_t> g_rounds{0};

void* Work(void*) {
  Node* lists[kKept] = {};
  while (!g_stop.load()) {
    for (Node*& list : lists) {
      if (list != nullptr) CheckList(list, kLength);
      FreeList(list);
      list = NewList(kLength);
    }
    ++g_rounds;
  }
  for (Node* list : lists) FreeList(list);
  return nullptr;
}

// So many lists made and checked by each of the workers, on the average.
void AwaitRounds(size_t rounds) {
  const size_t until = g_rounds.load() + rounds * kThreads;
  // By a call that a sandbox allows.
  const timespec pause = {0, 500'000};
  unsigned word = 0;
  while (g_rounds.load() < until) {
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, nullptr, 0);
  }
}

void* WorkShortly(void*) {
  Node* list = NewList(kLength);
  CheckList(list, kLength);
  FreeList(list);
  return nullptr;
}

void Churn() {
  for (int i = 0; i < 4; ++i) WorkShortly(nullptr);
  Collect();
  for (const Node* list : g_kept) CheckList(list, kLength);
}

void ExpectChild(pid_t child) {
  int status = -1;
  CHECK(child > 0);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

[[noreturn]] void Skip(const char* why) {
  fprintf(stderr, "skipped: %s: %s\n", why, strerror(errno));
  _exit(kSkipped);
}

// --- The cases ---

std::atomic<size_t> g_alarms{0};
Node* volatile g_here = nullptr;
Node* volatile g_there = nullptr;
// The list is in one of the two, or in the handler's own registers.
void MoveList(int) {
  Node* list = g_here != nullptr ? g_here : g_there;
  const bool here = g_here != nullptr;
  g_here = nullptr;
  g_there = nullptr;
  if (here) {
    g_there = list;
  } else {
    g_here = list;
  }
  ++g_alarms;
}

void OfSignals() {
  // To this thread alone, so that one handler moves the list at a time.
  g_here = NewList(kLength);
  struct sigaction action = {};
  action.sa_handler = MoveList;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const itimerspec often = {{0, 300'000}, {0, 300'000}}, never = {};
  CHECK(timer_settime(timer, 0, &often, nullptr) == 0);
  while (g_alarms.load() < 100) Churn();
  CHECK(timer_settime(timer, 0, &never, nullptr) == 0);
  Churn();
  CheckList(g_here != nullptr ? g_here : g_there, kLength);
}

void OfBlockedSignals() {
  sigset_t all, before;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, WorkShortly, nullptr) == 0);
  for (int i = 0; i < 6; ++i) Churn();
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
}

void* WorkUntilCancelled(void*) {
  for (;;) {
    WorkShortly(nullptr);
    Collect();
    pthread_testcancel();
  }
}

void OfCancellation() {
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    void* result;
    CHECK(pthread_create(&thread, nullptr, WorkUntilCancelled, nullptr) == 0);
    usleep(static_cast<useconds_t>(i) * 200);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    Churn();
  }
}

pthread_key_t g_key;
void WorkInDestructor(void* round) {
  WorkShortly(nullptr);
  const auto left = reinterpret_cast<uintptr_t>(round) - 1;
  if (left != 0) pthread_setspecific(g_key, reinterpret_cast<void*>(left));
}
void* WorkAndExit(void*) {
  pthread_setspecific(g_key, reinterpret_cast<void*>(PTHREAD_DESTRUCTOR_ITERATIONS));
  WorkShortly(nullptr);
  pthread_exit(nullptr);
}

void OfExits() {
  CHECK(pthread_key_create(&g_key, WorkInDestructor) == 0);
  for (int i = 0; i < 8; ++i) {
    pthread_t threads[4];
    for (pthread_t& thread : threads) {
      CHECK(pthread_create(&thread, nullptr, WorkAndExit, nullptr) == 0);
    }
    Churn();
    for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  }
}

void OfFork() {
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      Churn();
      Churn();
      pthread_t thread;
      CHECK(pthread_create(&thread, nullptr, WorkShortly, nullptr) == 0);
      Churn();
      CHECK(pthread_join(thread, nullptr) == 0);
      _exit(0);
    }
    ExpectChild(child);
    Churn();
  }
}

// The filter is the child's, not that of the process in whose memory it runs.
[[noreturn, gnu::noinline]] void BeChildOfVfork() {
  sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program = {1, &allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
  usleep(3000);
  _exit(0);
}

// It stops this thread for as long as the child takes: others collect meanwhile.
[[gnu::noinline]] void WaitInVfork() {
  const pid_t child = vfork();
  if (child == 0) BeChildOfVfork();
  ExpectChild(child);
}

void OfVfork() {
  const char* tracking = Tracking();
  for (int i = 0; i < 10; ++i) {
    WaitInVfork();
    Churn();
  }
  CHECK(strcmp(Tracking(), tracking) == 0);
}

const char* g_program;
void OfExec() {
  const pid_t child = fork();
  if (child == 0) {
    execl(g_program, g_program, "nothing", nullptr);
    _exit(1);
  }
  ExpectChild(child);
}

void OfLoading() {
  for (int i = 0; i < 16; ++i) {
    void* handle = dlopen("libresolv.so.2", RTLD_NOW);
    CHECK(handle != nullptr);
    WorkShortly(nullptr);
    CHECK(dlclose(handle) == 0);
    if (i % 8 == 0) Churn();
  }
}

void OfNamespacesOfTheLoader() {
  void* handle = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
  if (handle == nullptr) {
    // With no static thread-local storage to spare.
    fprintf(stderr, "skipped: %s\n", dlerror());
    _exit(kSkipped);
  }
  const auto cosine = reinterpret_cast<double (*)(double)>(dlsym(handle, "cos"));
  CHECK(cosine != nullptr && cosine(0) == 1);
  for (int i = 0; i < 4; ++i) Churn();
  CHECK(dlclose(handle) == 0);
  for (int i = 0; i < 4; ++i) Churn();
}

[[gnu::noinline]] size_t Deep(size_t depth) {
  // One list by a word of each frame.
  Node* volatile list = depth % 8 == 0 ? NewList(3) : nullptr;
  const size_t below = depth == 0 ? (Churn(), 0) : Deep(depth - 1);
  if (list != nullptr) {
    CheckList(list, 3);
    FreeList(list);
  }
  return below + 1;
}
void* GoDeep(void* depth) {
  const auto frames = reinterpret_cast<size_t>(depth);
  CHECK(Deep(frames) == frames + 1);
  return nullptr;
}

void OfStacks() {
  GoDeep(reinterpret_cast<void*>(5'000));
  // Stacks that the program has made, small and large.
  for (const size_t bytes : {size_t{128} << 10, size_t{4} << 20}) {
    void* stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, bytes) == 0);
    for (int i = 0; i < 4; ++i) {
      pthread_t thread;
      CHECK(pthread_create(&thread, &attributes, GoDeep, reinterpret_cast<void*>(bytes >> 10)) ==
            0);
      CHECK(pthread_join(thread, nullptr) == 0);
    }
    CHECK(munmap(stack, bytes) == 0);
    Churn();
  }
}

void OfLimits() {
  // On files, descriptors, processes, stacks and core dumps: the least that there is.
  for (const auto resource : {RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_MEMLOCK,
                              RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE}) {
    rlimit limit;
    CHECK(getrlimit(resource, &limit) == 0);
    limit.rlim_cur = resource == RLIMIT_STACK ? 256 << 10 : 0;
    CHECK(setrlimit(resource, &limit) == 0);
  }
  for (int i = 0; i < 6; ++i) Churn();
}

void OfDescriptors() {
  for (int file = 3; file < 1024; ++file) close(file);
  Churn();
  rlimit limit = {3, 3};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (int i = 0; i < 6; ++i) Churn();
}

void OfChangedRoot() {
  char folder[] = "/tmp/gleaner_root_XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  // A folder that is gone, so that nothing is left of it.
  CHECK(chdir(folder) == 0 && rmdir(folder) == 0);
  if (geteuid() != 0 && syscall(SYS_unshare, CLONE_NEWUSER) != 0) Skip("no name space of users");
  if (chroot(".") != 0) Skip("no change of the root");
  CHECK(access("/proc/self/maps", F_OK) != 0);
  for (int i = 0; i < 6; ++i) Churn();
}

// From now on `answer` is given to these calls, in all threads.
// These calls get one answer, all others another.
void Filter(std::initializer_list<long> calls, unsigned answer,
            unsigned others = SECCOMP_RET_ALLOW) {
  sock_filter code[64];
  unsigned short n = 0;
  code[n++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const long call : calls) {
    code[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1);
    code[n++] = BPF_STMT(BPF_RET | BPF_K, answer);
  }
  code[n++] = BPF_STMT(BPF_RET | BPF_K, others);
  sock_fprog program = {n, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  g_filtered = true;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    Skip("no filter of system calls");
  }
}

void OfSeccomp() {
  Filter({SYS_userfaultfd, SYS_process_vm_readv, SYS_sched_getaffinity, SYS_prctl, SYS_openat,
          SYS_open, SYS_membarrier, SYS_getrusage},
         SECCOMP_RET_ERRNO | EPERM);
  for (int i = 0; i < 6; ++i) Churn();
}

// A sandbox ends a process that makes a call which its author did not think of. He has thought of
// memory, threads and their signals, the time and messages. Collections in modes that the program
// has not asked for make no other calls; else the calls of the mode must be allowed.
//
// A sandbox that comes amid a collection finds helpers that start, so it ends the process for the
// calls of tracking, new threads and files.
void EnterSandbox(bool comes_late) {
  if (IsOn("GLEANER_CONCURRENT") || IsOn("GLEANER_GENERATIONAL")) {
    return Filter({SYS_userfaultfd, SYS_pipe2, SYS_vfork}, SECCOMP_RET_KILL_PROCESS);
  }
  if (comes_late) {
    Filter({SYS_userfaultfd, SYS_ioctl, SYS_pipe2, SYS_clone3, SYS_clone, SYS_prctl, SYS_seccomp,
            SYS_openat, SYS_open, SYS_close, SYS_fstat, SYS_pread64, SYS_nanosleep,
            SYS_clock_nanosleep},
           SECCOMP_RET_KILL_PROCESS);
    g_is_sandboxed = true;
    return;
  }
  Filter(
      {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_futex, SYS_tgkill,
       SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_getpid, SYS_gettid, SYS_clock_gettime,
       SYS_sched_yield, SYS_write, SYS_exit, SYS_exit_group, SYS_set_robust_list, SYS_rseq},
      SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
  g_is_sandboxed = true;
}

void OfSandbox() {
  EnterSandbox(false);
  for (int i = 0; i < 6; ++i) Churn();
}

// The sandbox is there from one instruction to the next, for all threads, while one of them
// collects for the first time, turns modes on, or is in a cycle: at another time in each of many
// processes.
std::atomic<bool> g_collects{false};
void* EnterSandboxLater(void* after_us) {
  while (!g_collects.load()) {
  }
  timespec begin, now;
  int64_t waited_us;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
  do {
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    waited_us = (now.tv_sec - begin.tv_sec) * 1'000'000 + (now.tv_nsec - begin.tv_nsec) / 1000;
  } while (waited_us < reinterpret_cast<intptr_t>(after_us));
  EnterSandbox(true);
  return nullptr;
}

int CollectWhileSandboxComes(intptr_t after_us) {
  pthread_t threads[kThreads], later;
  CHECK(pthread_create(&later, nullptr, EnterSandboxLater, reinterpret_cast<void*>(after_us)) == 0);
  for (pthread_t& thread : threads) CHECK(pthread_create(&thread, nullptr, Work, nullptr) == 0);
  g_collects = true;
  for (int i = 0; i < 3; ++i) Collect();
  CHECK(pthread_join(later, nullptr) == 0);
  AwaitRounds(1);
  Collect();
  g_stop = true;
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  CheckMode();
  return 0;
}

void OfComingSandbox() {
  for (int i = 0; i < 32; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      char after_us[16];
      snprintf(after_us, sizeof after_us, "%d", i * i * 4);
      execl(g_program, g_program, "sandbox comes", after_us, nullptr);
      _exit(1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) _exit(kSkipped);
    if (status != 0)
      fprintf(stderr, "the sandbox came after %d us: status %#x\n", i * i * 4, status);
    CHECK(status == 0);
  }
}

void OfHugePages() {
  // The program's own memory in pages of 2 MiB, which the system may make of the heap's, too.
  constexpr size_t kBytes = size_t{32} << 20;
  char* memory = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED);
  madvise(memory, kBytes, MADV_HUGEPAGE);
  memset(memory, 1, kBytes);
  for (int i = 0; i < 4; ++i) Churn();
  // And none at all from here on.
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  for (int i = 0; i < 4; ++i) Churn();
  CHECK(munmap(memory, kBytes) == 0);
}

std::atomic<bool> g_clock_jumps{false};
std::atomic<unsigned> g_asked{0};
// Somebody sets the clock, and the machine sleeps now and then.
void OfTime() {
  g_clock_jumps = true;
  for (int i = 0; i < 6; ++i) Churn();
#ifdef HAZARDS_GC
  CHECK(g_asked.load() != 0);
#endif
  g_clock_jumps = false;
}

void OfMemory() {
  // What cannot be had is refused, and the program goes on.
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 50, size_t{1} << 46}) {
    void* volatile p = nullptr;
#ifdef HAZARDS_GC
    p = GC_MALLOC(bytes);
#else
    volatile size_t opaque = bytes;
    p = malloc(opaque);
#endif
    CHECK(p == nullptr);
    Churn();
  }
  rlimit limit;
  CHECK(getrlimit(RLIMIT_DATA, &limit) == 0);
  limit.rlim_cur = size_t{512} << 20;
  CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
  for (int i = 0; i < 6; ++i) Churn();
}

void OfNothing() {}

struct Case {
  const char* name;
  void (*happens)();
};
constexpr Case kCases[] = {
    {"nothing", OfNothing},
    {"signals", OfSignals},
    {"blocked_signals", OfBlockedSignals},
    {"cancellation", OfCancellation},
    {"exits", OfExits},
    {"fork", OfFork},
    {"vfork", OfVfork},
    {"exec", OfExec},
    {"dlopen", OfLoading},
    {"dlmopen", OfNamespacesOfTheLoader},
    {"stacks", OfStacks},
    {"limits", OfLimits},
    {"descriptors", OfDescriptors},
    {"chroot", OfChangedRoot},
    {"seccomp", OfSeccomp},
    {"sandbox", OfSandbox},
    {"coming_sandbox", OfComingSandbox},
    {"huge_pages", OfHugePages},
    {"time", OfTime},
    {"memory", OfMemory},
};

}  // namespace

// The C library's, but that the clock is set by hours, to and fro, and the monotonic one has gone
// on by an hour at one call of eight, when the case says so.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static std::atomic<unsigned> asleep_hours{0};
  CHECK(!g_is_sandboxed.load() || clock != CLOCK_PROCESS_CPUTIME_ID);  // no call of mode stop
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (g_clock_jumps.load()) {
    const unsigned asked = g_asked++;
    if (clock == CLOCK_REALTIME) now->tv_sec += (asked * 2654435761u >> 28) * 3600 - 8 * 3600;
    if (clock == CLOCK_MONOTONIC && asked % 8 == 0) ++asleep_hours;
  }
  if (clock == CLOCK_MONOTONIC) now->tv_sec += asleep_hours.load() * 3600;
  return result;
}

int main(int argc, char** argv) {
  alarm(200);  // a way to fail instead of hanging
  g_program = "/proc/self/exe";
#ifdef HAZARDS_GC
  GC_INIT();
#endif
  if (argc == 3) return CollectWhileSandboxComes(atoi(argv[2]));  // OfComingSandbox
  const Case* found = nullptr;
  for (const Case& each : kCases) {
    if (argc == 2 && strcmp(each.name, argv[1]) == 0) found = &each;
  }
  if (found == nullptr) return 2;
  for (Node*& list : g_kept) list = NewList(kLength);
  Collect();
  CheckMode();
  pthread_t threads[kThreads];
  for (pthread_t& thread : threads) CHECK(pthread_create(&thread, nullptr, Work, nullptr) == 0);
  AwaitRounds(1);
  found->happens();
  AwaitRounds(1);
  g_stop = true;
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  Churn();
#ifdef HAZARDS_GC
  CheckMode();  // it has not gone off meanwhile
#endif
  for (Node* list : g_kept) FreeList(list);
  return 0;
}
