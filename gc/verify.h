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
  // Only young objects were marked. Words of old ones that are as they were when the last
  // collection ended do not count if they lead to what was born since: they happen to look like
  // pointers to it.
  bool minor = false;
};
// pre: the world is stopped, marking is over, nothing was finalized yet.
void VerifyMarks(const Marker& marker, const MarkConfig& config, const RootTasks& roots,
                 const VerifyOptions& options);
// Notes what the words of the objects that live are, for the next collection, if it is a minor one.
// pre: the world is stopped, it is decided what lives.
void NoteOldWords(const Marker& marker);

}  // namespace gleaner::gc
