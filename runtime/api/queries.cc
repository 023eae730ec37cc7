// The GC_ API: questions about pointers, and checks of pointer arithmetic.
//
// An address is looked up in a critical section, so that no collection changes page descriptors
// during the look-up. A slot counts as an object unless its mark byte is that of a free slot. That
// is right during a collection too, when a thread that is not stopped sees both epochs.
#include "runtime/api/api.h"

namespace {

bool ResolveSlot(Addr a, ObjectRef* out) {
  platform::CriticalSection section;
  // A large object may end before its last page does.
  return alloc::FindSlot(a, out) && a - out->base < out->bytes;
}

bool ResolveObject(Addr a, ObjectRef* out) {
  platform::CriticalSection section;
  return ResolveSlot(a, out) && alloc::IsInUse(alloc::LoadMark(out->mark()));
}

bool IsInHeap(Addr a) { return alloc::g_space.Contains(a); }

bool AreInSameObject(Addr p, Addr q) {
  if (p == q || (!IsInHeap(p) && !IsInHeap(q))) return true;
  ObjectRef object;
  return ResolveSlot(p, &object) && q - object.base < object.bytes;
}

// AreInSameObject for a step of pointer arithmetic, which may begin or end just past the object.
// Objects have no padding, so that address belongs to the next object already.
bool IsStepInObject(Addr before, Addr after) {
  ObjectRef object;
  return AreInSameObject(before, after) ||
         (ResolveSlot(before, &object) && after == object.base + object.bytes) ||
         (ResolveSlot(after, &object) && before == object.base + object.bytes);
}

void SameObjectFailed(void* p, void* q) {
  Fatal("GC_same_obj: %p and %p do not point into the same object", p, q);
}
void DisplacementFailed(void* p) {
  Fatal(
      "GC_is_valid_displacement: %p does not keep an object: neither a base nor at a registered "
      "displacement",
      p);
}
void VisibilityFailed(void* p) {
  Fatal("GC_is_visible: the collector does not look for pointers at %p", p);
}

// *p += bytes, checked; returns the old value.
void* Step(void** p, ptrdiff_t bytes) {
  void* before = *p;
  *p = PointerAt<void>(AddressOf(before) + static_cast<Addr>(bytes));
  if (!IsStepInObject(AddressOf(before), AddressOf(*p))) GC_same_obj_print_proc(*p, before);
  return before;
}

}  // namespace

extern "C" {

void (*GC_same_obj_print_proc)(void*, void*) = SameObjectFailed;
void (*GC_is_valid_displacement_print_proc)(void*) = DisplacementFailed;
void (*GC_is_visible_print_proc)(void*) = VisibilityFailed;

void* GC_base(void* pointer) {
  ObjectRef object;
  return ResolveObject(AddressOf(pointer), &object) ? PointerAt<void>(object.base) : nullptr;
}

int GC_is_heap_ptr(const void* pointer) { return IsInHeap(AddressOf(pointer)) ? 1 : 0; }

size_t GC_size(const void* object) {
  ObjectRef found;
  if (ResolveSlot(AddressOf(object), &found)) return found.bytes;
  Complain("GC_size(%p): not an object of the heap", object);
  return 0;
}

size_t GC_get_size_map_at(int i) {
  if (i < 0 || static_cast<size_t>(i) > alloc::kMaxSmallBytes) return static_cast<size_t>(-1);
  return alloc::kSlotBytes[alloc::SizeClassOf(static_cast<size_t>(i))];
}

void GC_register_displacement(size_t offset) {
  if (offset >= alloc::kPageBytes) {
    return Complain("GC_register_displacement(%zu): at most %zu; ignored", offset,
                    alloc::kPageBytes - 1);
  }
  platform::LockGuard guard(g_collector.lock());
  g_collector.ValidateDisplacement(offset);
}

void* GC_same_obj(void* p, void* q) {
  if (!AreInSameObject(AddressOf(p), AddressOf(q))) GC_same_obj_print_proc(p, q);
  return p;
}

void* GC_is_valid_displacement(void* p) {
  if (!IsInHeap(AddressOf(p))) return p;
  ObjectRef object;
  const bool in_object = ResolveSlot(AddressOf(p), &object);
  const size_t offset = in_object ? AddressOf(p) - object.base : 0;
  if (!in_object || (GC_all_interior_pointers == 0 &&
                     (offset >= alloc::kPageBytes || !gc::g_valid_displacement[offset]))) {
    GC_is_valid_displacement_print_proc(p);
  }
  return p;
}

void* GC_is_visible(void* p) {
  if (!IsInHeap(AddressOf(p))) return p;
  ObjectRef object;
  if (AddressOf(p) % kWordBytes != 0 || !ResolveSlot(AddressOf(p), &object) ||
      IsPointerFree(object.kind())) {
    GC_is_visible_print_proc(p);
  }
  return p;
}

void* GC_pre_incr(void** p, ptrdiff_t bytes) {
  Step(p, bytes);
  return *p;
}
void* GC_post_incr(void** p, ptrdiff_t bytes) { return Step(p, bytes); }

GLEANER_NOINLINE void GC_noop1(GC_word value) { asm volatile("" : : "r"(value) : "memory"); }

GLEANER_NOINLINE void* GC_clear_stack(void* arg) {
  char unused[2048];
  memset(unused, 0, sizeof unused);
  asm volatile("" : : "r"(unused) : "memory");
  return arg;
}

}  // extern "C"
