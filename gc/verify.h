// The second opinion: marks again, serially, with its own code and its own table, and compares.
//
// [inv.mark-complete]: with the world stopped, the parallel marker's black objects are exactly the
// objects reachable from the roots. Aborts with the address of the first object that differs.
#pragma once

#include "gc/marker.h"

namespace gleaner::gc {

// pre: the world is stopped, marking is over, nothing was finalized yet.
// `beside`: the program ran while most was marked, so that objects may be marked that are not
// reachable any more.
void VerifyMarks(const Marker& marker, const MarkConfig& config, const RootTasks& roots,
                 bool beside);

}  // namespace gleaner::gc
