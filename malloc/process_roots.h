// The roots of a collecting malloc besides the stacks and registers of registered threads: all
// memory of the process in which a program, the C library or the loader may keep pointers.
//
// That is what platform::VisitMappings finds, less the heap, our own tables, and the stacks of
// registered threads, which count from their stack pointers on. What is there is *copied*, and of
// the copy only the words that point into the heap are kept: threads that are not registered run
// on, a thread that ends above all, and the C library unmaps stacks behind our back
// [inv.malloc-roots-copied].
//
// Guarded by the collector lock; with the world stopped but for Init and Release.
#pragma once

#include "gc/roots.h"

namespace gleaner::malloc_proxy {

class ProcessRoots {
 public:
  // Once. Without memory, collections are given up.
  static void Init();
  // Looks for them anew. False if that cannot be done now: nothing may be collected then
  // [inv.malloc-no-roots].
  [[nodiscard]] static bool Find();
  // Adds what Find has found.
  static void AddTo(gc::RootTasks* roots);
  // Bytes that Find has looked at.
  static size_t bytes_read();
  // Gives most of the memory back that Find has used.
  static void Release();
};

}  // namespace gleaner::malloc_proxy
