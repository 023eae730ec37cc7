// What the rooms above have done when something happens here. start/listeners.cc defines the table,
// and says in which order.
#pragma once

#include "gc/world.h"
#include "runtime/collect/tracking.h"

namespace gleaner::runtime {

struct Listeners {
  // A collection begins. Under the collector lock.
  void (*begins)();
  // All that is reachable is marked: gc::World::inspect.
  void (*inspect)(const gc::Marker& marker, const gc::RootTasks& roots,
                  const gc::MarkConfig& config);
  // A collection has ended, of which the program is told next, and has been told. Under the
  // collector lock.
  void (*ended)();
  void (*told)();
  // The calling thread has made a collection. Without locks. `has_room`: on its stack, for more
  // than some messages.
  void (*collected)(bool has_room);
  // The calling thread reports what it has allocated. Without locks.
  void (*allocated)(bool has_room);
  // Other modes are in use, with this tracker, for this reason. Under the collector lock.
  void (*modes_changed)(const Modes& modes, const char* tracking, const char* reason);
  // alloc::Hooks::sampled.
  void (*sampled)(Addr object, size_t bytes);
};
extern const Listeners kListeners;

}  // namespace gleaner::runtime
