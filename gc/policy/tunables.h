// The settings of the collector, which the layer above reads from options and from the program.
#pragma once

#include "gc/mark/mark_config.h"
#include "gc/policy/generations.h"
#include "gc/policy/pacer.h"

namespace gleaner::gc {

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

}  // namespace gleaner::gc
