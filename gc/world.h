// What the collector needs of the rest of the process. The runtime provides the real one; tests
// drive the collector with a fake.
#pragma once

#include "gc/finalize.h"
#include "gc/generations.h"
#include "gc/marker.h"
#include "gc/pacer.h"
#include "gc/roots.h"
#include "gc/toggle_refs.h"

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

// Read anew at each collection, since clients write the variables behind them directly.
struct Tunables {
  MarkConfig mark;
  PacerConfig pacer;
  bool verify = false;
  // Collections for which no caller waits leave the sweep to the time after the pause.
  bool concurrent_sweep = false;
  // They mark concurrently, if writes can be tracked.
  bool concurrent_mark = false;
  // And a thread of the collector's own leads that; else threads that allocate do it, in turns.
  bool driver = false;
  // Which this many workers take part in, itself included, while the marking keeps up.
  int background_markers = 1;
  uint64_t slice_bytes = 0;  // if not 0, what is scanned at a time
  // How long the final stop of such a cycle should take; 0: as the collector sees fit.
  uint64_t pause_target_ns = 0;
  // A stop that would take less is made rather than a cycle.
  uint64_t short_pause_ns = 0;
  // The marking done for what is allocated meanwhile, as a multiple of a tenth of the usual.
  int rate = 10;
  // Objects are born young, and collections look at those alone, if writes can be tracked.
  GenerationalMode generational = GenerationalMode::kOff;
  uint64_t most_minors = 0;  // between two collections of the whole heap
};

// How far CopyRoots has come.
struct RootPosition {
  size_t static_bytes = 0;
  size_t fiber = 0;
};

struct World {
  // Stops all mutators but the caller; from then on until `resume` they change nothing. False if
  // that cannot be done now: the world runs.
  bool (*stop)();
  void (*resume)();
  // Adds the roots of stopped threads, loaded objects and the program's own; the collecting
  // thread's stack counts from `stack_pointer` on.
  void (*add_roots)(RootTasks* roots, Addr stack_pointer);
  void (*read_tunables)(Tunables* tunables);
  void (*event)(CycleEvent event);
  void (*warn_cycle)(Addr object);
  // What the program says of a toggle reference; null if it says nothing. Read anew each time.
  ToggleStatus (*(*toggle_function)())(void* object);
  // With the world stopped, when it is decided which objects live: unmarked ones are given back
  // next, unless this turns their bytes black. May be null.
  void (*inspect)(const Marker& marker, const RootTasks& roots, const MarkConfig& config) = nullptr;

  // --- For concurrent cycles; null where there are none. ---
  // From here on no mutator has had its handshake.
  void (*begin_handshakes)() = nullptr;
  // Stops one mutator that has not, or none if it is the caller, gives the slots it holds the mark
  // of new objects, and copies its roots. A mutator that is registered meanwhile needs none. False
  // if all have had it. `stack_pointer` as above; `scratch` is for the callee.
  bool (*handshake)(Addr stack_pointer, RootTasks* scratch, RootBuffer* words) = nullptr;
  // Copies some 64 KiB of other roots. False if there are no more.
  bool (*copy_roots)(RootPosition* position, RootBuffer* words) = nullptr;
};

}  // namespace gleaner::gc
