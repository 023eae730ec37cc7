// Verification of the marks: marks again, serially, with its own code and its own table, and
// compares.
//
// [inv.mark-complete]: with the world stopped, the parallel marker's black objects are exactly the
// objects reachable from the roots. Aborts with the address of the first object that differs.
//
// Called by the collecting thread, with the collector lock held and the world stopped.
#pragma once

#include "gc/mark/marker.h"

namespace gleaner::gc {

struct VerifyOptions {
  // Unreachable objects may be marked: most marking was done while the program ran, or by an
  // earlier collection.
  bool more_may_be_marked = false;
  // Only young objects were marked. A word of an old object that has not changed since the last
  // collection does not count if it leads to a younger object: it only looks like a pointer to it.
  bool minor = false;
};
// pre: the world is stopped, marking is over, finalizers are not decided yet.
void VerifyMarks(const Marker& marker, const MarkConfig& config, const RootTasks& roots,
                 const VerifyOptions& options);
// Records the words of all live objects, for VerifyMarks after a minor collection that may follow.
// pre: the world is stopped, it is decided which objects live.
void RecordOldWords(const Marker& marker);

}  // namespace gleaner::gc
