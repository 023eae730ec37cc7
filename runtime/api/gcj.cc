// The GC_ API: objects whose descriptor is found through their first word (gcj).
#include "gc/gc_gcj.h"
#include "gc/gc_mark.h"
#include "gc/mark/kinds.h"
#include "runtime/api/api.h"
#include "runtime/collect/barrier.h"
#include "runtime/process/options.h"

namespace {

constinit bool g_initialised = false;  // guarded by the collector lock; read once it is set

void* Allocate(const char* call, size_t bytes, void* type, bool ignore_off_page) {
  if (!g_initialised) {
    Complain("%s: called before GC_init_gcj_malloc; the object is taken to be pointers", call);
  }
  const Kind kind = g_initialised ? static_cast<Kind>(GC_gcj_kind) : Kind::kNormal;
  void* object = runtime::Allocate(kind, bytes, alloc::kGranuleBytes, ignore_off_page);
  if (object != nullptr) GLEANER_STORE(static_cast<void**>(object), type);
  return object;
}

}  // namespace

extern "C" {

int GC_gcj_kind = 0;
int GC_gcj_debug_kind = 0;

void GC_init_gcj_malloc(int index, void* procedure) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  if (g_initialised) return;
  if (index < 0 || static_cast<size_t>(index) >= gc::kReservedMarkProcedures) {
    Complain("GC_init_gcj_malloc: procedure number %d is not below GC_RESERVED_MARK_PROCS; ignored",
             index);
    return;
  }
  gc::g_mark_procedures[index] = reinterpret_cast<gc::MarkProcedure>(procedure);
  // The descriptor is the second word of the memory that the first word points to.
  constexpr uint64_t kInType = (-kWordBytes - gc::kIndirectBias) | gc::kPerObject;
  const bool ignore = runtime::g_options.ignore_gcj_info;
  const int kind = ignore ? static_cast<int>(Kind::kNormal) : gc::MakeKind(kInType, false);
  const int debug_kind = ignore ? kind : gc::MakeKind(GC_MAKE_PROC(index, 1), false);
  if (kind < 0 || debug_kind < 0) Fatal("GC_init_gcj_malloc: all kinds are in use");
  GC_gcj_kind = kind;
  GC_gcj_debug_kind = debug_kind;
  g_initialised = true;
}

void* GC_gcj_malloc(size_t bytes, void* type) {
  return Allocate("GC_gcj_malloc", bytes, type, false);
}
void* GC_gcj_malloc_ignore_off_page(size_t bytes, void* type) {
  return Allocate("GC_gcj_malloc_ignore_off_page", bytes, type, true);
}

}  // extern "C"
