#include "malloc/collecting.h"

#include "alloc/hooks.h"
#include "alloc/object.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "malloc/process_roots.h"
#include "platform/os/filters.h"
#include "runtime/collect/collect.h"
#include "runtime/observe/profiling.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/options.h"
#include "runtime/process/variables.h"
#include "runtime/start/start.h"
#include "runtime/threads/mutator.h"

namespace gleaner::malloc_proxy {
namespace {

using alloc::FreeResult;
using alloc::g_space;
using alloc::Kind;
using alloc::ObjectRef;
using runtime::Threads;

// Written by the thread that starts malloc; published by that start (process.h).
constinit bool g_collecting = false;

// --- Before the heap is ready ---

constexpr size_t kEarlyBytes = 64 * kKiB;
alignas(alloc::kGranuleBytes) constinit char g_early[kEarlyBytes] = {};
constinit platform::Tickets<size_t> g_early_used{0};
// Written by the thread that starts malloc; other threads wait for that in Start.
constinit bool g_ready = false;

// The granule in front of a block has the block's size.
void* AllocateEarly(size_t bytes, size_t alignment) {
  const size_t need = AlignUp(bytes, alloc::kGranuleBytes) + alloc::kGranuleBytes;
  if (bytes > kEarlyBytes || alignment > alloc::kGranuleBytes) return nullptr;
  const size_t at = g_early_used.Take(need);
  if (at + need > kEarlyBytes) return nullptr;
  *reinterpret_cast<size_t*>(g_early + at) = bytes;
  return g_early + at + alloc::kGranuleBytes;
}

// --- Roots ---

// Collections in a row that were given up, and the heap's size from which on the next one is tried:
// a process whose roots cannot be found should not stop its threads again and again. Written
// under the collector lock.
constinit platform::Hint<uint32_t> g_given_up{0};
constinit platform::Hint<size_t> g_retry_bytes{0};
constexpr size_t kRetryStep = 4 * kMiB;
constexpr uint32_t kToldAfter = 8;

void AddRoots(gc::RootTasks* roots) { ProcessRoots::AddTo(roots); }

void OnCollected(bool done) {
  ProcessRoots::Release();
  if (done) return g_given_up.Set(0);
  const uint32_t times = g_given_up.Get() + 1;
  g_given_up.Set(times);
  g_retry_bytes.Set(alloc::ResidentBytes() + times * kRetryStep);
  if (times == kToldAfter) {
    Complain(
        "collecting malloc: no collection is possible: /proc/self/maps cannot be read, or a "
        "thread does not stop");
  }
}

// --- The allocator's hooks: a thread that cannot collect now goes on without a collection. ---

constinit alloc::Hooks g_runtime_hooks = {};

// Whether the calling thread may collect now. Not under a filter of system calls
// (runtime/collect/collect.cc). Not in a child of vfork or a thread of a bare clone()
// that shares thread-local storage: there the record is another thread's (tid differs).
bool MayCollect() {
  const runtime::Thread* self = Threads::Current();
  if (self == nullptr || self->under_lock != 0 || platform::HasFilter() ||
      self->tid != platform::CurrentThreadId()) {
    return false;
  }
  return GLEANER_LIKELY(g_given_up.Get() == 0) || alloc::ResidentBytes() >= g_retry_bytes.Get();
}

void OnAllocated(ptrdiff_t bytes) {
  if (!MayCollect()) return;
  const platform::UncancellableSection section;
  g_runtime_hooks.allocated(bytes);
  runtime::ClearDeadStackIfDue();
}
bool OnExhausted(size_t bytes, alloc::Attempts* attempts) {
  if (!MayCollect()) return false;
  const platform::UncancellableSection section;
  return g_runtime_hooks.exhausted(bytes, attempts);
}
void OnGrowth(size_t bytes, const alloc::Attempts& attempts) {
  if (!MayCollect()) {
    // Rounded to pages: the refused request is of whole pages, and a smaller limit would refuse it
    // again.
    const size_t room = AlignUp(bytes, alloc::kPageBytes);
    return alloc::LimitGrowth(gc::g_collector.pacer().MayGrowTo(alloc::ResidentBytes() + room));
  }
  const platform::UncancellableSection section;
  g_runtime_hooks.grow(bytes, attempts);
}

// --- Threads ---

// Registers the calling thread if it is not registered yet. Whether it is registered now.
bool Attach() {
  if (GLEANER_LIKELY(Threads::Current() != nullptr)) return true;
  if (Threads::HasComeToRegister()) return false;
  const platform::UncancellableSection section;
  return runtime::AttachThread();
}

// Allocates from the thread heap that belongs to no thread, under the threads lock.
class OrphanSection {
 public:
  OrphanSection() : guard_(Threads::lock()), saved_(alloc::t_heap) {
    alloc::t_heap = &alloc::ThreadHeaps::at(0);
  }
  ~OrphanSection() { alloc::t_heap = saved_; }

 private:
  platform::LockGuard guard_;
  alloc::ThreadHeap* const saved_;
};

// Calls f() so that no collection runs meanwhile without regard to the thread: a registered thread
// is stopped by collections; another one holds the threads lock [inv.malloc-orphan].
template <class F>
auto AsMutator(F f) {
  if (GLEANER_LIKELY(Attach())) return f();
  const OrphanSection section;
  return f();
}

[[noreturn]] GLEANER_COLD void BadPointer(const char* call, const void* p, FreeResult result) {
  if (result == FreeResult::kNotAllocated) {
    Fatal(
        "%s(%p): double free: the block is free already, or the program had lost it and it was "
        "collected",
        call, p);
  }
  Fatal("%s(%p): invalid pointer, or freed before: no block begins there", call, p);
}

}  // namespace

bool IsCollecting() { return g_collecting; }

bool Collecting::Start() {
  g_collecting = true;  // already for calls of malloc during the start
  runtime::g_malloc_support = {.never_wait = true,
                               .find_roots = ProcessRoots::Find,
                               .add_roots = AddRoots,
                               .collected = OnCollected};
  // No helpers: a thread must not be started from inside malloc.
  runtime::g_markers_wanted = 1;
  if (runtime::g_options.markers > 1) Complain("GLEANER_MARKERS is 1 under GLEANER_COLLECT");
  runtime::g_options.markers = 1;
  // ProcessRoots finds the segments of loaded objects among the mappings.
  GC_no_dls = 1;
  runtime::g_static_roots.main_data_cleared = true;
  if (!runtime::TryInit()) {
    g_collecting = false;
    return false;
  }
  // A program may keep only an interior pointer to a block.
  GC_all_interior_pointers = 1;
  // Another collector in the process may use the default suspend signal.
  platform::LeaveDefaultSuspendSignal();
  ProcessRoots::Init();
  // GLEANER_LEAKS and GLEANER_PROFILE alone collect nothing.
  if (!runtime::g_options.collect) GC_dont_gc = 1;
  g_runtime_hooks = alloc::g_hooks;
  alloc::g_hooks = {OnAllocated, OnExhausted, OnGrowth, nullptr, runtime::OnSampled};
  g_ready = true;
  return true;
}

void* Collecting::Allocate(size_t bytes, size_t alignment) {
  if (GLEANER_UNLIKELY(!g_ready)) return AllocateEarly(bytes, alignment);
  if (GLEANER_LIKELY(Attach())) {
    return alloc::AllocateObject(Kind::kNormal, bytes, alignment);
  }
  const OrphanSection section;
  return alloc::AllocateObject(Kind::kUncollectable, bytes, alignment);
}

bool Collecting::IsEarly(const void* p, size_t* bytes) {
  if (AddressOf(p) - AddressOf(g_early) >= kEarlyBytes) return false;
  *bytes = *reinterpret_cast<const size_t*>(static_cast<const char*>(p) - alloc::kGranuleBytes);
  return true;
}

bool Collecting::Free(void* p, const char* call) {
  if (size_t early; IsEarly(p, &early)) return true;
  if (!g_space.Reserves(AddressOf(p))) return false;
  if (GLEANER_UNLIKELY(alloc::g_sample_mean_bytes != 0)) runtime::ForgetRegistered(p);
  const FreeResult result = AsMutator([p] { return alloc::FreeObject(p); });
  if (GLEANER_UNLIKELY(result != FreeResult::kFreed)) BadPointer(call, p, result);
  return true;
}

bool Collecting::UsableBytes(void* p, size_t* bytes, const char* call) {
  if (IsEarly(p, bytes)) return true;
  if (!g_space.Reserves(AddressOf(p))) return false;
  ObjectRef object;
  if (!AsMutator([&] { return alloc::FindObject(AddressOf(p), &object); })) {
    BadPointer(call, p, FreeResult::kNotAllocated);
  }
  if (object.base != AddressOf(p)) BadPointer(call, p, FreeResult::kInterior);
  *bytes = object.bytes;
  return true;
}

bool Collecting::Resize(void* p, size_t bytes) {
  return AsMutator([=] {
    ObjectRef object;
    return alloc::FindObject(AddressOf(p), &object) && alloc::ResizeInPlace(object, bytes);
  });
}

bool Collecting::Trim() {
  const size_t before = alloc::ResidentBytes();
  if (Attach() && MayCollect()) {
    const platform::UncancellableSection section;
    (void)runtime::Collect(gc::Cause::kExplicit);
  }
  gc::Collector::ReturnFreeMemory();
  return alloc::ResidentBytes() < before;
}

void Collecting::TurnOffFor(const char* file) {
  if (!IsCollecting() || !runtime::g_options.collect || file == nullptr) return;
  const char* name = strrchr(file, '/');
  if (strcmp(name != nullptr ? name + 1 : file, "libjvm.so") != 0) return;
  Complain("nothing is collected: OpenJDK (%s) keeps pointers in compiled code", file);
  GC_disable();
}

void* Collecting::AllocateRoot(size_t bytes) {
  return AsMutator([bytes] { return alloc::AllocateObject(Kind::kUncollectable, bytes); });
}

}  // namespace gleaner::malloc_proxy
