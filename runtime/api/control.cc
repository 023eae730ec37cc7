// The GC_ API: starting, collecting, turning collection off and on, bounding the heap.
#include <cstdlib>

#include "alloc/page_space.h"
#include "runtime/api/api.h"
#include "runtime/collect/collect.h"
#include "runtime/collect/statistics.h"
#include "runtime/collect/tracking.h"
#include "runtime/process/memory_limit.h"
#include "runtime/process/options.h"

using gc::Cause;
using platform::TrackingKind;

namespace {

// Set by GC_deinit.
constinit platform::Hint<bool> g_deinitialised{false};

// libgc's name of the mechanism; "soft" means that the kernel records writes by itself.
unsigned VdbOf(TrackingKind kind) {
  switch (kind) {
    case TrackingKind::kNone:
      break;
    case TrackingKind::kUserfaultfd:
    case TrackingKind::kSoftDirty:
      return GC_VDB_SOFT;
    case TrackingKind::kProtection:
      return GC_VDB_MPROTECT;
    case TrackingKind::kCards:
      return GC_VDB_MANUAL;
  }
  return GC_VDB_NONE;
}

// The program's calls to collect. The stack is scanned from the registers saved at the call;
// further frames of the library would show stale words.

void CollectAtStop(Addr stack_pointer, void*) {
  runtime::Init();
  runtime::CollectFrom(stack_pointer, Cause::kExplicit, runtime::g_stop_func);
  if (runtime::g_force_unmap) g_collector.ReturnFreeMemory();
}

void CollectAndUnmap(Addr stack_pointer, void*) {
  runtime::Init();
  runtime::CollectFrom(stack_pointer, Cause::kExplicit);
  g_collector.ReturnFreeMemory();
}

struct TryCall {
  GC_stop_func stop;
  int done;
};
void TryToCollect(Addr stack_pointer, void* context) {
  auto* call = static_cast<TryCall*>(context);
  runtime::Init();
  call->done = runtime::CollectFrom(stack_pointer, Cause::kExplicit, call->stop) ? 1 : 0;
}

}  // namespace

extern "C" {

unsigned GC_get_version(void) { return 0x080202; }

void GC_init(void) {
  runtime::Init();
  g_deinitialised.Set(false);
}
int GC_is_init_called(void) {
  return runtime::IsInitialisationCalled() && !g_deinitialised.Get() ? 1 : 0;
}
void GC_deinit(void) { g_deinitialised.Set(true); }

void GC_gcollect(void) { platform::WithRegistersOnStack(CollectAtStop, nullptr); }

void GC_gcollect_and_unmap(void) { platform::WithRegistersOnStack(CollectAndUnmap, nullptr); }

int GC_try_to_collect(GC_stop_func stop) {
  TryCall call{stop, 0};
  platform::WithRegistersOnStack(TryToCollect, &call);
  return call.done;
}

int GC_collect_a_little(void) {
  runtime::Init();
  return runtime::CollectALittle(false) ? 1 : 0;
}

void GC_enable_incremental(void) {
  runtime::Init();
  if (!runtime::g_options.disable_incremental) runtime::TurnOn({.concurrent = true});
}
int GC_is_incremental_mode(void) { return runtime::IsIncremental() ? 1 : 0; }
void GC_start_incremental_collection(void) {
  runtime::Init();
  runtime::CollectALittle(true);
}
unsigned GC_get_supported_vdbs(void) {
  runtime::Init();
  unsigned vdbs = GC_VDB_NONE;
  for (const TrackingKind kind :
       {TrackingKind::kUserfaultfd, TrackingKind::kProtection, TrackingKind::kCards}) {
    if (runtime::CanTrack(kind)) vdbs |= VdbOf(kind);
  }
  return vdbs;
}
unsigned GC_get_actual_vdb(void) {
  return runtime::IsProgramsChoice() ? VdbOf(runtime::TrackingInUse()) : GC_VDB_NONE;
}
int GC_incremental_protection_needs(void) {
  runtime::Init();
  // Pointer-free memory is never tracked.
  return runtime::TrackingToUse() == TrackingKind::kProtection ? GC_PROTECTS_POINTER_HEAP
                                                               : GC_PROTECTS_NONE;
}

size_t gleaner_get_modes(gleaner_modes* modes, size_t size) {
  if (RejectNull("gleaner_get_modes", "the result", modes)) return 0;
  runtime::Init();
  const runtime::Modes in_use = runtime::ModesInUse();
  const bool finds_leaks = GC_find_leak != 0;  // such collections stop the program
  gleaner_modes all = {};
  all.concurrent = in_use.concurrent && !finds_leaks ? 1 : 0;
  all.generational = in_use.generational && !finds_leaks ? 1 : 0;
  all.tracking = TraitsOf(runtime::TrackingInUse()).name;
  runtime::CopyReason(all.reason, sizeof all.reason);
  all.automatic = runtime::IsAutomatic() ? 1 : 0;
  return CopyOut(modes, size, &all, sizeof all);
}

void gleaner_set_pause_goal(uint64_t nanoseconds) {
  // The next collection may see one of them late.
  runtime::g_pause_goal_ns.Set(nanoseconds == 0 ? 1 : nanoseconds);
  runtime::g_goal_is_set.Set(true);
}
uint64_t gleaner_get_pause_goal(void) {
  runtime::Init();
  return runtime::g_pause_goal_ns.Get();
}

void gleaner_set_memory_limit(uint64_t bytes) {
  runtime::Init();
  runtime::g_memory_limit.Set(bytes);
}
uint64_t gleaner_get_memory_limit(void) {
  runtime::Init();
  return runtime::MemoryLimitBytes();
}

size_t gleaner_get_choice(gleaner_choice* choice, size_t size) {
  if (RejectNull("gleaner_get_choice", "the result", choice)) return 0;
  runtime::Init();
  gleaner_choice all = {};
  {
    runtime::CollectorLockGuard guard;
    const gc::CycleReport& last = g_collector.last();
    all.collection = last.number;
    all.concurrent = last.concurrent ? 1 : 0;
    all.minor = last.minor ? 1 : 0;
    all.reason = NameOf(last.reason);
    all.expected_ns = last.expected_ns;
    all.actual_ns = last.pause.all_ns;
    all.price_permille = last.price < 1e6 ? static_cast<uint64_t>(1000 * last.price) : 1000000000;
  }
  return CopyOut(choice, size, &all, sizeof all);
}

void GC_disable(void) { __atomic_fetch_add(&GC_dont_gc, 1, __ATOMIC_SEQ_CST); }
void GC_enable(void) {
  if (__atomic_sub_fetch(&GC_dont_gc, 1, __ATOMIC_SEQ_CST) < 0) {
    __atomic_fetch_add(&GC_dont_gc, 1, __ATOMIC_SEQ_CST);
    Complain("GC_enable: collection is not disabled; ignored");
  }
}
int GC_is_disabled(void) { return GC_dont_gc != 0 ? 1 : 0; }

GLEANER_SETTING(int, disable_automatic_collection, runtime::g_disable_automatic)

int GC_expand_hp(size_t bytes) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  const size_t limit = alloc::HeapLimit();
  const size_t heap = runtime::HeapBytes();
  if (bytes > alloc::g_space.bytes || (limit != 0 && heap + bytes > limit)) return 0;
  g_collector.pacer().ExpandHeapTo(heap + bytes);
  if (alloc::GrowthLimit() < heap + bytes) alloc::LimitGrowth(heap + bytes);
  if (GC_on_heap_resize != nullptr) GC_on_heap_resize(heap + bytes);
  return 1;
}

void GC_set_max_heap_size(GC_word bytes) { runtime::SetMaxHeap(bytes); }

void GC_abort_on_oom(void) {
  Complain("out of memory");
  if (GC_on_abort != nullptr) GC_on_abort(nullptr);
  exit(1);
}

}  // extern "C"
