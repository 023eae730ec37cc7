// The GC_ API: finalizers.
#include "runtime/api/api.h"
#include "runtime/collect/collect.h"
#include "runtime/collect/hooks.h"
#include "runtime/process/memory_limit.h"

using gc::FinalizeOrder;
using gc::Finalizer;

namespace {

// Whether the object can have a finalizer. As in libgc, objects outside the heap get none, without
// a message, since they are never collected.
bool CanBeFinalized(const char* call, void* object) {
  if (RejectNull(call, "the object", object)) return false;
  return GC_base(object) != nullptr;
}

void Register(const char* call, FinalizeOrder order, void* object, GC_finalization_proc fn,
              void* data, GC_finalization_proc* old_fn, void** old_data) {
  if (GC_find_leak != 0) return;  // an unreachable object is a leak in this mode
  Finalizer old;
  bool is_due = false;
  if (CanBeFinalized(call, object)) {
    bool done;
    {
      platform::LockGuard guard(g_collector.lock());
      done =
          g_collector.registered().finalizers.Register(AddressOf(object), {fn, data, order}, &old);
      is_due = done && fn != nullptr && old.function == nullptr &&
               g_collector.WeighFinalizable(runtime::g_allocd_bytes_per_finalizer,
                                            runtime::TryReadProcessBytes);
    }
    if (!done) {
      runtime::OutOfMemory(sizeof(Finalizer));
      return;
    }
  }
  if (old_fn != nullptr) *old_fn = old.function;
  if (old_data != nullptr) *old_data = old.data;
  if (is_due) runtime::CollectForFinalizers();
}

}  // namespace

extern "C" {

#define REGISTRATION(name, order)                                                            \
  void name(void* object, GC_finalization_proc fn, void* data, GC_finalization_proc* old_fn, \
            void** old_data) {                                                               \
    Register(#name, FinalizeOrder::order, object, fn, data, old_fn, old_data);               \
  }
REGISTRATION(GC_register_finalizer, kNormal)
REGISTRATION(GC_register_finalizer_ignore_self, kIgnoreSelf)
REGISTRATION(GC_register_finalizer_no_order, kNoOrder)
REGISTRATION(GC_register_finalizer_unreachable, kUnreachable)
#undef REGISTRATION

// Reads two words without the lock. If a collection changes them in between, the answer was right a
// moment ago.
int GC_should_invoke_finalizers(void) {
  return g_collector.registered().finalizers.ready() != 0 ? 1 : 0;
}

int GC_invoke_finalizers(void) {
  // A finalizer may allocate, and the stack of this thread keeps its object.
  if (!runtime::AttachThread()) return 0;
  return runtime::InvokeFinalizers();
}

void GC_finalize_all(void) {
  if (!runtime::AttachThread()) return;
  do {
    platform::LockGuard guard(g_collector.lock());
    g_collector.registered().finalizers.QueueAll();
    // No finalizer was queued: all have run, or there is no memory to queue them.
  } while (runtime::InvokeFinalizers() != 0);
}

GLEANER_SETTING(int, finalize_on_demand, GC_finalize_on_demand)
GLEANER_SETTING(int, java_finalization, GC_java_finalization)
GLEANER_SETTING(GC_finalizer_notifier_proc, finalizer_notifier, GC_finalizer_notifier)
GLEANER_SETTING(GC_word, allocd_bytes_per_finalizer, runtime::g_allocd_bytes_per_finalizer)

void GC_set_await_finalize_proc(GC_await_finalize_proc proc) {
  // Relaxed: see on_queued.
  g_collector.registered().finalizers.on_queued.Store(proc, platform::memory_order_relaxed);
}
GC_await_finalize_proc GC_get_await_finalize_proc(void) {
  return g_collector.registered().finalizers.on_queued.Load(
      platform::memory_order_relaxed);  // as set
}

}  // extern "C"
