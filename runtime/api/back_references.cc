// The GC_ API: back references (gc_backptr.h).
//
// The references that keep objects alive are recorded by a collection of its own, made on demand.
// They hold until the next collection.
#include "gc/inspect/back_references.h"

#include "alloc/walk.h"
#include "gc/gc_backptr.h"
#include "platform/os/clock.h"
#include "runtime/api/api.h"
#include "runtime/debug/debug_objects.h"
#include "runtime/debug/findings.h"
#include "runtime/process/printing.h"

using alloc::PageNumber;
using alloc::Space;
using gc::BackReferences;
using runtime::DebugObject;
using runtime::DebugObjects;
using runtime::kDebugHeaderBytes;

namespace {

constexpr size_t kMaxPrintedLevels = 1000;

// Start of the part of the object that the program knows. pre: the collector lock is held.
Addr UserPart(Addr base) {
  DebugObject known;
  return DebugObjects::Find(base, &known) ? base + kDebugHeaderBytes : base;
}

// Prints the object at `base` as the program knows it. pre: the collector lock is held.
void PrintObject(const ObjectRef& object) {
  DebugObject known;
  const bool is_debugged = DebugObjects::Find(object.base, &known);
  const Addr start = UserPart(object.base);
  if (!is_debugged) {
    GC_printf("object at %#lx (allocated without GC_DEBUG, sz=%zu, %s)\n", start, object.bytes,
              runtime::NameOf(object.kind()));
    return;
  }
  char place[runtime::kPlaceChars];
  GC_printf("object at %#lx (%s, sz=%zu, %s)\n", start, Describe(known.place, place), known.bytes,
            runtime::NameOf(object.kind()));
}

// The recorded reference to the object; empty if another collection has replaced the record. pre:
// the collector lock is held.
BackReferences::Reference Find(Addr base) {
  const BackReferences::Reference* found = runtime::g_back_references.Find(base);
  return found != nullptr ? *found : BackReferences::Reference{};
}

uint64_t Random() {
  static constinit uint64_t state = 0;
  // Relaxed: a random number needs no order with other memory.
  const uint64_t next = __atomic_add_fetch(&state, platform::NowNs() | 1, __ATOMIC_RELAXED);
  return gleaner::Mix64(next);
}

// A random committed page; kNoPage if there is none.
PageNumber RandomPage() {
  const auto scanned = static_cast<PageNumber>(alloc::CommittedPages(Space::kScanned));
  const size_t others = alloc::CommittedPages(Space::kPointerFree);
  if (scanned + others == 0) return alloc::kNoPage;
  const auto i = static_cast<PageNumber>(Random() % (scanned + others));
  return i < scanned ? FirstCommitted(Space::kScanned) + i
                     : FirstCommitted(Space::kPointerFree) + (i - scanned);
}

}  // namespace

extern "C" {

GC_ref_kind GC_get_back_ptr_info(void* object, void** source, size_t* offset) {
  if (RejectNull("GC_get_back_ptr_info", "the source", source) ||
      RejectNull("GC_get_back_ptr_info", "the offset", offset)) {
    return GC_UNREFERENCED;
  }
  ObjectRef found;
  if (!alloc::FindObject(AddressOf(object), &found)) return GC_UNREFERENCED;
  if (!runtime::RecordBackReferences(found.base)) return GC_NO_SPACE;
  platform::LockGuard guard(g_collector.lock());
  const BackReferences::Reference reference = Find(found.base);
  switch (reference.from) {
    case BackReferences::From::kNothing:
      return GC_UNREFERENCED;
    case BackReferences::From::kFinalizer:
      return GC_FINALIZER_REFD;
    case BackReferences::From::kRoot:
      *source = PointerAt<void>(reference.word);
      *offset = 0;
      return GC_REFD_FROM_ROOT;
    case BackReferences::From::kHeap:
      break;
  }
  ObjectRef holder;
  if (!alloc::FindObject(reference.word, &holder)) return GC_UNREFERENCED;
  const Addr start = UserPart(holder.base);
  *source = PointerAt<void>(start);
  *offset = reference.word - start;
  return GC_REFD_FROM_HEAP;
}

void* GC_generate_random_heap_address(void) {
  runtime::Init();
  const PageNumber page = RandomPage();
  if (page == alloc::kNoPage) return nullptr;
  return PointerAt<void>(alloc::g_space.AddressOfPage(page) + Random() % alloc::kPageBytes);
}

void* GC_generate_random_valid_address(void) {
  runtime::Init();
  // The n-th candidate replaces the choice with probability 1/n.
  struct Choice {
    ObjectRef object;
    uint64_t candidates;
  } choice = {};
  platform::LockGuard guard(g_collector.lock());
  g_collector.ForEachObject(
      [](const ObjectRef& object, void* context) {
        auto* c = static_cast<Choice*>(context);
        if (Random() % ++c->candidates == 0) c->object = object;
      },
      &choice);
  if (choice.candidates == 0) return nullptr;
  return PointerAt<void>(choice.object.base + Random() % choice.object.bytes);
}

void GC_print_backtrace(void* address) {
  if (RejectNull("GC_print_backtrace", "the address", address)) return;
  ObjectRef object;
  if (!alloc::FindObject(AddressOf(address), &object)) {
    GC_printf("no object at %p\n", address);
    return;
  }
  if (!runtime::RecordBackReferences(object.base)) {
    GC_printf("no memory, or no collection possible, to find what refers to %p\n", address);
    return;
  }
  platform::LockGuard guard(g_collector.lock());
  PrintObject(object);
  for (size_t level = 0; level < kMaxPrintedLevels; ++level) {
    const BackReferences::Reference reference = Find(object.base);
    switch (reference.from) {
      case BackReferences::From::kNothing:
        GC_printf("  kept by nothing that is known of%s\n",
                  IsUncollectable(object.kind()) ? ": it is uncollectable" : "");
        return;
      case BackReferences::From::kFinalizer:
        GC_printf("  kept for a finalizer\n");
        return;
      case BackReferences::From::kRoot:
        GC_printf("  kept by the root at %#llx\n", runtime::AsNumber(reference.word));
        return;
      case BackReferences::From::kHeap:
        break;
    }
    if (!alloc::FindObject(reference.word, &object)) return;
    GC_printf("  kept by offset %zu in ", reference.word - UserPart(object.base));
    PrintObject(object);
  }
  GC_printf("  and so on\n");
}

void GC_generate_random_backtrace(void) {
  GC_gcollect();
  void* address = GC_generate_random_valid_address();
  if (address == nullptr) {
    GC_printf("no object found\n");
  } else {
    GC_print_backtrace(address);
  }
}

}  // extern "C"
