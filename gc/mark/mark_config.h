// The settings of the marker, constant during a cycle.
#pragma once

#include "gc/mark/termination.h"

namespace gleaner::gc {

// balance, split and termination select variants of the thesis.
struct MarkConfig {
  bool all_interior_pointers = true;
  bool past_the_end = true;    // one-past-the-end pointers count in roots
  bool pad_objects = false;    // one-past-the-end pointers count in the heap, too
  bool balance = true;         // work stealing
  bool split = true;           // splitting of large ranges
  size_t min_batch = 0;        // ranges of a sorted batch; 0: the heap's size decides
  bool adapts_markers = true;  // else all begin if the last marking had work for several
  TerminationMethod termination = TerminationMethod::kStates;
};

}  // namespace gleaner::gc
