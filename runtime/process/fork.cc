#include "runtime/process/fork.h"

#include <pthread.h>

#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "gc/finish/heap_samples.h"
#include "platform/os/interposed_calls.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "runtime/debug/debug_objects.h"
#include "runtime/nodes/arenas.h"
#include "runtime/nodes/topology_thread.h"
#include "runtime/observe/profiling.h"
#include "runtime/observe/snapshot.h"
#include "runtime/observe/tracing.h"
#include "runtime/process/runtime.h"
#include "runtime/process/variables.h"

namespace gleaner::runtime {

using gc::g_collector;

constinit bool g_child_is_stale = false;

namespace {

// The calling thread has taken the locks for a fork. In the child: so had its only thread.
constinit __thread bool t_fork_is_prepared = false;

}  // namespace

void PrepareFork() {
  if (!IsInitialised() || platform::IsInSection()) return;
  t_fork_is_prepared = true;
  g_collector.lock().Acquire();
  g_collector.cycle().AwaitSlice();
  if (!g_malloc_support.never_wait) Threads::PrepareFork();  // a malloc never asks the loader
  Threads::lock().Acquire();
  alloc::ThreadHeaps::LockForFork();
  alloc::PageSpaceOf(alloc::Space::kScanned).LockForFork();
  alloc::PageSpaceOf(alloc::Space::kPointerFree).LockForFork();
  DebugObjects::LockForFork();
  gc::g_heap_samples.LockForFork();
}

void ParentAfterFork() {
  if (!t_fork_is_prepared) return;
  t_fork_is_prepared = false;
  gc::g_heap_samples.UnlockAfterFork();
  DebugObjects::UnlockAfterFork();
  alloc::PageSpaceOf(alloc::Space::kPointerFree).UnlockAfterFork();
  alloc::PageSpaceOf(alloc::Space::kScanned).UnlockAfterFork();
  alloc::ThreadHeaps::UnlockAfterFork();
  Threads::lock().Release();
  g_collector.lock().Release();
}

void ChildAfterFork() {
  if (!IsInitialised()) return (void)platform::OwnMemory();
  // A thread that may have asked this one to stop is gone.
  platform::ResetStopAfterFork();
  if (!t_fork_is_prepared) {
    g_child_is_stale = true;
    gc::g_heap_samples.SuspendAfterFork();
    ResetProfileFileAfterFork();
    return;
  }
  alloc::AddressSpaceResetLockAfterFork();
  alloc::MetaResetLockAfterFork();
  ResetPrintingAfterFork();
  ParentAfterFork();
  // A thread that is gone may have held a lock of the program's malloc, which starting a helper
  // thread needs. So the child marks serially if its parent had several threads. (Helpers never
  // hold such a lock.)
  g_collector.ResetAfterFork(Threads::count() <= 1);
  Threads::ResetAfterFork();
  ForgetTopologyThread();
  Thread* self = Threads::Current();
  alloc::ThreadHeaps::ResetAfterFork(self != nullptr ? self->heap : nullptr);
  ResetTracingAfterFork();
  ResetProfilingAfterFork();
  ResetSnapshotsAfterFork();
  // After the tracker's reset, which may ask whose memory it is.
  if (platform::MemoryIsCopy()) (void)platform::OwnMemory();
}

// Locks held at this point are held by threads that are gone.
void RefreshStaleChild() {
  if (!g_child_is_stale) {  // no handler has run
    platform::ResetReservationsAfterFork();
    ChildAfterFork();
  }
  g_child_is_stale = false;
  g_collector.ResetAfterFork(false);
  Threads::ResetAfterFork();
  DebugObjects::ResetAfterFork();
  gc::g_heap_samples.BeginAnewAfterFork();
  PrepareFork();
  ChildAfterFork();
}

namespace {

constinit __thread bool t_arenas_are_locked = false;

void BeforeFork() {
  HoldInit();
  PrepareFork();
  t_arenas_are_locked = t_fork_is_prepared || !platform::IsInSection();
  if (t_arenas_are_locked) Arenas::LockForFork();
}
void UnlockArenasAfterFork() {
  if (t_arenas_are_locked) Arenas::UnlockAfterFork();
  t_arenas_are_locked = false;
}
void AfterForkInParent() {
  UnlockArenasAfterFork();
  ParentAfterFork();
  LetInit();
}
void AfterForkInChild() {
  platform::ResetReservationsAfterFork();
  UnlockArenasAfterFork();
  ChildAfterFork();
  LetInit();
}

constexpr platform::ForkHandlers kForkHandlers = {BeforeFork, AfterForkInParent, AfterForkInChild};
constinit platform::Atomic<bool> g_fork_handlers_installed{false};

}  // namespace

bool InstallForkHandlers() {
  if (g_fork_handlers_installed.Exchange(true, platform::memory_order_seq_cst)) return true;
  platform::SetForkHandlers(&kForkHandlers);
  if (pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild) == 0) return true;
  g_fork_handlers_installed.Store(false, platform::memory_order_seq_cst);
  return false;
}

}  // namespace gleaner::runtime
