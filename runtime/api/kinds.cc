// The GC_ API: kinds of objects, mark procedures, and allocation by kind.
#include "gc/mark/kinds.h"

#include "alloc/thread_heap.h"
#include "gc/gc_inline.h"
#include "gc/gc_mark.h"
#include "runtime/api/api.h"
#include "runtime/collect/barrier.h"

namespace {

// libgc's arrays of free lists have one entry for each size, in granules, up to half a block.
constexpr size_t kFreeListEntries = 129;

// Bytes of objects that GC_generic_malloc_many makes in one call.
constexpr size_t kManyBytes = 4 * gleaner::kKiB;

bool IsKind(int kind) { return kind >= 0 && static_cast<size_t>(kind) < gc::g_kind_count; }

bool RejectKind(const char* call, int kind) {
  if (GLEANER_LIKELY(IsKind(kind))) return false;
  Complain("%s: there is no kind %d", call, kind);
  errno = EINVAL;
  return true;
}

void* AllocateKind(const char* call, size_t bytes, int kind, bool ignore_off_page) {
  if (RejectKind(call, kind)) return nullptr;
  // The calls for uncollectable memory count it in GC_non_gc_bytes.
  if (kind == static_cast<int>(Kind::kUncollectable)) return GC_malloc_uncollectable(bytes);
  if (kind == static_cast<int>(Kind::kAtomicUncollectable)) {
    return GC_malloc_atomic_uncollectable(bytes);
  }
  return runtime::Allocate(static_cast<Kind>(kind), bytes, alloc::kGranuleBytes, ignore_off_page);
}

unsigned NewKind(void** free_list, GC_word descriptor, int add_size) {
  RejectNull("GC_new_kind", "the free list", free_list);
  const int kind = gc::MakeKind(descriptor, add_size != 0);
  if (kind < 0) Fatal("GC_new_kind: all %zu kinds are in use", alloc::kMaxKinds);
  return static_cast<unsigned>(kind);
}

unsigned NewProcedure(GC_mark_proc procedure) {
  if (RejectNull("GC_new_proc", "the procedure", procedure)) return 0;
  const int number = gc::MakeMarkProcedure(procedure);
  if (number < 0) Fatal("GC_new_proc: all %zu numbers are in use", gc::kMaxMarkProcedures);
  return static_cast<unsigned>(number);
}

// Always empty: clients that look at a list then call the allocation function.
constinit void* g_empty_free_lists[4][kFreeListEntries] = {};

}  // namespace

extern "C" {

void** GC_aobjfreelist_ptr = g_empty_free_lists[0];
void** GC_objfreelist_ptr = g_empty_free_lists[1];
void** GC_uobjfreelist_ptr = g_empty_free_lists[2];
void** GC_auobjfreelist_ptr = g_empty_free_lists[3];

void** GC_new_free_list(void) {
  return static_cast<void**>(alloc::MetaAllocate(kFreeListEntries * sizeof(void*)));
}
void** GC_new_free_list_inner(void) { return GC_new_free_list(); }

unsigned GC_new_kind(void** free_list, GC_word descriptor, int add_size, int) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  return NewKind(free_list, descriptor, add_size);
}
unsigned GC_new_kind_inner(void** free_list, GC_word descriptor, int add_size, int) {
  return NewKind(free_list, descriptor, add_size);
}

unsigned GC_new_proc(GC_mark_proc procedure) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  return NewProcedure(procedure);
}
unsigned GC_new_proc_inner(GC_mark_proc procedure) { return NewProcedure(procedure); }

#define ALLOCATION_BY_KIND(name, ignore_off_page) \
  void* name(size_t bytes, int kind) { return AllocateKind(#name, bytes, kind, (ignore_off_page)); }
ALLOCATION_BY_KIND(GC_generic_malloc, false)
ALLOCATION_BY_KIND(GC_generic_malloc_ignore_off_page, true)
ALLOCATION_BY_KIND(GC_generic_malloc_uncollectable, false)
ALLOCATION_BY_KIND(GC_generic_or_special_malloc, false)
ALLOCATION_BY_KIND(GC_malloc_kind, false)
ALLOCATION_BY_KIND(GC_malloc_kind_global, false)
#undef ALLOCATION_BY_KIND

void GC_generic_malloc_many(size_t bytes, int kind, void** result) {
  *result = nullptr;
  if (RejectKind("GC_generic_malloc_many", kind) || !runtime::AttachToHeap()) return;
  if (bytes == 0) bytes = 1;
  // As in libgc, a caller that asks for small objects calls the out-of-memory procedure itself.
  if (bytes > alloc::kMaxSmallBytes) {
    void* object = runtime::Allocate(static_cast<Kind>(kind), bytes);
    if (object != nullptr) GLEANER_STORE(static_cast<void**>(object), nullptr);
    *result = object;
    return;
  }
  const size_t count = bytes >= kManyBytes ? 1 : kManyBytes / bytes;
  const size_t size_class = alloc::SizeClassOf(bytes);
  alloc::t_heap->Poll();  // reports objects of earlier fast-path allocations
  void* object = alloc::AllocateObject(static_cast<Kind>(kind), bytes);
  // Objects of most kinds hide the link in their first word from the collector, so a collection
  // would free the rest of the list. Inside the section there is no collection.
  const platform::CriticalSection section;
  // Linked from the last to the first, so that the list is in the order of addresses.
  void* list = nullptr;
  for (size_t i = 1; object != nullptr; ++i) {
    GLEANER_STORE(static_cast<void**>(object), list);
    list = object;
    object = i < count ? alloc::t_heap->TryAllocate(static_cast<Kind>(kind), size_class) : nullptr;
  }
  *result = list;
}

void* GC_malloc_many(size_t bytes) {
  void* list;
  const size_t rounded = gleaner::AlignUp(bytes, alloc::kGranuleBytes);
  GC_generic_malloc_many(rounded < bytes ? bytes : rounded, GC_I_NORMAL, &list);
  return list;
}

int GC_get_kind_and_size(const void* base, size_t* size) {
  alloc::ObjectRef object;
  if (!alloc::FindSlot(AddressOf(base), &object)) {
    Complain("GC_get_kind_and_size(%p): not an object of the heap", base);
    if (size != nullptr) *size = 0;
    return -1;
  }
  if (size != nullptr) *size = object.bytes;
  return static_cast<int>(object.kind());
}

}  // extern "C"
