#include "runtime/debug/findings.h"

#include "alloc/walk.h"
#include "gc/collector.h"
#include "runtime/collect/collect.h"
#include "runtime/debug/printing.h"
#include "runtime/process/options.h"
#include "runtime/process/runtime.h"
#include "runtime/process/variables.h"

namespace gleaner::runtime {

using alloc::ObjectRef;
using gc::g_collector;

namespace {

// Guarded by the collector lock.
constinit bool g_references_wanted = false;
constinit uint64_t g_references_of = 0;  // number of the collection that recorded them; 0: none

}  // namespace

void (*g_describe_type[alloc::kMaxKinds])(void* object, char* out) = {};

constinit decltype(Findings::leaks_) Findings::leaks_;
constinit decltype(Findings::damages_) Findings::damages_;
constinit bool Findings::any_ = false;

const char* NameOf(alloc::Kind kind) {
  switch (kind) {
    case alloc::Kind::kAtomic:
      return "PTRFREE";
    case alloc::Kind::kNormal:
      return "NORMAL";
    case alloc::Kind::kUncollectable:
      return "UNCOLLECTABLE";
    case alloc::Kind::kAtomicUncollectable:
      return "ATOMIC_UNCOLLECTABLE";
    case alloc::Kind::kFirstMade:
      break;
  }
  return "OTHER";
}

constinit gc::BackReferences g_back_references;

namespace {
// pre: the collector lock is held.
bool HasBackReferences(Addr base) {
  return g_references_of != 0 && g_references_of == g_collector.collections() &&
         g_back_references.Find(base) != nullptr;
}
}  // namespace

bool RecordBackReferences(Addr base) {
  {
    platform::LockGuard guard(g_collector.lock());
    if (HasBackReferences(base)) return true;
    g_references_wanted = true;
  }
  Collect(gc::Cause::kExplicit);
  platform::LockGuard guard(g_collector.lock());
  g_references_wanted = false;
  return HasBackReferences(base);
}

template <class T, size_t kMax>
void Findings::Log<T, kMax>::Add(const T& entry) {
  any_ = true;
  // Address space may be short, so it is reserved only in a program that has something to report.
  const bool reserved = entries.max() != 0 || entries.Reserve(kMax);
  if (reserved && entries.EnsureCommitted(noted + 1)) {
    entries[noted++] = entry;
  } else {
    ++lost;
  }
}

template <class T, size_t kMax>
void Findings::Log<T, kMax>::Claim(size_t* begin, size_t* end, size_t* lost_entries) {
  *begin = claimed;
  *end = claimed = noted;
  *lost_entries = lost;
  lost = 0;
}

template <class T, size_t kMax>
void Findings::Log<T, kMax>::Done(size_t count) {
  done += count;
  if (done == noted) done = claimed = noted = 0;
}

void Findings::InspectWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                                   const gc::MarkConfig& config) {
  if (g_references_wanted) {
    g_references_wanted = false;
    const bool done = g_back_references.RecordWorldStopped(marker, roots, config);
    g_references_of = done ? g_collector.collections() : 0;
  }
  for (size_t i = 0; i < leaks_.noted; ++i) {
    ObjectRef object;
    if (leaks_.entries[i].base != 0 && alloc::FindSlot(leaks_.entries[i].base, &object)) {
      *object.mark() = marker.black();
    }
  }
  if (GC_find_leak != 0) FindLeaks(marker);
  if (!DebugObjects::Started()) return;
  DebugObjects::Inspect(marker, [](Addr base, const DebugObject& object, Addr where) {
    damages_.Add({base, where, object.bytes, object.place});
  });
}

void Findings::NoteIfLeaked(const gc::Marker& marker, const ObjectRef& object) {
  if (!marker.IsWhite(object)) return;
  Leak leak{object.base, object.kind(), false, object.bytes, {}};
  if (DebugObject known; DebugObjects::Find(object.base, &known)) {
    if (known.freed) return;
    leak.has_place = true;
    leak.bytes = known.bytes;
    leak.place = known.place;
  }
  const size_t lost = leaks_.lost;
  leaks_.Add(leak);
  if (leaks_.lost == lost) *object.mark() = marker.black();
}

void Findings::FindLeaks(const gc::Marker& marker) {
  alloc::ForEachSlot([&marker](const ObjectRef& object) { NoteIfLeaked(marker, object); });
}

void Findings::PrintLeak(const Leak& leak) {
  const char* type = NameOf(leak.kind);
  char description[kTypeChars + 1] = "";
  const auto kind = static_cast<size_t>(leak.kind);
  const Addr object = leak.base + (leak.has_place ? kDebugHeaderBytes : 0);
  if (leak.has_place && kind < alloc::kMaxKinds && g_describe_type[kind] != nullptr) {
    g_describe_type[kind](PointerAt<void>(object), description);
    description[kTypeChars] = 0;
    type = description;
  }
  char place[kPlaceChars] = "allocated without GC_DEBUG";
  if (leak.has_place) Describe(leak.place, place);
  Print(Stream::kError, "Leaked %s object at %#llx (%s, sz=%zu, %s)\n",
        IsPointerFree(leak.kind) ? "atomic" : "composite", AsNumber(object), place, leak.bytes,
        type);
}

bool Findings::ReportLeaks() {
  size_t begin;
  size_t end;
  size_t lost;
  {
    platform::LockGuard guard(g_collector.lock());
    leaks_.Claim(&begin, &end, &lost);
  }
  if (begin == end && lost == 0) return false;
  Print(Stream::kError, "gleaner: found %zu leaked objects:\n", end - begin + lost);
  for (size_t i = begin; i < end; ++i) {
    PrintLeak(leaks_.entries[i]);
    platform::LockGuard guard(g_collector.lock());
    DebugObjects::Forget(leaks_.entries[i].base);
    alloc::FreeObjectUncounted(PointerAt<void>(leaks_.entries[i].base));
    leaks_.entries[i].base = 0;
  }
  if (lost != 0) Print(Stream::kError, "gleaner: and %zu leaked objects more\n", lost);
  platform::LockGuard guard(g_collector.lock());
  leaks_.Done(end - begin);
  return true;
}

bool Findings::ReportDamages() {
  size_t begin;
  size_t end;
  size_t lost;
  {
    platform::LockGuard guard(g_collector.lock());
    damages_.Claim(&begin, &end, &lost);
  }
  if (begin == end && lost == 0) return false;
  for (size_t i = begin; i < end; ++i) {
    const Damage& damage = damages_.entries[i];
    char place[kPlaceChars];
    Print(Stream::kError,
          "gleaner: a collection found the object at %#llx (%s, sz=%zu) damaged: something was "
          "written at %#llx, outside of it\n",
          AsNumber(damage.base + kDebugHeaderBytes), Describe(damage.place, place), damage.bytes,
          AsNumber(damage.where));
  }
  if (lost != 0) Print(Stream::kError, "gleaner: and %zu damaged objects more\n", lost);
  platform::LockGuard guard(g_collector.lock());
  damages_.Done(end - begin);
  return true;
}

void Findings::Report() {
  // Relaxed: this thread sees what its own collection has set; findings of another thread's
  // collection are that thread's to report.
  if (!__atomic_load_n(&any_, __ATOMIC_RELAXED)) return;
  __atomic_store_n(&any_, false, __ATOMIC_RELAXED);
  const bool damaged = ReportDamages();
  const bool leaked = ReportLeaks();
  if ((damaged || leaked) && g_options.abort_on_leak) {
    Fatal("leaked or damaged objects were found (GC_ABORT_ON_LEAK)");
  }
}

}  // namespace gleaner::runtime
