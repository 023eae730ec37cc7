// The predictor: how long a marking takes on any number of processors, and what is lost
// (docs/design/predictor.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/predict/machine.h"
#include "tools/predict/simulated_heap.h"

namespace gleaner::tools {

// Of a marking by some markers. Parts are of the processors' time, markers times the length: they
// add up to 1.
struct PredictedMarking {
  int markers = 1;
  double mark_ns = 0;
  double speed_up = 1;
  double uncertainty = 0;   // of mark_ns, as a part of it
  double work = 0;          // what one marker would take, too
  double added_misses = 0;  // lines that a stolen range needs from another processor's caches
  double waiting = 0;       // at memory nodes that others keep busy, and for remote ones
  double contention = 0;    // for lines that markers write in turn
  double idle = 0;          // no work to be had: the graph's width, and what is not shared
  double waking = 0;        // until a helper has come
  uint64_t steals = 0;
};

struct Prediction {
  uint64_t objects = 0;  // that the roots reach
  uint64_t scanned_bytes = 0;
  uint64_t references = 0;
  double serial_ns = 0;
  double processor_ns = 0;     // of serial_ns: the marker's own time
  double memory_ns = 0;        // of serial_ns: waiting for memory
  std::vector<double> served;  // accesses by the level that serves them; the last one is memory
  double tlb_misses = 0;
  double live_lines = 0;  // at a steal
  uint64_t levels = 0;    // the most references that the nearest root is away from an object
  double width = 0;       // objects for each of these levels
  std::vector<PredictedMarking> markings;
  // With as many markers as the last of `markings` has, or 64, if the collector chooses how many
  // begin (gc/mark/marker_count.h); `markers`: how many took part. Where there are several
  // markings.
  PredictedMarking adaptive;
  size_t best = 0;       // index of the fewest markers within 5 % of the shortest time
  bool has_room = true;  // false: there was not enough memory for the simulation
};

// `markers`: ascending; one marker is always among the results. Changes the heap's order.
Prediction PredictMarking(SimulatedHeap* heap, const Machine& machine,
                          const std::vector<int>& markers);

// Sentences for people: what limits the marking, and how many markers are worth while.
std::vector<std::string> AdviceOf(const Prediction& prediction, const Machine& machine);

}  // namespace gleaner::tools
