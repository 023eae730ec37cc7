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

// Each collection calls InspectFindings, and the thread that made the collection calls
// ReportFindings after the resume.

// Notes leaks and damages. Called with the world stopped (gc::World::inspect).
void InspectFindings(const gc::Marker& marker, const gc::RootTasks& roots,
                     const gc::MarkConfig& config);
// Prints what was found since the last call, and gives leaked objects back. Cheap if nothing was
// found. The caller holds no lock; the program's GC_describe_type_fn may be called.
void ReportFindings();

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
