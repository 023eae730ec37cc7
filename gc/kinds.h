// Kinds of objects made at run time, and how the marker reads their objects.
//
// A kind has a descriptor; to it the object's size is added if the kind says so. The sum says where
// the object's pointers are. Descriptors are part of libgc's ABI (gc_mark.h):
//
//   bits 1..0   the rest
//   0 length    the object's first bytes, as many as the descriptor's value, are words to look at
//   1 bitmap    bit 63 stands for the first word, bit 62 for the second ...
//   2 procedure (number of a mark procedure << 2) | (environment << 8)
//   3 object    the descriptor stands in the object, at that offset; or, if the value is negative,
//               in what the object's first word points to
//
// The tables only grow, under the collector lock. A marker reads the row of a kind that has a page,
// or the procedure that a descriptor names: both were there before the object. Mark procedures run
// with the world stopped, on several markers at once, and push through the calling thread's
// MarkSink.
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
  // The contents of unreachable objects stay, too, until the procedure has seen them.
  bool marks_contents_of_unreachable = false;
  DisclaimProcedure disclaim = nullptr;
  // Bytes at the end of each object that are not the program's: what says how it is to be read.
  // They stay at the end when an object is resized.
  size_t trailer_bytes = 0;
};

// Rows of alloc::Kind. Those of the built-in kinds only ever get a disclaim procedure.
extern KindRow g_kinds[alloc::kMaxKinds];
// Kinds that exist; the next one to be made gets this number.
extern size_t g_kind_count;
extern MarkProcedure g_mark_procedures[kMaxMarkProcedures];
extern size_t g_mark_procedure_count;
// Whether any kind has a disclaim procedure, or one that wants the contents of unreachable objects.
extern bool g_any_disclaim;
extern bool g_any_unreachable_contents;

inline const KindRow& RowOf(alloc::Kind kind) { return g_kinds[static_cast<size_t>(kind)]; }

// Makes a kind; -1 if all are in use. pre, here and below: the collector lock is held.
int MakeKind(uint64_t descriptor, bool add_size);
// Makes a number for a procedure; -1 if all are in use.
int MakeMarkProcedure(MarkProcedure procedure);
void SetDisclaim(alloc::Kind kind, DisclaimProcedure procedure, bool marks_contents);

// Where a mark procedure, or a client's root procedure, puts what it found: a marker, the
// verification, the list of roots.
struct MarkSink {
  void (*push)(MarkSink* self, Addr word);
  // A range of words; `interior`: pointers into the middle of objects count whatever the settings.
  void (*push_range)(MarkSink* self, Addr begin, Addr end, bool interior);
};
// The calling thread's, null outside such procedures.
extern __thread MarkSink* t_mark_sink;

// Hands the words of [begin, begin + bytes), a multiple of words, that a length or bitmap
// descriptor calls pointers to the sink. False, without a look at them, for descriptors of the
// other two tags.
bool PushByDescriptor(Addr begin, size_t bytes, uint64_t descriptor, MarkSink* sink);
// Hands everything that the object's descriptor calls a pointer to the sink.
// pre: the object's contents are described.
void PushDescribed(const alloc::ObjectRef& object, MarkSink* sink);
// The same while the program runs. False, and nothing is handed over, if that would need a mark
// procedure, which expects that nobody changes the object.
[[nodiscard]] bool TryPushDescribed(const alloc::ObjectRef& object, MarkSink* sink);

// Whether a mark procedure may say where the pointers of a marked object of that kind are: it may
// find some outside of the object, too. The world is stopped.
bool MayCallProcedure(alloc::Kind kind);

}  // namespace gleaner::gc
