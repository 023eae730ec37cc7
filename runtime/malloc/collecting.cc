#include "runtime/malloc/collecting.h"

#include "alloc/hooks.h"
#include "alloc/object.h"
#include "alloc/page_space.h"
#include "platform/mappings.h"
#include "platform/memory.h"
#include "runtime/runtime.h"
#include "runtime/variables.h"

namespace gleaner::malloc_proxy {
namespace {

using alloc::FreeResult;
using alloc::g_space;
using alloc::Kind;
using alloc::ObjectRef;
using platform::Range;
using runtime::Threads;

// --- Before the heap is ready ---

constexpr size_t kEarlyBytes = 64 * kKiB;
alignas(alloc::kGranuleBytes) constinit char g_early[kEarlyBytes] = {};
constinit platform::Atomic<size_t> g_early_used{0};
// Written by the thread that starts; others wait for it.
constinit bool g_ready = false;

bool IsEarly(const void* p) { return AddressOf(p) - AddressOf(g_early) < kEarlyBytes; }

// The block's size is in the granule in front of it.
void* AllocateEarly(size_t bytes, size_t alignment) {
  const size_t need = AlignUp(bytes, alloc::kGranuleBytes) + alloc::kGranuleBytes;
  if (bytes > kEarlyBytes || alignment > alloc::kGranuleBytes) return nullptr;
  const size_t at = g_early_used.FetchAdd(need, platform::memory_order_relaxed);  // no data with it
  if (at + need > kEarlyBytes) return nullptr;
  *reinterpret_cast<size_t*>(g_early + at) = bytes;
  return g_early + at + alloc::kGranuleBytes;
}
size_t EarlyBytes(const void* p) {
  return *reinterpret_cast<const size_t*>(static_cast<const char*>(p) - alloc::kGranuleBytes);
}

// --- Roots ---

// Memory of our own, which says nothing about the program's. Guarded by the collector lock.
constinit gc::RangeSet g_excluded;

void Exclude(Range range) {
  // Without memory for the list more counts as a root.
  if (range.begin < range.end) (void)g_excluded.Add(range);
}

void AddMappings(gc::RootTasks* roots) {
  constexpr size_t kAlwaysWhole = 256 * kKiB;
  g_excluded.Clear();
  Exclude({g_space.base, g_space.base + g_space.bytes});
  platform::VisitReservations([](void*, Range range) { Exclude(range); }, nullptr);
  // Stacks of registered threads count from their stack pointers on, and have been added.
  Threads::ForEachStackWorldStopped([](void*, Range range) { Exclude(range); }, nullptr);
  const bool read = platform::VisitPrivateWritableMappings(
      [](void* context, Range mapping) {
        g_excluded.ForEachGap(mapping, [context](Range part) {
          const auto add = [](void* tasks, Range touched) {
            static_cast<gc::RootTasks*>(tasks)->Add(gc::RootKind::kData, touched.begin,
                                                    touched.end);
          };
          if (part.bytes() <= kAlwaysWhole) return add(context, part);
          platform::VisitTouched(part, add, context);
        });
      },
      roots);
  if (!read) Fatal("collecting malloc: /proc/self/maps cannot be read: it has roots");
}

// --- The allocator's hooks: a thread that cannot collect here and now goes on without. ---

alloc::Hooks g_runtime_hooks;

bool MayCollect() { return Threads::Current() != nullptr && Threads::Current()->under_lock == 0; }
void OnAllocated(ptrdiff_t bytes) {
  if (MayCollect()) g_runtime_hooks.allocated(bytes);
}
bool OnExhausted(size_t bytes, int attempt) {
  return MayCollect() && g_runtime_hooks.exhausted(bytes, attempt);
}
void OnGrowth(size_t bytes) {
  if (MayCollect()) return g_runtime_hooks.grow(bytes);
  alloc::LimitGrowth(alloc::ResidentBytes() + bytes);
}

// --- Threads ---

bool Attach() {
  if (GLEANER_LIKELY(Threads::Current() != nullptr)) return true;
  return !Threads::HasComeToRegister() && runtime::AttachThread();
}

// The thread heap that belongs to no thread, under the threads lock.
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

void Collecting::Start() {
  runtime::g_malloc_support = {.never_wait = true, .add_roots = AddMappings};
  // A helper is a thread, and starting one from inside malloc asks for trouble.
  if (runtime::g_markers_wanted == 0) runtime::g_markers_wanted = 1;
  runtime::Init();
  g_runtime_hooks = alloc::g_hooks;
  alloc::g_hooks = {OnAllocated, OnExhausted, OnGrowth};
  g_ready = true;
}

void* Collecting::Allocate(size_t bytes, size_t alignment) {
  if (GLEANER_UNLIKELY(!g_ready)) return AllocateEarly(bytes, alignment);
  if (GLEANER_LIKELY(Attach())) {
    return alloc::AllocateObject(Kind::kNormal, bytes, alignment);
  }
  const OrphanSection section;
  return alloc::AllocateObject(Kind::kUncollectable, bytes, alignment);
}

bool Collecting::Free(void* p, const char* call) {
  if (IsEarly(p)) return true;
  if (!g_space.Contains(AddressOf(p))) return false;
  FreeResult result;
  if (Threads::Current() != nullptr) {
    result = alloc::FreeObject(p);
  } else {
    const OrphanSection section;
    result = alloc::FreeObject(p);
  }
  if (GLEANER_UNLIKELY(result != FreeResult::kFreed)) BadPointer(call, p, result);
  return true;
}

bool Collecting::UsableBytes(void* p, size_t* bytes, const char* call) {
  if (IsEarly(p)) return *bytes = EarlyBytes(p), true;
  if (!g_space.Contains(AddressOf(p))) return false;
  ObjectRef object;
  if (!alloc::FindObject(AddressOf(p), &object)) BadPointer(call, p, FreeResult::kNotAllocated);
  if (object.base != AddressOf(p)) BadPointer(call, p, FreeResult::kInterior);
  *bytes = object.bytes;
  return true;
}

bool Collecting::Resize(void* p, size_t bytes) {
  ObjectRef object;
  if (!g_space.Contains(AddressOf(p)) || !alloc::FindObject(AddressOf(p), &object)) return false;
  if (Threads::Current() != nullptr) return alloc::ResizeInPlace(object, bytes);
  const OrphanSection section;
  return alloc::ResizeInPlace(object, bytes);
}

bool Collecting::Trim() {
  const size_t before = alloc::ResidentBytes();
  if (Attach() && MayCollect()) (void)runtime::Collect(gc::Cause::kExplicit);
  gc::Collector::ReturnFreeMemory();
  return alloc::ResidentBytes() < before;
}

int Collecting::CreateThread(pthread_t* thread, const pthread_attr_t* attributes,
                             void* (*start)(void*), void* argument) {
  return Threads::Create(thread, attributes, start, argument);
}

}  // namespace gleaner::malloc_proxy
