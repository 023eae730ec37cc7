// What the collector needs of the rest of the process. The runtime implements it; tests drive the
// collector with a fake. After Collector::Init all functions are called with the collector lock
// held.
#pragma once

#include "gc/finish/finalize.h"
#include "gc/finish/toggle_refs.h"
#include "gc/mark/marker.h"
#include "gc/mark/roots.h"
#include "gc/policy/generations.h"
#include "gc/policy/pacer.h"

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

// Settings, read anew at each collection: clients write the variables behind them directly.
struct Tunables {
  MarkConfig mark;
  PacerConfig pacer;
  bool verify = false;
  // The clocks of processor time may be read: it takes system calls, which a filter may forbid.
  bool processor_clocks = true;
  // Collections that allocation causes sweep after the pause, concurrently.
  bool concurrent_sweep = false;
  // Collections that allocation causes mark concurrently, if writes can be tracked.
  bool concurrent_mark = false;
  // A collector thread leads the concurrent cycle; else allocating threads do, in turns.
  bool driver = false;
  // Workers that mark concurrently while the marking keeps up, the driver included.
  int background_markers = 1;
  // Bytes that one slice of marking scans; 0: the collector decides.
  uint64_t slice_bytes = 0;
  // How long the final stop of a concurrent cycle should take; 0: the collector's default.
  uint64_t pause_target_ns = 0;
  // A stop-parallel collection that is expected to be shorter replaces a concurrent cycle.
  uint64_t short_pause_ns = 0;
  // Of the kinds of collection that are possible, the collector chooses (docs/design/policy.md).
  // Else it uses concurrent and minor collections wherever they are possible.
  bool automatic = false;
  // Concurrent cycles and minor collections that cost the program more than a stop-parallel one are
  // avoided. False if the program has set the pause goal, which is kept at any price then.
  bool weighs_cost = false;
  // Marking per byte allocated during a cycle, in tenths of the default (10).
  int rate = 10;
  // Allocate objects young and collect only those at times, if writes can be tracked.
  GenerationalMode generational = GenerationalMode::kOff;
  uint64_t max_minors = 0;  // maximum between two collections of the whole heap
};

// How far World::copy_roots has come.
struct RootPosition {
  size_t static_bytes = 0;  // of static data, copied
  size_t fiber = 0;         // index of the next fiber
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

  // --- For concurrent cycles; null where there are none. ---
  // Starts a round of handshakes: every registered mutator needs one.
  void (*begin_handshakes)() = nullptr;
  // Does the handshake with one mutator that needs one: stops it (unless it is the caller), gives
  // the slots it holds the allocation colour, and copies its roots. A mutator that registers during
  // the round needs none. False if no mutator needs one any more. `stack_pointer` as for add_roots;
  // `scratch` is for the callee.
  bool (*handshake)(Addr stack_pointer, RootTasks* scratch, RootBuffer* words) = nullptr;
  // Copies some 64 KiB of the other roots. False if there are no more.
  bool (*copy_roots)(RootPosition* position, RootBuffer* words) = nullptr;
};

}  // namespace gleaner::gc
