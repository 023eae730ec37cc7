// What the files of the GC_ API share: gc.h, and the report of null arguments.
#pragma once

#include "gc/javaxfc.h"
#include "platform/base.h"

namespace gleaner::runtime {

// True, after a message, if the argument is null. `p` is a pointer to an object or a function.
template <class P>
bool RejectNull(const char* call, const char* argument, P p) {
  if (GLEANER_LIKELY(p != nullptr)) return false;
  Complain("%s: %s is NULL; ignored", call, argument);
  return true;
}

}  // namespace gleaner::runtime
