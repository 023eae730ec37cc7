// The GC_ API: typed objects and arrays of them.
//
//   typed object | the program's words ... | descriptor |
//   typed array  | elements ... | element's bytes | element's descriptor |
//
// The last words of the slot belong to the library (KindRow::trailer_bytes) and come on top of the
// size asked for. They are zero while the object is being set up, which means that no word of it is
// a pointer yet. An array is read up to its trailer; the words behind its elements are zero.
#include "gc/gc_mark.h"
#include "gc/gc_typed.h"
#include "gc/mark/kinds.h"
#include "runtime/api/api.h"

using gc::MarkSink;
using gc::t_mark_sink;

namespace {

constexpr size_t kWordBits = 64;
constexpr size_t kBitmapBits = kWordBits - GC_DS_TAG_BITS;
constexpr size_t kTrailerWords = 2;  // of an array

// Bitmaps that do not fit into a descriptor, stored one after the other. Entries are written under
// the collector lock before a descriptor names them, and never change.
struct BitmapPart {
  GC_word bits;    // bit 0 is the first word
  bool continued;  // the next entry continues this bitmap
};
constexpr size_t kMaxParts = size_t{1} << 20;
constinit alloc::ReservedArray<BitmapPart> g_parts;
constinit size_t g_part_count = 0;

constinit Kind g_typed_kind{};
constinit Kind g_array_kind{};
constinit unsigned g_bitmap_procedure = 0;

bool BitAt(const GC_word* bitmap, size_t index) {
  return (bitmap[index / kWordBits] >> (index % kWordBits) & 1) != 0;
}

// Index of the first bitmap part: the environment of a descriptor that names MarkByBitmap.
size_t PartOf(GC_descr descriptor) {
  return descriptor >> (GC_DS_TAG_BITS + GC_LOG_MAX_MARK_PROCS);
}

// Pushes the words from `begin` to `end` that the bitmap starting at `part` marks as pointers.
void PushBitmap(Addr begin, Addr end, size_t part, MarkSink* sink) {
  for (;; ++part, begin += kWordBits * kWordBytes) {
    for (GC_word bits = g_parts[part].bits; bits != 0; bits &= bits - 1) {
      const Addr at = begin + static_cast<size_t>(__builtin_ctzll(bits)) * kWordBytes;
      if (at >= end) return;
      sink->push(sink, gleaner::LoadForeignWord(at));
    }
    if (!g_parts[part].continued) return;
  }
}

GC_ms_entry* MarkByBitmap(GC_word* object, GC_ms_entry* top, GC_ms_entry*, GC_word part) {
  ObjectRef found;
  if (alloc::FindSlot(AddressOf(object), &found)) {
    PushBitmap(found.base, found.base + found.bytes - kWordBytes, part, t_mark_sink);
  }
  return top;
}

GC_ms_entry* MarkArray(GC_word* object, GC_ms_entry* top, GC_ms_entry*, GC_word) {
  ObjectRef found;
  if (!alloc::FindSlot(AddressOf(object), &found)) return top;
  const GC_word* trailer = object + found.bytes / kWordBytes - kTrailerWords;
  const size_t element_bytes = trailer[0];
  const GC_descr descriptor = trailer[1];
  if (element_bytes == 0) return top;
  for (size_t left = found.bytes - kTrailerWords * kWordBytes; left != 0;) {
    const size_t bytes = element_bytes < left ? element_bytes : left;
    const Addr begin = AddressOf(trailer) - left;
    left -= bytes;
    if (gc::PushByDescriptor(begin, bytes, descriptor, t_mark_sink)) continue;
    PushBitmap(begin, begin + bytes, PartOf(descriptor), t_mark_sink);
  }
  return top;
}

// Whether the descriptor has a form that GC_make_descriptor returns: a length, a bitmap, or a
// bitmap among the entries made so far.
bool IsTypedDescriptor(GC_descr descriptor) {
  switch (descriptor & GC_DS_TAGS) {
    case GC_DS_LENGTH:
    case GC_DS_BITMAP:
      return g_typed_kind != Kind{};
    case GC_DS_PROC: {
      constexpr GC_word kNumbers = GC_MAX_MARK_PROCS - 1;
      return ((descriptor >> GC_DS_TAG_BITS) & kNumbers) == g_bitmap_procedure &&
             PartOf(descriptor) < g_part_count;
    }
    default:
      return false;
  }
}

bool RejectDescriptor(const char* call, GC_descr descriptor) {
  if (GLEANER_LIKELY(IsTypedDescriptor(descriptor))) return false;
  Complain("%s: 0x%lx is no descriptor of GC_make_descriptor; the object is taken to be pointers",
           call, descriptor);
  return true;
}

void* AllocateTyped(const char* call, size_t bytes, GC_descr descriptor, bool ignore_off_page) {
  if (RejectDescriptor(call, descriptor)) return GC_malloc(bytes);
  if (bytes + kWordBytes < bytes) return runtime::OutOfMemory(bytes);
  void* object =
      runtime::Allocate(g_typed_kind, bytes + kWordBytes, alloc::kGranuleBytes, ignore_off_page);
  ObjectRef found;
  // An out-of-memory procedure may return any pointer.
  if (object == nullptr || !alloc::FindSlot(AddressOf(object), &found)) return object;
  if (found.kind() != g_typed_kind) return object;
  static_cast<GC_word*>(object)[found.bytes / kWordBytes - 1] = descriptor;
  return object;
}

// Makes the kinds of typed objects when the first descriptor is asked for, and not earlier: kinds
// and procedures are numbered in the order in which they are made, and clients print these numbers.
// pre: the collector lock is held.
void MakeTypedKinds() {
  if (g_typed_kind != Kind{}) return;
  const int bitmap_procedure = gc::MakeMarkProcedure(MarkByBitmap);
  const int array_procedure = gc::MakeMarkProcedure(MarkArray);
  if (bitmap_procedure < 0 || array_procedure < 0) {
    Fatal("GC_make_descriptor: all numbers of mark procedures are in use");
  }
  g_bitmap_procedure = static_cast<unsigned>(bitmap_procedure);
  // The descriptor is the last word: at the object's size minus one word.
  constexpr uint64_t kLastWord = (-kWordBytes) | gc::kPerObject;
  const int typed_kind = gc::MakeKind(kLastWord, true);
  const int array_kind = gc::MakeKind(GC_MAKE_PROC(array_procedure, 0), false);
  if (typed_kind < 0 || array_kind < 0) {
    Fatal("GC_make_descriptor: all kinds are in use");
  }
  gc::g_kinds[array_kind].trailer_bytes = kTrailerWords * kWordBytes;
  g_array_kind = static_cast<Kind>(array_kind);
  g_typed_kind = static_cast<Kind>(typed_kind);
}

}  // namespace

extern "C" {

GC_descr GC_make_descriptor(const GC_word* bitmap, size_t length) {
  if (RejectNull("GC_make_descriptor", "the bitmap", bitmap)) return 0;
  runtime::Init();
  {
    platform::LockGuard guard(g_collector.lock());
    MakeTypedKinds();
  }
  while (length != 0 && !BitAt(bitmap, length - 1)) --length;
  if (length == 0) return 0;
  size_t prefix = 0;
  while (prefix < length && BitAt(bitmap, prefix)) ++prefix;
  if (prefix == length) return length * kWordBytes | GC_DS_LENGTH;
  if (length <= kBitmapBits) {
    GC_descr descriptor = GC_DS_BITMAP;
    for (size_t i = 0; i < length; ++i) {
      if (BitAt(bitmap, i)) descriptor |= GC_word{1} << (kWordBits - 1 - i);
    }
    return descriptor;
  }
  const size_t parts = (length + kWordBits - 1) / kWordBits;
  platform::LockGuard guard(g_collector.lock());
  if ((g_parts.max() == 0 && !g_parts.Reserve(kMaxParts)) ||
      !g_parts.EnsureCommitted(g_part_count + parts)) {
    return length * kWordBytes | GC_DS_LENGTH;
  }
  const size_t first = g_part_count;
  for (size_t i = 0; i < parts; ++i) {
    GC_word bits = bitmap[i];
    const size_t left = length - i * kWordBits;
    if (left < kWordBits) bits &= (GC_word{1} << left) - 1;
    g_parts[first + i] = {bits, i + 1 < parts};
  }
  g_part_count += parts;
  return GC_MAKE_PROC(g_bitmap_procedure, first);
}

void* GC_malloc_explicitly_typed(size_t bytes, GC_descr descriptor) {
  return AllocateTyped("GC_malloc_explicitly_typed", bytes, descriptor, false);
}
void* GC_malloc_explicitly_typed_ignore_off_page(size_t bytes, GC_descr descriptor) {
  return AllocateTyped("GC_malloc_explicitly_typed_ignore_off_page", bytes, descriptor, true);
}

void* GC_calloc_explicitly_typed(size_t count, size_t element_bytes, GC_descr descriptor) {
  size_t bytes;
  size_t with_trailer;
  if (__builtin_mul_overflow(count, element_bytes, &bytes) ||
      __builtin_add_overflow(bytes, kTrailerWords * kWordBytes, &with_trailer)) {
    return runtime::OutOfMemory(~size_t{0});
  }
  if (RejectDescriptor("GC_calloc_explicitly_typed", descriptor)) return GC_malloc(bytes);
  const bool plain = (descriptor & GC_DS_TAGS) == GC_DS_LENGTH && descriptor >= element_bytes;
  if (plain || bytes == 0) return GC_malloc(bytes);
  if (element_bytes % kWordBytes != 0) {
    Complain(
        "GC_calloc_explicitly_typed: elements of %zu bytes, no multiple of %zu; the array is "
        "taken to be pointers",
        element_bytes, kWordBytes);
    return GC_malloc(bytes);
  }
  void* array = runtime::Allocate(g_array_kind, with_trailer);
  ObjectRef found;
  if (array == nullptr || !alloc::FindSlot(AddressOf(array), &found)) return array;
  if (found.kind() != g_array_kind) return array;
  GC_word* trailer = static_cast<GC_word*>(array) + found.bytes / kWordBytes - kTrailerWords;
  trailer[1] = descriptor;
  // The descriptor first: a stop in between must not find elements without it.
  asm volatile("" ::: "memory");
  trailer[0] = element_bytes;
  return array;
}

}  // extern "C"
