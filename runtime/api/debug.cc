// The GC_ API: allocation with checks.
//
// Each allocation makes a plain call for a somewhat larger object, which then becomes a debugged
// one. So initialisation, collections and the out-of-memory function are those of the plain call.
#include <cwchar>

#include "alloc/sampler.h"
#include "gc/finish/heap_samples.h"
#include "gc/gc_gcj.h"
#include "gc/gc_mark.h"
#include "gc/mark/kinds.h"
#include "runtime/api/api.h"
#include "runtime/collect/barrier.h"
#include "runtime/collect/collect.h"
#include "runtime/debug/debug_objects.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"

using runtime::DebugObject;
using runtime::DebugObjects;
using runtime::Describe;
using runtime::kDebugHeaderBytes;
using runtime::kPlaceChars;
using runtime::Place;

namespace {

void ReportFailure(const char* call, size_t bytes, Place place) {
  char text[kPlaceChars];
  Complain("%s(%zu): no memory; returning NULL (%s)", call, bytes, Describe(place, text));
}

// Calls `allocate` for a large enough object and makes the result a debugged object of `bytes`.
template <class F>
void* AllocateWith(const char* call, size_t bytes, Place place, F allocate) {
  const size_t total = DebugObjects::BytesFor(bytes);
  void* p = total != 0 ? allocate(total) : runtime::OutOfMemory(bytes);
  ObjectRef object;
  // The out-of-memory function may return any pointer. A result that is no new object of that size
  // is returned unchanged.
  if (p == nullptr || total == 0 || !alloc::FindObject(AddressOf(p), &object) ||
      object.base != AddressOf(p) || object.bytes < total) {
    if (p == nullptr) ReportFailure(call, bytes, place);
    return p;
  }
  if (!DebugObjects::Watch(object.base, bytes, place)) {
    GC_free(p);
    p = runtime::OutOfMemory(bytes);
    if (p == nullptr) ReportFailure(call, bytes, place);
    return p;
  }
  return PointerAt<void>(object.base + kDebugHeaderBytes);
}

// The base of the debugged object that the program knows as `p`, or 0.
Addr BaseOfDebugged(void* p, DebugObject* known) {
  ObjectRef object;
  if (!alloc::FindObject(AddressOf(p), &object)) return 0;
  if (object.base + kDebugHeaderBytes != AddressOf(p)) return 0;
  return DebugObjects::Find(object.base, known) ? object.base : 0;
}

// The outcome of freeing a debugged object.
struct Freeing {
  bool is_debugged = false;
  bool was_freed = false;
  Addr damage = 0;
  bool give_back = false;
  DebugObject known;
};

Freeing BeginFreeing(const ObjectRef& object) {
  Freeing freeing;
  runtime::CollectorLockGuard guard;
  if (!DebugObjects::SetFreed(object.base, &freeing.known)) return freeing;
  freeing.is_debugged = true;
  freeing.was_freed = freeing.known.freed;
  if (freeing.was_freed) return freeing;
  if (!freeing.known.reported) {
    freeing.damage = DebugObjects::FindDamage(object.base, freeing.known);
  }
  freeing.give_back =
      IsUncollectable(object.kind()) || (GC_find_leak != 0 && !runtime::g_options.delay_free);
  g_collector.registered().Move(object);
  if (alloc::g_sample_mean_bytes != 0) gc::g_heap_samples.Forget(object.base);
  DebugObjects::Empty(object.base, freeing.known);
  return freeing;
}

void Free(const char* call, void* p) {
  ObjectRef object;
  if (!alloc::FindObject(AddressOf(p), &object)) {
    return Complain("%s(%p): not an object of the heap, or freed already; ignored", call, p);
  }
  if (object.base == AddressOf(p)) {
    Complain("%s(%p): the object was allocated without debugging information", call, p);
    return GC_free(p);
  }
  Freeing freeing;
  if (object.base + kDebugHeaderBytes == AddressOf(p)) freeing = BeginFreeing(object);
  if (!freeing.is_debugged) {
    return Complain(
        "%s(%p): not what a GC_debug_ call returned: an object without debugging information, or "
        "the inside of one; ignored",
        call, p);
  }
  char place[kPlaceChars];
  if (freeing.was_freed) {
    return Complain("%s(%p): the object (%s, sz=%zu) was freed already; ignored", call, p,
                    Describe(freeing.known.place, place), freeing.known.bytes);
  }
  if (freeing.damage != 0) {
    Complain(
        "%s(%p): the object (%s, sz=%zu) is damaged: something was written at %#llx, outside "
        "of it",
        call, p, Describe(freeing.known.place, place), freeing.known.bytes,
        runtime::AsNumber(freeing.damage));
  }
  if (freeing.give_back) {
    GC_free(PointerAt<void>(object.base));
  } else {
    GC_incr_bytes_freed(object.bytes);
  }
}

// pre: there is such a kind.
void* AllocateOfKind(const char* call, size_t bytes, Kind kind, Place place) {
  return AllocateWith(call, bytes, place, [kind](size_t total) {
    return GC_generic_or_special_malloc(total, static_cast<int>(kind));
  });
}

void* Resize(const char* call, void* old, size_t bytes, Place place) {
  if (old == nullptr) {
    return AllocateOfKind(call, bytes, Kind::kNormal, place);
  }
  if (bytes == 0) {
    Free(call, old);
    return nullptr;
  }
  DebugObject known;
  const Addr base = BaseOfDebugged(old, &known);
  ObjectRef object;
  if (base == 0 || !alloc::FindObject(base, &object)) {
    Complain("%s(%p, %zu): the object was allocated without debugging information", call, old,
             bytes);
    return GC_realloc(old, bytes);  // which rejects what is no object at all
  }
  void* moved = AllocateOfKind(call, bytes, object.kind(), place);
  if (moved == nullptr) return nullptr;
  const size_t kept = bytes < known.bytes ? bytes : known.bytes;
  memcpy(moved, old, kept);
  runtime::MarkWritten(moved, kept);
  runtime::MoveRegistered(PointerAt<void>(base),
                          PointerAt<void>(AddressOf(moved) - kDebugHeaderBytes),
                          kDebugHeaderBytes + bytes);
  Free(call, old);
  return moved;
}

char* CopyString(const char* call, const char* text, size_t length, Place place) {
  return runtime::CopyText(AllocateOfKind(call, length + 1, Kind::kAtomic, place), text, length);
}

// --- Finalizers ---

// The finalizer that the program registered for a debugged object. It is itself an object, kept as
// the data of the finalizer that the collector knows.
struct Closure {
  GC_finalization_proc fn;
  void* data;
  size_t offset;  // from the base to the program's part
};

void CallClosure(void* object, void* data) {
  const Closure closure = *static_cast<Closure*>(data);
  closure.fn(PointerAt<void>(AddressOf(object) + closure.offset), closure.data);
}

using Registration = void (*)(void*, GC_finalization_proc, void*, GC_finalization_proc*, void**);

void RegisterFinalizer(const char* call, Registration registration, void* object,
                       GC_finalization_proc fn, void* data, GC_finalization_proc* old_fn,
                       void** old_data) {
  if (GC_find_leak != 0) return;
  if (old_fn != nullptr) *old_fn = nullptr;
  if (old_data != nullptr) *old_data = nullptr;
  if (RejectNull(call, "the object", object)) return;
  void* base = GC_base(object);
  if (base == nullptr) return;  // an object outside the heap is never finalized
  DebugObject known;
  size_t offset = kDebugHeaderBytes;
  if (BaseOfDebugged(object, &known) == 0) {
    Complain(
        "%s(%p): not the start of an object with debugging information; registered for the "
        "object it points into",
        call, object);
    if (base == object) offset = 0;
  }
  Closure* closure = nullptr;
  if (fn != nullptr) {
    closure = static_cast<Closure*>(GC_malloc(sizeof(Closure)));
    if (closure == nullptr) return;
    *closure = {fn, data, offset};
  }
  GC_finalization_proc old_registered = nullptr;
  void* old_closure = nullptr;
  registration(base, fn != nullptr ? CallClosure : nullptr, closure, &old_registered, &old_closure);
  if (old_registered == CallClosure) {
    old_registered = static_cast<Closure*>(old_closure)->fn;
    old_closure = static_cast<Closure*>(old_closure)->data;
  }
  if (old_fn != nullptr) *old_fn = old_registered;
  if (old_data != nullptr) *old_data = old_closure;
}

}  // namespace

extern "C" {

const size_t GC_debug_header_size = kDebugHeaderBytes;
size_t GC_get_debug_header_size(void) { return kDebugHeaderBytes; }

#define DEBUG_ALLOCATION(name, kind)                               \
  void* name(size_t bytes, const char* file, int line) {           \
    return AllocateOfKind(#name, bytes, Kind::kind, {file, line}); \
  }
DEBUG_ALLOCATION(GC_debug_malloc, kNormal)
DEBUG_ALLOCATION(GC_debug_malloc_atomic, kAtomic)
DEBUG_ALLOCATION(GC_debug_malloc_uncollectable, kUncollectable)
DEBUG_ALLOCATION(GC_debug_malloc_atomic_uncollectable, kAtomicUncollectable)
DEBUG_ALLOCATION(GC_debug_malloc_stubborn, kNormal)
#undef DEBUG_ALLOCATION

void* GC_debug_malloc_ignore_off_page(size_t bytes, const char* file, int line) {
  return AllocateWith("GC_debug_malloc_ignore_off_page", bytes, {file, line},
                      GC_malloc_ignore_off_page);
}
void* GC_debug_malloc_atomic_ignore_off_page(size_t bytes, const char* file, int line) {
  return AllocateWith("GC_debug_malloc_atomic_ignore_off_page", bytes, {file, line},
                      GC_malloc_atomic_ignore_off_page);
}
void* GC_debug_generic_or_special_malloc(size_t bytes, int kind, const char* file, int line) {
  const char* const call = "GC_debug_generic_or_special_malloc";
  if (kind < 0 || static_cast<size_t>(kind) >= gc::g_kind_count) {
    Complain("%s: there is no kind %d (%s:%d)", call, kind, file, line);
    errno = EINVAL;
    return nullptr;
  }
  return AllocateOfKind(call, bytes, static_cast<Kind>(kind), {file, line});
}

void* GC_debug_gcj_malloc(size_t bytes, void* type, const char* file, int line) {
  const char* const call = "GC_debug_gcj_malloc";
  if (GC_gcj_debug_kind == 0) {
    Complain("%s: called before GC_init_gcj_malloc; the object is taken to be pointers", call);
  }
  const Kind kind = GC_gcj_debug_kind != 0 ? static_cast<Kind>(GC_gcj_debug_kind) : Kind::kNormal;
  if (bytes < sizeof type) bytes = sizeof type;
  void* object = AllocateOfKind(call, bytes, kind, {file, line});
  if (object != nullptr) GLEANER_STORE(static_cast<void**>(object), type);
  return object;
}

GLEANER_NOINLINE void* GC_debug_malloc_replacement(size_t bytes) {
  return AllocateOfKind("GC_debug_malloc_replacement", bytes, Kind::kNormal,
                        {nullptr, static_cast<intptr_t>(AddressOf(__builtin_return_address(0)))});
}
GLEANER_NOINLINE void* GC_debug_realloc_replacement(void* object, size_t bytes) {
  return Resize("GC_debug_realloc_replacement", object, bytes,
                {nullptr, static_cast<intptr_t>(AddressOf(__builtin_return_address(0)))});
}

void* GC_debug_realloc(void* object, size_t bytes, const char* file, int line) {
  return Resize("GC_debug_realloc", object, bytes, {file, line});
}
void GC_debug_free(void* object) {
  if (object != nullptr) Free("GC_debug_free", object);
}

char* GC_debug_strdup(const char* text, const char* file, int line) {
  if (text == nullptr) return nullptr;
  return CopyString("GC_debug_strdup", text, strlen(text), {file, line});
}
char* GC_debug_strndup(const char* text, size_t max, const char* file, int line) {
  if (RejectNull("GC_debug_strndup", "the text", text)) return nullptr;
  return CopyString("GC_debug_strndup", text, strnlen(text, max), {file, line});
}
wchar_t* GC_debug_wcsdup(const wchar_t* text, const char* file, int line) {
  if (RejectNull("GC_debug_wcsdup", "the text", text)) return nullptr;
  const size_t length = wcslen(text);
  void* memory = AllocateOfKind("GC_debug_wcsdup", (length + 1) * sizeof(wchar_t), Kind::kAtomic,
                                {file, line});
  return runtime::CopyText(memory, text, length);
}

void GC_debug_change_stubborn(const void*) {}
void GC_debug_end_stubborn_change(const void* object) {
  if (GC_base(const_cast<void*>(object)) == nullptr) {
    return Complain("GC_debug_end_stubborn_change(%p): not an object of the heap; ignored", object);
  }
  GC_end_stubborn_change(object);
}
void GC_debug_ptr_store_and_dirty(void* slot, const void* value) {
  GC_ptr_store_and_dirty(GC_is_visible(slot), GC_is_valid_displacement(const_cast<void*>(value)));
}

void GC_debug_register_displacement(size_t offset) {
  GC_register_displacement(offset);
  // An offset too large to count is reported once, by the call above.
  if (offset < alloc::kPageBytes - kDebugHeaderBytes) {
    GC_register_displacement(offset + kDebugHeaderBytes);
  }
}

#define REGISTRATION(order)                                                                       \
  void GC_debug_register_finalizer##order(void* object, GC_finalization_proc fn, void* data,      \
                                          GC_finalization_proc* old_fn, void** old_data) {        \
    RegisterFinalizer("GC_debug_register_finalizer" #order, GC_register_finalizer##order, object, \
                      fn, data, old_fn, old_data);                                                \
  }
REGISTRATION()
REGISTRATION(_ignore_self)
REGISTRATION(_no_order)
REGISTRATION(_unreachable)
#undef REGISTRATION

}  // extern "C"
