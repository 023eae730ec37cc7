// The roots of a collecting malloc besides the stacks and registers of registered threads: all
// memory of the process in which a program, the C library or the loader may keep pointers.
//
// These are the mappings that platform::VisitMappings finds, without the heap, Gleaner's own
// tables, and the stacks of registered threads, which count from their stack pointers upwards. The
// memory is *copied*, and of the copy only the words that point into the heap are kept. Reading it
// in place is not safe: threads that are not registered go on running (above all a thread that
// ends), and the C library unmaps stacks without notice [inv.malloc-roots-copied].
//
// Guarded by the collector lock. Call order: Init once; for each collection Find and AddTo
// with the world stopped, then Release.
#pragma once

#include "gc/mark/roots.h"

namespace gleaner::malloc_proxy {

class ProcessRoots {
 public:
  // Without memory all later collections are given up.
  static void Init();
  // Finds the roots anew. False if that is not possible now: then nothing may be collected
  // [inv.malloc-no-roots].
  [[nodiscard]] static bool Find();
  // Adds the roots that Find has found.
  static void AddTo(gc::RootTasks* roots);
  // Returns most of the memory that Find has used to the system.
  static void Release();
};

}  // namespace gleaner::malloc_proxy
