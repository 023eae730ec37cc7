#include "gc/mark/kinds.h"

namespace gleaner::gc {

using alloc::Contents;
using alloc::Kind;
using alloc::ObjectRef;

constinit KindRow g_kinds[alloc::kMaxKinds] = {};
constinit size_t g_kind_count = alloc::kBuiltInKinds;
constinit MarkProcedure g_mark_procedures[kMaxMarkProcedures] = {};
constinit size_t g_mark_procedure_count = kReservedMarkProcedures;
constinit bool g_any_disclaim = false;
constinit bool g_any_unreachable_contents = false;
constinit __thread MarkSink* t_mark_sink __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

// Mark procedures get pointers into this in place of the mark stack, and return them.
constinit char g_stack_cookie[4096] = {};
GC_ms_entry* StackTop() { return reinterpret_cast<GC_ms_entry*>(g_stack_cookie); }
GC_ms_entry* StackLimit() { return reinterpret_cast<GC_ms_entry*>(g_stack_cookie + 4096); }

constexpr unsigned kProcedureShift = 2;
constexpr unsigned kEnvironmentShift = 8;

// The last wrong descriptor complained about: one message for each descriptor, not for each object.
constinit platform::Hint<uint64_t> g_complained{0};

bool FirstComplaintAbout(uint64_t what) { return g_complained.Exchange(what) != what; }

// Some object's own descriptor has named a mark procedure, though its kind does not.
constinit platform::Atomic<bool> g_named_by_object{false};

void CallProcedure(const ObjectRef& object, uint64_t descriptor, MarkSink* sink) {
  const size_t number = (descriptor >> kProcedureShift) % kMaxMarkProcedures;
  const MarkProcedure procedure = g_mark_procedures[number];
  if (procedure == nullptr) {
    if (FirstComplaintAbout(descriptor)) {
      Complain(
          "mark descriptor 0x%llx names procedure %zu, which is not registered (GC_new_proc); "
          "objects are scanned whole",
          static_cast<unsigned long long>(descriptor), number);
    }
    return sink->push_range(sink, object.base, object.base + object.bytes, false);
  }
  MarkSink* const outer = t_mark_sink;
  t_mark_sink = sink;
  const GC_ms_entry* top = procedure(PointerAt<uint64_t>(object.base), StackTop(), StackLimit(),
                                     descriptor >> kEnvironmentShift);
  t_mark_sink = outer;
  if (top != StackTop() && FirstComplaintAbout(descriptor)) {
    Complain(
        "mark procedure %zu returned %p instead of the mark stack pointer it was given, or "
        "what GC_mark_and_push returned; what it pushed through GC_mark_and_push counts",
        number, static_cast<const void*>(top));
  }
}

}  // namespace

int MakeKind(uint64_t descriptor, bool add_size) {
  if (g_kind_count == alloc::kMaxKinds) return -1;
  const size_t kind = g_kind_count++;
  // The kind's descriptor says that each object's descriptor is at this distance from its end.
  const bool at_end = add_size && (descriptor & kDescriptorTags) == kPerObject &&
                      static_cast<int64_t>(descriptor) < 0;
  const size_t trailer_bytes = at_end ? kPerObject - descriptor : 0;
  g_kinds[kind] = {descriptor, add_size, false, nullptr, trailer_bytes};
  const bool length = (descriptor & kDescriptorTags) == kLength;
  alloc::g_contents[kind] = length && descriptor == 0
                                ? (add_size ? Contents::kWords : Contents::kPointerFree)
                                : Contents::kDescribed;
  return static_cast<int>(kind);
}

int MakeMarkProcedure(MarkProcedure procedure) {
  if (g_mark_procedure_count == kMaxMarkProcedures) return -1;
  g_mark_procedures[g_mark_procedure_count] = procedure;
  return static_cast<int>(g_mark_procedure_count++);
}

void SetDisclaim(Kind kind, DisclaimProcedure procedure, bool marks_contents) {
  KindRow& row = g_kinds[static_cast<size_t>(kind)];
  row.disclaim = procedure;
  row.marks_contents_of_unreachable = procedure != nullptr && marks_contents;
  g_any_disclaim = g_any_unreachable_contents = false;
  for (const KindRow& each : g_kinds) {
    g_any_disclaim |= each.disclaim != nullptr;
    g_any_unreachable_contents |= each.marks_contents_of_unreachable;
  }
}

bool PushByDescriptor(Addr begin, size_t bytes, uint64_t descriptor, MarkSink* sink) {
  switch (descriptor & kDescriptorTags) {
    case kLength:
      sink->push_range(sink, begin, begin + (descriptor < bytes ? descriptor : bytes), false);
      return true;
    case kBitmap:
      for (uint64_t bits = descriptor & ~kDescriptorTags; bits != 0;) {
        const auto word = static_cast<size_t>(__builtin_clzll(bits));
        if (word * kWordBytes >= bytes) break;
        sink->push(sink, LoadForeignWord(begin + word * kWordBytes));
        bits &= ~(uint64_t{1} << (63 - word));
      }
      return true;
    default:
      return false;
  }
}

bool FindDescriptor(const ObjectRef& object, MarkSink* sink, uint64_t* out) {
  const KindRow& row = RowOf(object.kind());
  uint64_t descriptor = row.descriptor + (row.add_size ? object.bytes : 0);
  if ((descriptor & kDescriptorTags) == kPerObject) {
    if (static_cast<int64_t>(descriptor) >= 0) {
      const size_t offset = descriptor - kPerObject;
      descriptor = offset <= object.bytes - kWordBytes ? LoadForeignWord(object.base + offset) : 0;
    } else {
      const Addr type = LoadForeignWord(object.base);
      if (type == 0) return false;  // on a free list, or not set up yet
      // If the world runs, the object may be freed by now, and the word no type.
      if (alloc::LoadMark(object.mark()) == alloc::kFreeSlot) return false;
      descriptor = LoadForeignWord(type - (descriptor - kPerObject + kIndirectBias));
      // On a client's free list the first word points to the next object, whose other words are 0.
      if (descriptor == 0) {
        sink->push(sink, type);
        return false;
      }
    }
  }
  *out = descriptor;
  return true;
}

namespace {

// For descriptors other than kProcedure; an invalid one has the object scanned whole.
void PushPlainlyDescribed(const ObjectRef& object, uint64_t descriptor, MarkSink* sink) {
  if (PushByDescriptor(object.base, object.bytes, descriptor, sink)) return;
  if (FirstComplaintAbout(descriptor)) {
    Complain("object %p: its descriptor 0x%llx refers to a descriptor again; scanned whole",
             PointerAt<void>(object.base), static_cast<unsigned long long>(descriptor));
  }
  sink->push_range(sink, object.base, object.base + object.bytes, false);
}

}  // namespace

void PushDescribed(const ObjectRef& object, MarkSink* sink) {
  uint64_t descriptor;
  if (!FindDescriptor(object, sink, &descriptor)) return;
  if ((descriptor & kDescriptorTags) == kProcedure) {
    if ((RowOf(object.kind()).descriptor & kDescriptorTags) != kProcedure) {
      // Relaxed, both: read when marking is over. The load avoids writing a shared cache line.
      if (!g_named_by_object.Load(platform::memory_order_relaxed)) {
        g_named_by_object.Store(true, platform::memory_order_relaxed);
      }
    }
    return CallProcedure(object, descriptor, sink);
  }
  PushPlainlyDescribed(object, descriptor, sink);
}

bool TryPushDescribed(const ObjectRef& object, MarkSink* sink) {
  uint64_t descriptor;
  if (!FindDescriptor(object, sink, &descriptor)) return true;
  if ((descriptor & kDescriptorTags) == kProcedure) return false;
  PushPlainlyDescribed(object, descriptor, sink);
  return true;
}

bool MayCallProcedure(alloc::Kind kind) {
  const uint64_t tag = RowOf(kind).descriptor & kDescriptorTags;
  // Relaxed: the markers have ended.
  return tag == kProcedure ||
         (tag == kPerObject && g_named_by_object.Load(platform::memory_order_relaxed));
}

}  // namespace gleaner::gc
