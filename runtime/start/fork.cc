#include "runtime/start/fork.h"

#include <pthread.h>

#include <iterator>

#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "gc/collector.h"
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
#include "runtime/process/malloc_support.h"
#include "runtime/process/printing.h"
#include "runtime/process/runtime_state.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

using gc::g_collector;

namespace {

// The calling thread has taken the locks for a fork. In the child: so had its only thread.
constinit __thread bool t_fork_is_prepared = false;

// What a fork takes, in the order of the locks' ranks, in which every thread takes them
// [inv.lock-rank]: so the forking thread waits for no thread that waits for it. They are given back
// in the reverse order.
//
// Of the other ranks, kCommit, kMeta, kLog, kTracking and kReservations are made free in the child,
// and the lists that kOwner guards are rebuilt there. Those of arenas, which come behind these
// rows, are taken also where the runtime is not started (BeforeFork).
constexpr struct {
  void (*take)();
  void (*give_back)();
} kParts[] = {
    {[] {
       g_collector.lock().Acquire();
       g_collector.cycle().AwaitSlice();
       if (!g_malloc_support.never_wait) Threads::PrepareFork();  // a malloc never asks the loader
     },
     [] { g_collector.lock().Release(); }},
    {[] { Threads::lock().Acquire(); }, [] { Threads::lock().Release(); }},
    {alloc::ThreadHeaps::LockForFork, alloc::ThreadHeaps::UnlockAfterFork},
    {[] { alloc::PageSpaceOf(alloc::Space::kScanned).LockForFork(); },
     [] { alloc::PageSpaceOf(alloc::Space::kScanned).UnlockAfterFork(); }},
    {[] { alloc::PageSpaceOf(alloc::Space::kPointerFree).LockForFork(); },
     [] { alloc::PageSpaceOf(alloc::Space::kPointerFree).UnlockAfterFork(); }},
    {DebugObjects::LockForFork, DebugObjects::UnlockAfterFork},
    {[] { gc::g_heap_samples.LockForFork(); }, [] { gc::g_heap_samples.UnlockAfterFork(); }},
};

}  // namespace

void PrepareFork() {
  if (!IsInitialised() || platform::IsInSection()) return;
  t_fork_is_prepared = true;
  for (const auto& part : kParts) part.take();
}

void ParentAfterFork() {
  if (!t_fork_is_prepared) return;
  t_fork_is_prepared = false;
  for (size_t i = std::size(kParts); i-- > 0;) kParts[i].give_back();
}

void ChildAfterFork() {
  if (!IsInitialised()) return (void)platform::OwnMemory();
  // A thread that may have asked this one to stop is gone.
  platform::ResetStopAfterFork();
  if (!t_fork_is_prepared) {
    g_unprepared_child = true;
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
void RepairUnpreparedChild() {
  if (!g_unprepared_child) {  // no handler has run
    platform::ResetReservationsAfterFork();
    ChildAfterFork();
  }
  g_unprepared_child = false;
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
  HoldStart();
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
  LetStart();
}
void AfterForkInChild() {
  platform::ResetReservationsAfterFork();
  UnlockArenasAfterFork();
  ChildAfterFork();
  LetStart();
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
