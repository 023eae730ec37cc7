// What the collector needs of the rest of the process. The runtime implements it; tests drive the
// collector with a fake. After Collector::Init all functions are called with the collector lock
// held.
#pragma once

#include "gc/cycle/handshakes.h"
#include "gc/finish/finalize.h"
#include "gc/finish/toggle_refs.h"
#include "gc/mark/marker.h"
#include "gc/mark/roots.h"
#include "gc/policy/tunables.h"

namespace gleaner::gc {

enum class CycleEvent : uint8_t {
  kStart,
  kBeforeStop,
  kStopped,
  kMarkStart,
  kMarkEnd,
  kSweepStart,
  kSweepEnd,
  kBeforeResume,
  kResumed,
  kEnd,
};

struct World {
  // Stops all mutators but the caller until `resume`. False if they cannot be stopped now: then the
  // world runs.
  bool (*stop)();
  void (*resume)();
  // Adds the roots of stopped threads, of loaded objects and those the program registered. The
  // collecting thread's stack counts from `stack_pointer` upwards. The world is stopped.
  void (*add_roots)(RootTasks* roots, Addr stack_pointer);
  void (*read_tunables)(Tunables* tunables);
  void (*event)(CycleEvent event);
  void (*warn_cycle)(Addr object);
  // The program's function that says how a toggle reference is held; null if it has none. The
  // program may change the function, so it is fetched for each collection.
  ToggleStatus (*(*toggle_function)())(void* object);
  // Called in the stop when it is decided which objects live. Unmarked objects are freed next,
  // unless this function turns their mark bytes black. May be null.
  void (*inspect)(const Marker& marker, const RootTasks& roots, const MarkConfig& config) = nullptr;
  Handshakes handshakes = {};  // for concurrent cycles; all null where there are none
};

}  // namespace gleaner::gc
