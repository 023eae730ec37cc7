#include "malloc/process.h"

#include <pthread.h>

#include "alloc/span_space.h"
#include "alloc/thread_heaps.h"
#include "malloc/cache.h"
#include "malloc/collecting.h"
#include "malloc/leak_report.h"
#include "malloc/slot_heap.h"
#include "malloc/spans.h"
#include "platform/os/cancellation.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/os/standard_error.h"
#include "runtime/nodes/placement.h"
#include "runtime/observe/live_figures.h"
#include "runtime/process/limits.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/options.h"

namespace gleaner::runtime {
void (*const g_start_malloc)() = [] { (void)malloc_proxy::Start(); };
}  // namespace gleaner::runtime

namespace gleaner::malloc_proxy {

namespace {

using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;
using runtime::g_options;

enum StartState : uint32_t { kNotStarted, kStarting, kStarted, kRefused };
constinit platform::Atomic<uint32_t> g_start{kNotStarted};

constexpr size_t kMinHeap = 16 * kMiB;

// Free memory in pieces of 2 MiB that stays resident, and the time after which a surplus is
// returned.
constexpr size_t kIdleBudgetBytes = 64 * kMiB;
constexpr uint64_t kDecayNs = 1'000'000'000;

// The calling thread has taken the locks for a fork. It does not take them if it forks in a signal
// handler that has interrupted malloc, since the interrupted call may hold one of them; the child
// continues that call.
constinit __thread bool t_has_locked_all = false;

void LockAll() {
  // Relaxed: the calling thread has been through Start if it uses malloc at all.
  if (g_start.Load(memory_order_relaxed) != kStarted) return;
  if (platform::IsInSection()) return;
  t_has_locked_all = true;
  SlotHeaps::LockForFork();
  Shelf::LockForFork();
  alloc::PageSpaceOf(kSpace).LockForFork();
}

void UnlockAll() {
  if (!t_has_locked_all) return;
  t_has_locked_all = false;
  alloc::PageSpaceOf(kSpace).UnlockAfterFork();
  Shelf::UnlockAfterFork();
  SlotHeaps::UnlockAfterFork();
}

void UnlockAllInChild() {
  platform::ResetReservationsAfterFork();
  (void)platform::OwnMemory();  // of no use to who cannot tell
  if (!t_has_locked_all) return;
  UnlockAll();
  SlotHeaps::AbandonOthers(ThreadCache::Heap());
}

// The calling thread is in MakeHeap: functions called there may call malloc.
constinit __thread bool t_starting = false;

// An output that the program's user has asked for in vain.
void TellOfIdle(const char* option) {
  Complain("%s has no effect without GLEANER_COLLECT: nothing is collected; there is no file",
           option);
}

bool MakeHeap() {
  RecordStandardError();
  runtime::ReadOptions();
  // Said at once: at exit many programs have closed standard error.
  if (g_options.snapshot != nullptr && !g_options.collect) {
    TellOfIdle("GLEANER_SNAPSHOT");
    g_options.snapshot = nullptr;
  }
  if (g_options.collect || g_options.leaks || g_options.profile != nullptr) {
    if (!Collecting::Start()) return false;
    if (g_options.leaks) PrepareLeakReport();
    return true;
  }
  if (g_options.trace != nullptr) TellOfIdle("GLEANER_TRACE");
  runtime::StartTestDevices();
  alloc::AddressSpace& space = alloc::g_space;
  space.fast_free = true;
  runtime::SetHeapPlacement();
  const bool ok =
      space.Init(static_cast<size_t>(g_options.reserve), kMinHeap, g_options.malloc_huge_pages) &&
      alloc::InitPageSpaces(static_cast<alloc::FitPolicy>(g_options.tree_fit)) &&
      alloc::g_spans.Init(kIdleBudgetBytes, kDecayNs) &&
      alloc::ThreadHeaps::Init(static_cast<alloc::Policy>(g_options.policy), g_options.k) &&
      SlotHeaps::Init();
  if (!ok) {
    space.Release();
    return false;
  }
  alloc::SetHeapLimit(static_cast<size_t>(g_options.max_heap));
  ThreadCache::Init();
  runtime::ShowHeapTables();
  return true;
}

}  // namespace

bool Start() {
  // Acquire: pairs with the release below, which publishes the heap.
  uint32_t state = g_start.Load(memory_order_acquire);
  if (GLEANER_LIKELY(state == kStarted)) return true;
  if (state == kNotStarted && g_start.CompareExchange(state, kStarting, memory_order_acquire)) {
    const platform::UncancellableSection section;
    t_starting = true;
    const bool ok = MakeHeap();
    FindSignalFunctions();
    runtime::FindLimitFunctions();
    // While other threads wait: the handlers of nobody come before these (__register_atfork).
    if (ok && !IsCollecting() && pthread_atfork(LockAll, UnlockAll, UnlockAllInChild) != 0) {
      Complain("malloc: no memory for fork handlers: fork() is unsafe with several threads");
    }
    t_starting = false;
    g_start.Store(ok ? kStarted : kRefused, memory_order_release);  // publishes the heap
    platform::FutexWakeAll(&g_start);
    if (!ok) {
      Complain("malloc: the system refuses %zu MiB of address space; not replaced",
               kMinHeap / kMiB);
    }
    return ok;
  }
  if (t_starting) return true;
  while ((state = g_start.Load(memory_order_acquire)) == kStarting) {  // with the release above
    platform::FutexWait(&g_start, kStarting);
  }
  return state == kStarted;
}

bool ChecksEveryCall() { return g_options.malloc_check; }

bool Trim() {
  if (IsCollecting()) return Collecting::Trim();
  Shelf::Clear();
  alloc::ThreadHeaps::FlushFreePages(kSpace);
  return alloc::g_spans.Trim() != 0;
}

Figures CountMemory() {
  if (IsCollecting()) {
    Figures figures = {};
    figures.large_bytes = alloc::TakenPages() << alloc::kPageShift;
    figures.idle_bytes = alloc::ResidentBytes() - figures.large_bytes;
    return figures;
  }
  const SlotHeaps::Figures slots = SlotHeaps::Count();
  const size_t pages = alloc::PageSpaceOf(kSpace).taken().value();
  const size_t not_large = slots.small_pages + slots.free_pages;
  Figures figures;
  figures.small_bytes = (slots.small_pages << alloc::kPageShift) - slots.free_slot_bytes;
  figures.free_small_bytes = slots.free_slot_bytes;
  figures.free_slots = slots.free_slots;
  figures.free_page_bytes = slots.free_pages << alloc::kPageShift;
  figures.large_bytes = pages > not_large ? (pages - not_large) << alloc::kPageShift : 0;
  figures.waiting_bytes = Shelf::Bytes();
  figures.idle_bytes = alloc::g_spans.IdleBytes();
  return figures;
}

}  // namespace gleaner::malloc_proxy
