// The marker's schedule on a heap snapshot, in virtual time, with any number of workers.
//
// A simulated worker is gc::MarkLoop, which the marker's workers are, over SimulatedHeap and
// VirtualClock. What differs from the marker is what MarkLoop leaves to its worker: scanning looks
// references up instead of filtering words, and costs virtual time instead of taking any.
//
// Call order: RunSerial, which finds out what memory costs where; then Run any number of times.
#pragma once

#include <memory>
#include <vector>

#include "gc/mark/mark_loop.h"
#include "gc/mark/marker_count.h"
#include "tools/predict/cache_simulation.h"
#include "tools/predict/machine.h"
#include "tools/predict/simulated_heap.h"
#include "tools/predict/virtual_time.h"

namespace gleaner::tools {

struct SimulationOptions {
  int workers = 1;
  bool balance = true;
  bool split = true;
  gc::TerminationMethod termination = gc::TerminationMethod::kStates;
  int at_start = VirtualClock::kMaxWorkers;  // that are awake at the start (gc/mark/marker_count.h)
  size_t min_batch = 0;                      // as in gc::MarkConfig
};

// All times in picoseconds; sums over the workers unless said otherwise.
struct SimulationResult {
  uint64_t length_ps = 0;      // from the start until all workers have left
  uint64_t processor_ps = 0;   // marking: the marker's own time
  uint64_t memory_ps = 0;      // marking: waiting for memory, as a serial marking would
  uint64_t added_ps = 0;       // waiting for lines that the victims of steals had at hand
  double added_lines = 0;      // these lines
  uint64_t idle_ps = 0;        // workers that search for work, or sleep
  uint64_t contention_ps = 0;  // waiting for lines that other workers wrote
  uint64_t absent_ps = 0;      // helpers that are on their way
  uint64_t busy_ps = 0;        // workers that neither search for work nor are away
  uint64_t steals = 0;
  uint64_t objects = 0;
  uint64_t bytes_scanned = 0;
  int workers = 0;          // that took part
  bool overflowed = false;  // there was not enough memory for the stacks

  gc::MarkingTimes times() const { return {length_ps / 1000, busy_ps / 1000, workers}; }
};

class SimulatedMarker {
 public:
  SimulatedMarker(SimulatedHeap* heap, const Machine& machine);

  // Any thread, also several at a time.
  SimulationResult Run(const SimulationOptions& options) const;
  // Of one worker: simulates the caches, sets what memory costs each object, and renumbers the
  // objects in the order of this run. Before all others; one thread.
  SimulationResult RunSerial(CacheSimulation* caches);

 private:
  class Worker;
  struct Job;

  SimulationResult Run(const SimulationOptions& options, CacheSimulation* caches,
                       std::vector<uint32_t>* order) const;

  SimulatedHeap& heap_;
  const Machine& machine_;
  uint64_t reference_memory_ps_ = 0;  // waiting for memory at each reference, the mean
  // Lines that a thief lacks, in parts of 1/kLineParts; and for each of its accesses until it has
  // fetched them: what it takes longer, and how much of a line that is.
  static constexpr uint64_t kLineParts = 1024;
  uint64_t live_parts_ = 0;
  uint64_t cold_access_ps_ = 0;
  uint64_t cold_access_parts_ = 0;
};

}  // namespace gleaner::tools
