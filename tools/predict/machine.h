// A machine as the predictor sees it (docs/design/predictor.md, "Machines").
//
// Times are in nanoseconds, one processor busy, unless said otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/predict/virtual_time.h"

namespace gleaner::tools {

// What an access takes that is served by a level of the memory hierarchy, beyond one that the
// first level serves.
struct AccessTimes {
  double dependent_ns = 0;  // the next access waits for it
  double ahead_ns = 0;      // it was asked for 16 accesses before: objects in the scan ring
  double batch_ns = 0;      // 32 are asked for, and then used: mark bytes
  double stream_ns = 0;     // the line before has just been read
};

struct CacheLevel {
  uint64_t bytes = 0;
  uint32_t line_bytes = 0;
  uint32_t ways = 0;
  bool is_shared = false;  // by all processors
  AccessTimes times;       // of an access that this level serves
};

struct Machine {
  std::string name;
  std::string description;
  int processors = 1;
  int nodes = 1;                   // of memory; processors are divided evenly over them
  std::vector<CacheLevel> caches;  // of a processor, the nearest first
  AccessTimes memory;
  // From memory, a line of an object behind its second one: nothing has asked for it, and what the
  // processor fetches ahead begins with it. 0: as a line of a stream.
  double further_ns = 0;
  uint64_t tlb_entries = 0;
  uint64_t tlb_page_bytes = 4096;
  bool has_huge_pages = false;  // for large heaps: their objects miss no translation
  AccessTimes tlb_miss;         // beside what the access takes itself
  // The parts of a miss: 2 * one way + occupancy, without waiting. `one_way_remote_ns`: to a node
  // that is not the processor's own.
  double one_way_ns = 0;
  double one_way_remote_ns = 0;
  double occupancy_ns = 0;  // of the memory node by one line
  // Whether objects lie on the node of the thread that allocated them (one node, in the worst case)
  // or anywhere.
  double concentration = 0;  // part of the objects that lie on one node

  // The marker's own time, all in the first-level cache.
  double range_ns = 0;      // for each range that is scanned
  double word_ns = 0;       // for each word of it
  double reference_ns = 0;  // for each word that points to an object
  double object_ns = 0;     // for each object that is marked
  double surprise_ns = 0;   // for each branch that the processor has guessed wrong
  double chain_ns = 0;      // for each object that is the only one in sight: all but its words
  double start_ns = 0;      // of a marking, and its end

  double atomic_ns = 0;  // a read-modify-write of a line that is at hand
  double load_ns = 0;
  double transfer_ns = 0;   // of a line from another processor
  double wake_call_ns = 0;  // waking a sleeper, for the one who wakes

  double doubtful = 0;  // 1: measured while the machine was busy (DoubtsOf)

  VirtualCosts Costs() const;
};

// Reads a description. False, with what is wrong in *error, if it cannot be read or is impossible.
[[nodiscard]] bool ReadMachine(const std::string& path, Machine* machine, std::string* error);
// What can be of no machine among what was measured, in words, since others have used the
// processors; empty if there is nothing.
std::string DoubtsOf(const Machine& machine);
// As ReadMachine reads it.
std::string FormatMachine(const Machine& machine);

}  // namespace gleaner::tools
