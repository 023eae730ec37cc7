// What a runtime that serves malloc wants different.
#pragma once

#include "gc/world.h"

namespace gleaner::runtime {

// Set before the start, constant afterwards.
struct MallocSupport {
  // Allocation may be called with locks of the C library held that other threads need on their way
  // to a stop. So a thread whose allocation finds a collection due does not wait long for one that
  // is under way, no collection waits long for a thread that does not stop, and the loader is never
  // asked.
  bool never_wait = false;
  // Called with the world stopped, before marking. False gives the collection up. May be null.
  bool (*find_roots)() = nullptr;
  // Adds further roots after all others. May be null.
  void (*add_roots)(gc::RootTasks* roots) = nullptr;
  // Called after a collection, under the collector lock; `done` is false if it was given up. May be
  // null.
  void (*collected)(bool done) = nullptr;
  // As gc::World::inspect: called with the world stopped, when everything reachable is marked. May
  // be null.
  void (*inspect)(const gc::Marker& marker) = nullptr;
  // Leaks are looked for. Objects are to be found that only a dead part of a stack, or a pointer
  // one past an object's end, refers to.
  bool strict_roots = false;
};
extern MallocSupport g_malloc_support;

// Defined where the library is a malloc, which has no helpers and its own handlers of fork. Starts
// it, if that is not done. Any thread.
extern void (*const g_start_malloc)() __attribute__((weak, visibility("hidden")));

}  // namespace gleaner::runtime
