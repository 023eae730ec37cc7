// The GC_ API: what mark procedures and root procedures call, mark bits, all objects.
#include "gc/gc_mark.h"
#include "gc/mark/kinds.h"
#include "platform/threads/stop_world.h"
#include "runtime/api/api.h"

using gc::MarkSink;
using gc::t_mark_sink;

namespace {

void PushRange(const char* call, const void* bottom, const void* top, bool interior) {
  MarkSink* sink = t_mark_sink;
  if (sink == nullptr) {
    return Complain("%s(%p, %p): called outside mark and root procedures; ignored", call, bottom,
                    top);
  }
  if (bottom < top) sink->push_range(sink, AddressOf(bottom), AddressOf(top), interior);
}

void SetMark(const void* base, bool marked) {
  ObjectRef object;
  if (alloc::FindSlot(AddressOf(base), &object)) g_collector.marker().SetMark(object, marked);
}

struct Enumeration {
  GC_reachable_object_proc proc;
  void* data;
};

void Report(const ObjectRef& object, void* context) {
  const auto* enumeration = static_cast<const Enumeration*>(context);
  enumeration->proc(PointerAt<void>(object.base), object.bytes, enumeration->data);
}

}  // namespace

extern "C" {

GC_ms_entry* GC_mark_and_push(void* object, GC_ms_entry* top, GC_ms_entry*, void**) {
  MarkSink* sink = t_mark_sink;
  if (GLEANER_LIKELY(sink != nullptr)) {
    sink->push(sink, AddressOf(object));
  } else {
    Complain("GC_mark_and_push(%p): called outside mark and root procedures; ignored", object);
  }
  return top;
}

void GC_push_all(void* bottom, void* top) { PushRange("GC_push_all", bottom, top, false); }
void GC_push_all_eager(void* bottom, void* top) {
  PushRange("GC_push_all_eager", bottom, top, true);
}
void GC_push_conditional(void* bottom, void* top, int) {
  PushRange("GC_push_conditional", bottom, top, false);
}
void GC_push_finalizer_structures(void) {}

int GC_is_marked(const void* base) {
  ObjectRef object;
  if (!alloc::FindSlot(AddressOf(base), &object)) return 0;
  // Marks are incomplete while a concurrent cycle marks, and for young objects: then every
  // allocated object counts as marked.
  const bool undecided = alloc::AllocationColour() != alloc::g_epoch && !platform::WorldIsStopped();
  return (undecided ? alloc::IsAllocated(alloc::LoadMark(object.mark()))
                    : g_collector.marker().IsMarked(object))
             ? 1
             : 0;
}
void GC_set_mark_bit(const void* base) { SetMark(base, true); }
void GC_clear_mark_bit(const void* base) { SetMark(base, false); }

void GC_enumerate_reachable_objects_inner(GC_reachable_object_proc proc, void* data) {
  if (RejectNull("GC_enumerate_reachable_objects_inner", "the procedure", proc)) return;
  if (!g_collector.lock().IsHeld()) {
    return Complain(
        "GC_enumerate_reachable_objects_inner: the allocation lock is not held "
        "(GC_call_with_alloc_lock); ignored");
  }
  Enumeration enumeration{proc, data};
  g_collector.ForEachObject(Report, &enumeration);
}

}  // extern "C"
