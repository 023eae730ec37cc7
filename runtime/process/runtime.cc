#include "runtime/process/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "alloc/object.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "platform/loader/loaded_objects.h"
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/os/standard_error.h"
#include "runtime/collect/collect.h"
#include "runtime/collect/hooks.h"
#include "runtime/collect/tracking.h"
#include "runtime/collect/world.h"
#include "runtime/debug/dump.h"
#include "runtime/debug/latency.h"
#include "runtime/nodes/placement.h"
#include "runtime/observe/live_figures.h"
#include "runtime/observe/profiling.h"
#include "runtime/observe/run_record.h"
#include "runtime/observe/snapshot.h"
#include "runtime/observe/tracing.h"
#include "runtime/process/fork.h"
#include "runtime/process/inline_allocation.h"
#include "runtime/process/limits.h"
#include "runtime/process/variables.h"
#include "runtime/threads/blocking.h"
#include "runtime/threads/dead_stack.h"

namespace gleaner::runtime {

constinit MallocSupport g_malloc_support;

using gc::Cause;
using gc::g_collector;

namespace {

// kNot becomes kHeld and kNot again while a thread forks, so that no child has half of a start
// whose thread it does not have.
enum class InitState : uint32_t { kNot, kHeld, kRunning, kDone };
constinit platform::Atomic<uint32_t> g_init_state{static_cast<uint32_t>(InitState::kNot)};
constinit __thread bool t_starts = false;      // this thread has made it kRunning
constinit __thread bool t_holds_init = false;  // this thread forks, and has made it kHeld

bool ChangeInitState(InitState from, InitState to) {
  uint32_t expected = static_cast<uint32_t>(from);
  return g_init_state.CompareExchange(expected, static_cast<uint32_t>(to),
                                      platform::memory_order_seq_cst);
}

// Waits while another thread starts the runtime or holds the start back.
void AwaitInitState() {
  // Relaxed: the caller looks again.
  const uint32_t state = g_init_state.Load(platform::memory_order_relaxed);
  if (state == static_cast<uint32_t>(InitState::kRunning) ||
      state == static_cast<uint32_t>(InitState::kHeld)) {
    platform::FutexWait(&g_init_state, state);
  }
}

// A program that has a limit on address space may do without the collector, which could not start.
void InitBeforeFilter() {
  if (!t_starts && !platform::IsInSection() && platform::AddressSpaceLimit() == SIZE_MAX) Init();
}

// At load there is no other thread that may bind, prioritise or fork anything meanwhile. (One that
// loads the library with dlopen may be among others.)
__attribute__((constructor)) void AtLoad() {
  const bool is_malloc = &g_start_malloc != nullptr;
  // A child of vfork that installs a filter must not start the library in its parent's memory.
  if (platform::OwnMemory()) {
    platform::SetStartBeforeFilters(is_malloc ? g_start_malloc : InitBeforeFilter);
  }
  if (is_malloc) return;
  platform::NoteSchedulingOfProcess();
  (void)InstallForkHandlers();  // or Init does it
}

// The client set a limit before Init, which the option must not replace.
constinit bool g_max_heap_set = false;

// At exit: finds objects that became unreachable after the last collection.
void FindLastLeaks() {
  if (GC_find_leak != 0) Collect(Cause::kInspection);
}

void LogLatency() { PrintLatency(Stream::kLog); }

// Programs that are known to write past the end of their objects, which libgc's padding hides.
bool IsKnownToOverrun(const char* program) { return strcmp(program, "g2c") == 0; }

// Which of the spaces the program will fill is not known: half of it in each, and a limited part,
// as collections look at all pages that are committed.
void CommitInitialHeap() {
  constexpr uint64_t kMostBytes = kGiB;
  const uint64_t half = g_options.initial_heap / 2;
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    alloc::PageSpaceOf(space).CommitAhead(
        static_cast<size_t>(half < kMostBytes ? half : kMostBytes));
  }
}

constexpr size_t kMinHeap = 16 * kMiB;
constexpr char kNoAddressSpace[] = "the system refuses 16 MiB of address space";

// Initialises everything. Returns what there is not enough memory or address space for; null on
// success.
const char* InitOnce() {
  g_fatal_context = DescribePhase;
  platform::KeepLoaded();
  NoteStandardError();
  FindLimitFunctions();
  ReadOptions();
  if (g_options.log_file != nullptr) {
    const int fd = platform::OpenLogFile(g_options.log_file);
    if (fd < 0) {
      Complain("cannot write the log file %s: errno %d", g_options.log_file, errno);
    } else {
      SetLogFd(fd);
      if (!g_options.only_log_to_file) PrintAllToLog();
    }
  }
  StartTestDevices();
  enum SpareBytes : int { kAuto, kOn };
  if (g_options.spare_bytes == kOn ||
      (g_options.spare_bytes == kAuto && IsKnownToOverrun(program_invocation_short_name))) {
    alloc::WidenSizeClasses();
  }
  SetHeapPlacement();
  bool ok =
      alloc::g_space.Init(static_cast<size_t>(g_options.reserve), kMinHeap, g_options.huge_pages);
  if (ok) alloc::g_space.InitNodes();
  ok = ok && alloc::InitPageSpaces(static_cast<alloc::FitPolicy>(g_options.tree_fit));
  ok = ok && alloc::ThreadHeaps::Init(static_cast<alloc::Policy>(g_options.policy), g_options.k);
  ok = ok && Threads::Init();
  if (!ok) return kNoAddressSpace;
  if (!g_max_heap_set) alloc::SetHeapLimit(static_cast<size_t>(g_options.max_heap));
  CommitInitialHeap();
  GC_least_plausible_heap_addr = PointerAt<void>(alloc::g_space.base);
  GC_greatest_plausible_heap_addr = PointerAt<void>(alloc::g_space.base + alloc::g_space.bytes);
  ApplyOptionsToVariables();
  const int markers = g_options.markers != 0  ? static_cast<int>(g_options.markers)
                      : g_markers_wanted != 0 ? g_markers_wanted
                      : g_options.processors != 0
                          ? static_cast<int>(g_options.processors < 64 ? g_options.processors : 64)
                          : platform::UsableCpuCount();
  if (!g_collector.Init(kWorld, markers)) return "no memory for the collector's tables";
  constexpr const char* kInstructions[] = {"auto", "avx512", "avx2", "scalar"};
  g_collector.marker().UseInstructions(kInstructions[g_options.mark_instructions]);
  GC_parallel = g_collector.pool().size() - 1;
  platform::InstallStopHandler();
  StartTracing();
  StartProfiling();
  StartSnapshots();
  Thread* self = Threads::Register();
  if (self == nullptr) return "no memory to register the first thread";
  InstallHooks();
  HeedFilters();
  OfferInlineAllocation();
  AttachRunRecord();
  StartLiveFigures();
  if (atexit(FindLastLeaks) != 0)
    Complain("no memory for an exit handler: the last leaks are missed");
  if (g_options.print_stats >= 2 && atexit(LogLatency) != 0)
    Complain("no memory for an exit handler: pauses and stalls are not printed");
  self->is_main = platform::CurrentThreadId() == getpid();
  if (self->is_main) {
    if (GC_stackbottom == nullptr) GC_stackbottom = PointerAt<char>(self->stack_bottom);
  }
  const bool installed = InstallForkHandlers();
  if (!installed && g_handle_fork > 0) Complain("no memory for fork handlers: fork() is unsafe");
  g_handle_fork = installed ? 1 : -1;  // GC_atfork_* have no effect if 1
  TurnOnByOptions();
  if (g_options.dump_regularly) DumpState(nullptr);
  return nullptr;
}

}  // namespace

bool IsInitialised() {
  // Acquire: pairs with the release store in AnnounceInit.
  return g_init_state.Load(platform::memory_order_acquire) ==
         static_cast<uint32_t>(InitState::kDone);
}

bool IsInitialisationCalled() {
  return g_init_state.Load(platform::memory_order_relaxed) >=  // a hint
         static_cast<uint32_t>(InitState::kRunning);
}

namespace {
void AnnounceInit() {
  // Release: pairs with IsInitialised, so that a thread that sees kDone sees all that was set up.
  g_init_state.Store(static_cast<uint32_t>(InitState::kDone), platform::memory_order_release);
  platform::FutexWakeAll(&g_init_state);
}
}  // namespace

void Init() {
  if (IsInitialised()) return;
  const platform::UncancellableSection section;
  // A thread that forks may be the first to allocate, in a fork handler of the program's.
  while (!ChangeInitState(t_holds_init ? InitState::kHeld : InitState::kNot, InitState::kRunning)) {
    AwaitInitState();
    if (IsInitialised()) return;
  }
  t_starts = true;
  const char* refused = InitOnce();
  // Checked last: the tables are allocated by now.
  if (refused == nullptr && !alloc::AddressSpace::CanCommit(kMinHeap)) refused = kNoAddressSpace;
  if (refused != nullptr) Fatal("cannot start: %s", refused);
  AnnounceInit();
}

void HoldInit() {
  // A handler that has interrupted either of the two must not wait for its own thread.
  while (!IsInitialised() && !t_starts && !t_holds_init) {
    if (ChangeInitState(InitState::kNot, InitState::kHeld)) {
      t_holds_init = true;
      return;
    }
    AwaitInitState();
  }
}

void LetInit() {
  if (!t_holds_init) return;
  t_holds_init = false;
  if (ChangeInitState(InitState::kHeld, InitState::kNot)) platform::FutexWakeAll(&g_init_state);
}

bool TryInit() {
  // Relaxed: no other thread is inside the library yet.
  g_init_state.Store(static_cast<uint32_t>(InitState::kRunning), platform::memory_order_relaxed);
  t_starts = true;
  if (InitOnce() != nullptr) {
    alloc::g_space.Release();
    // Relaxed: as above. Forks must not wait for an end of this start.
    g_init_state.Store(static_cast<uint32_t>(InitState::kNot), platform::memory_order_relaxed);
    return false;
  }
  AnnounceInit();
  return true;
}

bool AttachThread() {
  if (GLEANER_LIKELY(Threads::Current() != nullptr)) return true;
  Init();
  return Threads::Current() != nullptr || Threads::Register() != nullptr;
}

bool AttachToHeap() {
  if (GLEANER_LIKELY(HasHeap())) return true;
  EndBlocking();
  return AttachThread();
}

void SetMaxHeap(size_t bytes) {
  g_max_heap_set = true;
  alloc::SetHeapLimit(bytes);
}

void* OutOfMemory(size_t bytes) {
  errno = ENOMEM;
  return GC_oom_fn != nullptr ? GC_oom_fn(bytes) : nullptr;
}

void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment, bool ignore_off_page) {
  void* p =
      AttachToHeap() ? alloc::AllocateObject(kind, bytes, alignment, ignore_off_page) : nullptr;
  ClearDeadStackIfDue();  // not where bytes are counted, since the library's own frames lie between
  return p != nullptr ? p : OutOfMemory(bytes);
}

}  // namespace gleaner::runtime
