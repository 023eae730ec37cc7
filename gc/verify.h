// The second opinion: marks again, serially, with its own code and its own table, and compares.
//
// [inv.mark-complete]: with the world stopped, the parallel marker's black objects are exactly the
// objects reachable from the roots. Aborts with the address of the first object that differs.
#pragma once

#include "gc/marker.h"

namespace gleaner::gc {

struct VerifyOptions {
  // The program ran while most was marked, or it was in an earlier collection: objects may be
  // marked that are not reachable any more.
  bool more_may_be_marked = false;
  // Only young objects were marked. Words that led to none when the last collection ended, and are
  // as they were, do not count: they happen to look like pointers to what was born since.
  bool minor = false;
};
// pre: the world is stopped, marking is over, nothing was finalized yet.
void VerifyMarks(const Marker& marker, const MarkConfig& config, const RootTasks& roots,
                 const VerifyOptions& options);
// Notes such words, for the next collection. pre: the world is stopped, it is decided what lives.
void NoteStaleWords(const Marker& marker);

}  // namespace gleaner::gc
