// What every file of the GC_ API includes first: gc.h as the library's own sources see it, and the
// report of null arguments.
#pragma once

#ifndef GC_BUILD
#define GC_BUILD
#endif
#ifndef GC_THREADS
#define GC_THREADS
#endif
#ifndef GC_NO_THREAD_REDIRECTS
#define GC_NO_THREAD_REDIRECTS
#endif
#include "gc/gc_gcj.h"
#include "gc/gc_inline.h"
#include "gc/gc_mark.h"
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
