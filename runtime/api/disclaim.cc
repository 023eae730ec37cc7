// The GC_ API: disclaim procedures, and objects with a finalizer in their header.
#include "gc/gc_disclaim.h"
#include "gc/mark/kinds.h"
#include "runtime/api/api.h"

namespace {

// Bit in the header word of a finalized object, set together with the closure's address: the object
// has a closure. The word is a pointer into the closure, so a closure in the heap is kept even
// where only registered displacements count.
constexpr GC_word kHasClosure = 1;

constinit int g_finalized_kind = 0;  // guarded by the collector lock; constant once set

int RunClosure(void* base) {
  const auto* header = static_cast<GC_word*>(base);
  if ((*header & kHasClosure) == 0) return 0;
  const auto* closure = PointerAt<const GC_finalizer_closure>(*header & ~kHasClosure);
  closure->proc(static_cast<char*>(base) + kWordBytes, closure->cd);
  return 0;
}

}  // namespace

extern "C" {

void GC_register_disclaim_proc(int kind, GC_disclaim_proc procedure, int mark_from_all) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  if (kind < 0 || static_cast<size_t>(kind) >= gc::g_kind_count) {
    return Complain("GC_register_disclaim_proc: there is no kind %d; ignored", kind);
  }
  gc::SetDisclaim(static_cast<Kind>(kind), procedure, mark_from_all != 0);
}

void GC_init_finalized_malloc(void) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  if (g_finalized_kind != 0) return;
  const int kind = gc::MakeKind(gc::kLength, true);
  if (kind < 0) Fatal("GC_init_finalized_malloc: all kinds are in use");
  gc::SetDisclaim(static_cast<Kind>(kind), RunClosure, true);
  g_collector.ValidateDisplacement(kWordBytes);
  g_collector.ValidateDisplacement(kHasClosure);
  g_finalized_kind = kind;
}

void* GC_finalized_malloc(size_t bytes, const GC_finalizer_closure* closure) {
  if (RejectNull("GC_finalized_malloc", "the closure", closure)) return GC_malloc(bytes);
  if (AddressOf(closure) % kWordBytes != 0) {
    Complain("GC_finalized_malloc: the closure %p is no multiple of %zu; ignored",
             static_cast<const void*>(closure), kWordBytes);
    return GC_malloc(bytes);
  }
  if (g_finalized_kind == 0) {
    Complain("GC_finalized_malloc: called before GC_init_finalized_malloc");
    GC_init_finalized_malloc();
  }
  const size_t with_header = bytes + kWordBytes;
  void* base = with_header < bytes
                   ? runtime::OutOfMemory(bytes)
                   : runtime::Allocate(static_cast<Kind>(g_finalized_kind), with_header);
  if (base == nullptr) return nullptr;
  *static_cast<GC_word*>(base) = AddressOf(closure) | kHasClosure;
  return static_cast<char*>(base) + kWordBytes;
}

}  // extern "C"
