// What a collection finds wrong with the program's use of memory: leaks (GC_find_leak) and damaged
// objects of the GC_debug_ calls. Findings are noted with the world stopped and printed after it
// runs again.
//
//   [inv.leak]  an object that was noted as a leak is kept, by marking it in each collection, until
//               its report is printed; then the thread that printed it gives it back. Nothing else
//               refers to it, so nobody else does.
//
// A leak's contents are not traced: an object that only leaks refer to is a leak itself.
#pragma once

#include "gc/inspect/back_references.h"
#include "runtime/debug/debug_objects.h"

namespace gleaner::runtime {

// Call order: each collection calls InspectWorldStopped, and the thread that made the collection
// calls Report after the resume.
class Findings {
 public:
  // Notes leaks and damages. Called with the world stopped (gc::World::inspect).
  static void InspectWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                                  const gc::MarkConfig& config);

  // Prints what was found since the last call, and gives leaked objects back. Cheap if nothing was
  // found. The caller holds no lock; the program's GC_describe_type_fn may be called.
  static void Report();

 private:
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
  // A list that grows in place, so that a reporter reads its batch without the lock.
  template <class T, size_t kMax>
  struct Log {
    alloc::ReservedArray<T> entries;
    size_t noted = 0;
    size_t claimed = 0;  // entries that a reporter has taken
    size_t done = 0;
    size_t lost = 0;  // findings that there was no room to note

    void Add(const T& entry);
    // Takes all entries not yet claimed: [*begin, *end), and the number of lost ones.
    void Claim(size_t* begin, size_t* end, size_t* lost_entries);
    void Done(size_t count);
  };

  static void NoteIfLeaked(const gc::Marker& marker, const alloc::ObjectRef& object);
  static void FindLeaks(const gc::Marker& marker);
  static bool ReportLeaks();
  static bool ReportDamages();
  static void PrintLeak(const Leak& leak);

  // Guarded by the collector lock, except `any_`.
  static Log<Leak, (size_t{1} << 20)> leaks_;
  static Log<Damage, 4096> damages_;
  static bool any_;  // some finding is noted and not claimed
};

// The back references that the last collection asked for them has recorded. Guarded by the
// collector lock.
extern gc::BackReferences g_back_references;
// Makes g_back_references those of the last collection, with the object at `base` among them, by
// another collection if need be. False if collections are disabled, the object is gone or there is
// no memory. The caller holds no lock.
bool RecordBackReferences(Addr base);

// GC_register_describe_type_fn: for each kind, writes at most 40 characters about an object; or
// null.
inline constexpr size_t kTypeChars = 40;
extern void (*g_describe_type[alloc::kMaxKinds])(void* object, char* out);

// "NORMAL", "PTRFREE" and so on; "OTHER" for kinds made at run time.
const char* NameOf(alloc::Kind kind);

}  // namespace gleaner::runtime
