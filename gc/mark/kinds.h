// Kinds of objects made at run time, and how the marker reads their objects.
//
// A kind has a descriptor. If the kind says so, the object's size is added to it. The sum tells
// where the object's pointers are. Descriptors are part of libgc's ABI (gc_mark.h):
//
//   bits 1..0   bits 63..2
//   0 length    the first bytes of the object, as many as the descriptor's value, are scanned
//   1 bitmap    bit 63 stands for the first word, bit 62 for the second ...
//   2 procedure (number of a mark procedure << 2) | (environment << 8)
//   3 object    the descriptor is in the object, at the offset given here; or, if the value is
//               negative, in the structure to which the object's first word points
//
// The tables only grow, under the collector lock. A marker reads the row of a kind that has a page,
// or the procedure that a descriptor names: the kind and the procedure were made before the object.
// Mark procedures run with the world stopped, on several markers at once, and push into the calling
// thread's MarkSink.
#pragma once

#include "alloc/object.h"

struct GC_ms_entry;

namespace gleaner::gc {

using MarkProcedure = GC_ms_entry* (*)(uint64_t* object, GC_ms_entry* top, GC_ms_entry* limit,
                                       uint64_t environment);
// Asked for an unreachable object: nonzero keeps it.
using DisclaimProcedure = int (*)(void* object);

enum DescriptorTag : uint64_t { kLength = 0, kBitmap = 1, kProcedure = 2, kPerObject = 3 };
inline constexpr uint64_t kDescriptorTags = 3;
// A negative per-object offset of -n is written as -n minus this.
inline constexpr uint64_t kIndirectBias = 0x10;

inline constexpr size_t kMaxMarkProcedures = 64;
inline constexpr size_t kReservedMarkProcedures = 8;  // as libgc's headers tell clients

struct KindRow {
  uint64_t descriptor = 0;
  bool add_size = false;
  // Objects to which unreachable objects refer stay until the disclaim procedure was called.
  bool marks_contents_of_unreachable = false;
  DisclaimProcedure disclaim = nullptr;
  // Bytes at the end of each object that hold its descriptor and are not the program's. When an
  // object is resized they move to the new end.
  size_t trailer_bytes = 0;
};

// By alloc::Kind. In the rows of built-in kinds only the disclaim procedure ever changes.
extern KindRow g_kinds[alloc::kMaxKinds];
// Kinds that exist; the next kind gets this number.
extern size_t g_kind_count;
extern MarkProcedure g_mark_procedures[kMaxMarkProcedures];
extern size_t g_mark_procedure_count;
// Whether any kind has a disclaim procedure; whether any kind marks_contents_of_unreachable.
extern bool g_any_disclaim;
extern bool g_any_unreachable_contents;

inline const KindRow& RowOf(alloc::Kind kind) { return g_kinds[static_cast<size_t>(kind)]; }

// Makes a kind; -1 if all are in use. pre, here and below: the collector lock is held.
int MakeKind(uint64_t descriptor, bool add_size);
// Makes a number for a procedure; -1 if all are in use.
int MakeMarkProcedure(MarkProcedure procedure);
void SetDisclaim(alloc::Kind kind, DisclaimProcedure procedure, bool marks_contents);

// Where a mark procedure or a client's root procedure pushes the words it finds: a marker, the
// verification, or the list of roots.
struct MarkSink {
  void (*push)(MarkSink* self, Addr word);
  // A range of words; `interior`: pointers into the middle of objects count whatever the settings.
  void (*push_range)(MarkSink* self, Addr begin, Addr end, bool interior);
};
// The calling thread's sink; null outside such procedures.
extern __thread MarkSink* t_mark_sink;

// Pushes the words of [begin, begin + bytes), a multiple of words, that a length or bitmap
// descriptor calls pointers. False, and nothing is pushed, for descriptors of the other two tags.
bool PushByDescriptor(Addr begin, size_t bytes, uint64_t descriptor, MarkSink* sink);
// Finds the object's own descriptor, or its kind's. False if there is nothing more to scan; then a
// word may have been pushed.
[[nodiscard]] bool FindDescriptor(const alloc::ObjectRef& object, MarkSink* sink, uint64_t* out);
// Pushes all words that the object's descriptor calls pointers.
// pre: the object's contents are described; the world is stopped.
void PushDescribed(const alloc::ObjectRef& object, MarkSink* sink);
// PushDescribed while the world runs. False, and nothing is pushed, if the object needs a mark
// procedure: such a procedure expects that no thread changes the object.
[[nodiscard]] bool TryPushDescribed(const alloc::ObjectRef& object, MarkSink* sink);

// Whether a mark procedure may find the pointers of objects of this kind. Such a procedure may also
// find pointers outside the object. pre: the world is stopped.
bool MayCallProcedure(alloc::Kind kind);

}  // namespace gleaner::gc
