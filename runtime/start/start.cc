#include "runtime/start/start.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "platform/costs/machine_costs.h"
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
#include "runtime/process/limits.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"
#include "runtime/process/runtime_state.h"
#include "runtime/process/variables.h"
#include "runtime/start/fork.h"

namespace gleaner::runtime {

using gc::Cause;
using gc::g_collector;

namespace {

// A program that has a limit on address space may do without the collector, which could not start.
void InitBeforeFilter() {
  if (!HasBegunStart() && !platform::IsInSection() && platform::AddressSpaceLimit() == SIZE_MAX)
    Init();
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
  platform::RecordSchedulingOfProcess();
  (void)InstallForkHandlers();  // or Init does it
}

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
  constexpr uint64_t kMaxBytes = kGiB;
  const uint64_t half = g_options.initial_heap / 2;
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    alloc::PageSpaceOf(space).CommitAhead(static_cast<size_t>(half < kMaxBytes ? half : kMaxBytes));
  }
}

constexpr size_t kMinHeap = 16 * kMiB;
constexpr char kNoAddressSpace[] = "the system refuses 16 MiB of address space";

// Initialises everything. Returns what there is not enough memory or address space for; null on
// success.
const char* InitOnce() {
  g_fatal_context = DescribePhase;
  platform::KeepLoaded();
  RecordStandardError();
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
  platform::g_machine_costs.AssumeFaultNs(g_options.fault_cost);
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
  ApplyOptionsToVariables();
  CommitInitialHeap();
  GC_least_plausible_heap_addr = PointerAt<void>(alloc::g_space.base);
  GC_greatest_plausible_heap_addr = PointerAt<void>(alloc::g_space.base + alloc::g_space.bytes);
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

void Start() {
  const platform::UncancellableSection section;
  if (!BeginStart()) return;
  const char* refused = InitOnce();
  // Checked last: the tables are allocated by now.
  if (refused == nullptr && !alloc::AddressSpace::CanCommit(kMinHeap)) refused = kNoAddressSpace;
  if (refused != nullptr) Fatal("cannot start: %s", refused);
  EndStart(true);
}

}  // namespace

bool TryInit() {
  if (!BeginStart()) return true;
  const bool is_done = InitOnce() == nullptr;
  if (!is_done) alloc::g_space.Release();
  EndStart(is_done);
  return is_done;
}

constinit const WholeRuntime kWholeRuntime = {Start, RepairUnpreparedChild};

}  // namespace gleaner::runtime
