// The GC_ API: getting, resizing and freeing memory.
#include <cwchar>

#include "gc/mark/kinds.h"
#include "runtime/api/api.h"
#include "runtime/collect/barrier.h"
#include "runtime/collect/collect.h"
#include "runtime/debug/debug_objects.h"
#include "runtime/threads/blocking.h"

using alloc::FreeResult;
using runtime::DebugObjects;

namespace {

// The fast path, which nearly all calls take: a bump of the thread's own pointer. The rest is out
// of line.
GLEANER_ALWAYS_INLINE void* AllocateInline(Kind kind, size_t bytes) {
  if (GLEANER_LIKELY(bytes <= alloc::kMaxSmallBytes)) {
    void* p;
    if (GLEANER_LIKELY(alloc::t_heap->TryBump(kind, alloc::SizeClassOf(bytes), &p))) return p;
  }
  return runtime::Allocate(kind, bytes);
}

// Bytes that the object adds to GC_non_gc_bytes: its usable size if it is uncollectable, else 0.
GC_word NonGcBytesOf(void* object) {
  ObjectRef found;
  if (!alloc::FindSlot(AddressOf(object), &found) || !IsUncollectable(found.kind())) return 0;
  return found.bytes;
}

// Adds to GC_non_gc_bytes. A negative count is passed as its two's complement.
void AddNonGcBytes(GC_word bytes) {
  if (bytes != 0) __atomic_fetch_add(&GC_non_gc_bytes, bytes, __ATOMIC_RELAXED);  // a statistic
}

void* AllocateUncollectable(Kind kind, size_t bytes) {
  void* p = AllocateInline(kind, bytes);
  if (p != nullptr) AddNonGcBytes(NonGcBytesOf(p));
  return p;
}

// Zeroes an object whose kind has a disclaim procedure. A concurrent marker may mark the slot at
// the moment it is given back, and the slot then looks allocated until the next collection. The
// procedure finds zeroes in such a slot.
void EmptyIfDisclaimed(void* object) {
  ObjectRef found;
  if (!alloc::FindObject(AddressOf(object), &found) || found.base != AddressOf(object)) return;
  if (gc::RowOf(found.kind()).disclaim != nullptr) memset(object, 0, found.bytes);
}

void Free(const char* call, void* object) {
  // A blocked thread ends its blocking section first: it must not free while other threads may
  // mark. An unregistered thread stays unregistered: without a heap.
  if (GLEANER_UNLIKELY(!runtime::HasHeap())) runtime::EndBlocking();
  // Relaxed: a thread that has an uncollectable object sees a count at least as new, by whatever
  // showed it the object.
  const bool any = alloc::g_uncollectable_units.Load(platform::memory_order_relaxed) != 0;
  const GC_word non_gc_bytes = any ? NonGcBytesOf(object) : 0;
  if (DebugObjects::Started()) DebugObjects::Forget(AddressOf(object));
  if (GLEANER_UNLIKELY(gc::MayBeRegistered(AddressOf(object)))) {
    runtime::ForgetRegistered(object);
  }
  const FreeResult result = runtime::AsMutator([object] {
    if (GLEANER_UNLIKELY(gc::g_any_disclaim)) EmptyIfDisclaimed(object);
    return alloc::FreeObject(object);
  });
  switch (result) {
    case FreeResult::kFreed:
      return AddNonGcBytes(-non_gc_bytes);
    case FreeResult::kForeign:
      return Complain("%s(%p): not an object of the heap; ignored", call, object);
    case FreeResult::kInterior:
      return Complain("%s(%p): points into an object, not to its start; ignored", call, object);
    case FreeResult::kNotAllocated:
      return Complain("%s(%p): the object is free already; ignored", call, object);
  }
}

char* CopyString(const char* text, size_t length) {
  return runtime::CopyText(AllocateInline(Kind::kAtomic, length + 1), text, length);
}

}  // namespace

extern "C" {

void* GC_malloc(size_t bytes) { return AllocateInline(Kind::kNormal, bytes); }
void* GC_malloc_atomic(size_t bytes) { return AllocateInline(Kind::kAtomic, bytes); }
void* GC_malloc_uncollectable(size_t bytes) {
  return AllocateUncollectable(Kind::kUncollectable, bytes);
}
void* GC_malloc_atomic_uncollectable(size_t bytes) {
  return AllocateUncollectable(Kind::kAtomicUncollectable, bytes);
}

void* GC_malloc_ignore_off_page(size_t bytes) {
  return runtime::Allocate(Kind::kNormal, bytes, alloc::kGranuleBytes, true);
}
void* GC_malloc_atomic_ignore_off_page(size_t bytes) {
  return runtime::Allocate(Kind::kAtomic, bytes, alloc::kGranuleBytes, true);
}

void* GC_malloc_stubborn(size_t bytes) { return GC_malloc(bytes); }
void GC_change_stubborn(const void*) {}
void GC_end_stubborn_change(const void* object) {
  ObjectRef found;
  if (runtime::UsesCards() && alloc::FindObject(AddressOf(object), &found)) {
    gleaner_mark_cards(PointerAt<void>(found.base), found.bytes);
  }
}
void GC_ptr_store_and_dirty(void* slot, const void* value) {
  GLEANER_STORE(static_cast<const void**>(slot), value);
}

void* GC_memalign(size_t alignment, size_t bytes) {
  if (!gleaner::IsPowerOfTwo(alignment)) {
    Complain("GC_memalign(%zu, %zu): the alignment is no power of two", alignment, bytes);
    errno = EINVAL;
    return nullptr;
  }
  return runtime::Allocate(Kind::kNormal, bytes, alignment);
}

int GC_posix_memalign(void** result, size_t alignment, size_t bytes) {
  if (!gleaner::IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  void* p = GC_memalign(alignment, bytes);
  *result = p;
  return p == nullptr ? ENOMEM : 0;
}

void* GC_valloc(size_t bytes) { return GC_memalign(platform::OsPageBytes(), bytes); }
void* GC_pvalloc(size_t bytes) {
  const size_t os_page = platform::OsPageBytes();
  const size_t rounded = gleaner::AlignUp(bytes, os_page);
  return rounded < bytes ? runtime::OutOfMemory(bytes) : GC_memalign(os_page, rounded);
}

void* GC_realloc(void* old, size_t bytes) {
  if (old == nullptr) return GC_malloc(bytes);
  if (bytes == 0) {
    Free("GC_realloc", old);
    return nullptr;
  }
  // A blocked thread must not write to the heap.
  if (GLEANER_UNLIKELY(!runtime::HasHeap())) runtime::EndBlocking();
  ObjectRef object;
  const auto find = [&] { return alloc::FindObject(AddressOf(old), &object); };
  if (!runtime::AsMutator(find) || object.base != AddressOf(old)) {
    Complain("GC_realloc(%p, %zu): not an object of the heap", old, bytes);
    errno = EINVAL;
    return nullptr;
  }
  // The trailer, which describes the object's layout, stays at the end of the slot.
  const size_t trailer = gc::RowOf(object.kind()).trailer_bytes;
  const size_t usable = object.bytes - trailer;
  // Moving is worth it only if the object outgrows its slot or would waste half of it.
  if (bytes <= usable && bytes * 2 > usable) {
    // The part cut off must keep no object alive, and must read as zero if the object grows again.
    if (IsZeroed(object.kind())) memset(static_cast<char*>(old) + bytes, 0, usable - bytes);
    return old;
  }
  if (bytes > usable && trailer == 0 &&
      runtime::AsMutator([&] { return alloc::ResizeInPlace(object, bytes); })) {
    if (IsUncollectable(object.kind())) AddNonGcBytes(NonGcBytesOf(old) - object.bytes);
    return old;
  }
  if (bytes + trailer < bytes) return runtime::OutOfMemory(bytes);
  void* moved = runtime::Allocate(object.kind(), bytes + trailer);
  if (moved == nullptr) return nullptr;
  if (IsUncollectable(object.kind())) AddNonGcBytes(NonGcBytesOf(moved));
  const size_t kept = bytes < usable ? bytes : usable;
  memcpy(moved, old, kept);
  runtime::MarkWritten(moved, kept);
  ObjectRef found;
  // An out-of-memory procedure may return any pointer.
  if (trailer != 0 && alloc::FindSlot(AddressOf(moved), &found) && found.kind() == object.kind()) {
    void* end = static_cast<char*>(moved) + found.bytes - trailer;
    memcpy(end, static_cast<char*>(old) + usable, trailer);
    runtime::MarkWritten(end, trailer);
  }
  runtime::MoveRegistered(old, moved, bytes);
  Free("GC_realloc", old);
  return moved;
}

void GC_free(void* object) {
  if (object != nullptr) Free("GC_free", object);
}

char* GC_strdup(const char* text) {
  return text == nullptr ? nullptr : CopyString(text, strlen(text));
}
char* GC_strndup(const char* text, size_t max) { return CopyString(text, strnlen(text, max)); }
wchar_t* GC_wcsdup(const wchar_t* text) {
  const size_t length = wcslen(text);
  return runtime::CopyText(GC_malloc_atomic((length + 1) * sizeof(wchar_t)), text, length);
}

// Names that no other object can take (runtime/start/inline_allocation.cc).
#define OF_THIS_LIBRARY(function) __attribute__((visibility("hidden"), alias(#function)))
GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1) OF_THIS_LIBRARY(GC_malloc) void* gleaner_own_malloc(size_t);
GC_ATTR_MALLOC GC_ATTR_ALLOC_SIZE(1)
    OF_THIS_LIBRARY(GC_malloc_atomic) void* gleaner_own_malloc_atomic(size_t);

}  // extern "C"
