#include "runtime/debug/findings.h"

#include "alloc/walk.h"
#include "gc/collector.h"
#include "runtime/collect/collect.h"
#include "runtime/process/options.h"
#include "runtime/process/printing.h"
#include "runtime/process/variables.h"

namespace gleaner::runtime {

using alloc::ObjectRef;
using gc::g_collector;

namespace {

// Guarded by the collector lock.
constinit bool g_references_wanted = false;
constinit uint64_t g_references_of = 0;  // number of the collection that recorded them; 0: none

struct Leak {
  Addr base;  // 0: printed and given back
  alloc::Kind kind;
  bool has_place;
  size_t bytes;  // size that the program asked for, or that of the slot
  Place place;
};
struct Damage {
  Addr base;
  Addr where;
  size_t bytes;
  Place place;
};

// Some finding is noted and not claimed.
constinit bool g_any = false;

// A list that grows in place, so that a reporter reads its batch without the lock.
template <class T, size_t kMax>
struct FindingList {
  // Guarded by the collector lock.
  alloc::ReservedArray<T> entries;
  size_t noted = 0;
  size_t claimed = 0;  // entries that a reporter has taken
  size_t done = 0;
  size_t lost = 0;  // findings that there was no room to note

  // False if there is no room.
  bool Add(const T& entry) {
    g_any = true;
    // Address space may be short, so it is reserved only in a program that has something to report.
    const bool reserved = entries.max() != 0 || entries.Reserve(kMax);
    if (!reserved || !entries.EnsureCommitted(noted + 1)) {
      ++lost;
      return false;
    }
    entries[noted++] = entry;
    return true;
  }

  // If there are entries not yet claimed, or lost ones, calls begin with their number, and then
  // each(entry) for those not lost. Whether there were any. Takes the collector lock.
  template <class Begin, class Each>
  bool Report(const char* kind, Begin begin, Each each) {
    size_t from;
    size_t to;
    size_t lost_entries;
    {
      platform::LockGuard guard(g_collector.lock());
      from = claimed;
      to = claimed = noted;
      lost_entries = lost;
      lost = 0;
    }
    if (from == to && lost_entries == 0) return false;
    begin(to - from + lost_entries);
    for (size_t i = from; i < to; ++i) each(entries[i]);
    if (lost_entries != 0) {
      Print(Stream::kError, "gleaner: and %zu %s objects more\n", lost_entries, kind);
    }
    platform::LockGuard guard(g_collector.lock());
    done += to - from;
    if (done == noted) done = claimed = noted = 0;
    return true;
  }
};
constinit FindingList<Leak, (size_t{1} << 20)> g_leaks;
constinit FindingList<Damage, 4096> g_damages;

}  // namespace

void (*g_describe_type[alloc::kMaxKinds])(void* object, char* out) = {};

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

namespace {

void AddIfLeaked(const gc::Marker& marker, const ObjectRef& object) {
  if (!marker.IsWhite(object)) return;
  Leak leak{object.base, object.kind(), false, object.bytes, {}};
  if (DebugObject known; DebugObjects::Find(object.base, &known)) {
    if (known.freed) return;
    leak.has_place = true;
    leak.bytes = known.bytes;
    leak.place = known.place;
  }
  if (g_leaks.Add(leak)) *object.mark() = marker.black();
}

void PrintLeak(const Leak& leak) {
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

bool ReportLeaks() {
  const auto begin = [](size_t count) {
    Print(Stream::kError, "gleaner: found %zu leaked objects:\n", count);
  };
  return g_leaks.Report("leaked", begin, [](Leak& leak) {
    PrintLeak(leak);
    platform::LockGuard guard(g_collector.lock());
    DebugObjects::Forget(leak.base);
    alloc::FreeObjectUncounted(PointerAt<void>(leak.base));
    leak.base = 0;
  });
}

bool ReportDamages() {
  const auto begin = [](size_t) {};
  return g_damages.Report("damaged", begin, [](const Damage& damage) {
    char place[kPlaceChars];
    Print(Stream::kError,
          "gleaner: a collection found the object at %#llx (%s, sz=%zu) damaged: something was "
          "written at %#llx, outside of it\n",
          AsNumber(damage.base + kDebugHeaderBytes), Describe(damage.place, place), damage.bytes,
          AsNumber(damage.where));
  });
}

}  // namespace

void InspectFindings(const gc::Marker& marker, const gc::RootTasks& roots,
                     const gc::MarkConfig& config) {
  if (g_references_wanted) {
    g_references_wanted = false;
    const bool done = g_back_references.RecordWorldStopped(marker, roots, config);
    g_references_of = done ? g_collector.collections() : 0;
  }
  for (size_t i = 0; i < g_leaks.noted; ++i) {
    ObjectRef object;
    if (g_leaks.entries[i].base != 0 && alloc::FindSlot(g_leaks.entries[i].base, &object)) {
      *object.mark() = marker.black();
    }
  }
  if (GC_find_leak != 0) {
    alloc::ForEachSlot([&marker](const ObjectRef& object) { AddIfLeaked(marker, object); });
  }
  if (!DebugObjects::Started()) return;
  DebugObjects::Inspect(marker, [](Addr base, const DebugObject& object, Addr where) {
    (void)g_damages.Add({base, where, object.bytes, object.place});
  });
}

void ReportFindings() {
  // Relaxed: this thread sees what its own collection has set; findings of another thread's
  // collection are that thread's to report.
  if (!__atomic_load_n(&g_any, __ATOMIC_RELAXED)) return;
  __atomic_store_n(&g_any, false, __ATOMIC_RELAXED);
  const bool damaged = ReportDamages();
  const bool leaked = ReportLeaks();
  if ((damaged || leaked) && g_options.abort_on_leak) {
    Fatal("leaked or damaged objects were found (GC_ABORT_ON_LEAK)");
  }
}

}  // namespace gleaner::runtime
