// What a report shows of a collector trace: its events as rows, by kind. Times are in ns since the
// trace began.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "gc/collector.h"
#include "platform/os/stalls.h"
#include "tools/report/collector_trace.h"

namespace gleaner::tools {

inline constexpr int kCollectionKinds = 4;

struct Interval {
  uint64_t begin_ns;
  uint64_t end_ns;
};

struct CollectionRow {
  uint64_t at_ns = 0;  // the end of the pause
  uint64_t number = 0;
  gc::Cause cause = gc::Cause::kExplicit;
  gc::CollectionKind kind = gc::CollectionKind::kStopParallel;
  gc::Reason reason = gc::Reason::kOnlyKind;
  uint64_t pause_ns = 0;
  uint64_t expected_ns = 0;
  uint64_t live_bytes = 0;
  uint64_t live_objects = 0;
  uint64_t freed_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t steals = 0;
  uint64_t finalizable = 0;
};

struct LevelRow {
  uint64_t at_ns;
  uint64_t resident_bytes;
  uint64_t free_bytes;
  uint64_t metadata_bytes;
  uint64_t growth_limit_bytes;
};

// One figure that changes.
struct Point {
  uint64_t at_ns;
  double value;
};

struct ThreadRow {
  std::string name;  // as the program gave it: any bytes
  uint64_t tid = 0;
  platform::TraceRole role = platform::TraceRole::kMutator;
  // From its first event. Of a mutator to the end of the run, as a trace does not say when threads
  // end; of others to the last event.
  Interval life = {};
  bool has_ended = false;  // before the trace
  std::vector<Interval> stalls;
  std::vector<Interval> waits;  // stalls for other causes than pauses, as they come
};

// What the program has measured and named.
struct ProgramSpan {
  std::string name;
  uint32_t thread;
  Interval time;
};

struct StallSums {
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t longest_ns = 0;
};

struct MarkerRow {
  std::vector<Interval> spans;  // in which it took part in marking
  uint64_t mark_ns = 0;         // their sum
  uint64_t looking_ns = 0;      // of it, looking for work
  uint64_t steals = 0;
  uint64_t scanned_bytes = 0;
};

struct SizeClassRow {
  uint64_t slot_bytes;  // 0: pages of large objects
  uint64_t pages;
  uint64_t pointer_free_pages;
  uint64_t used_slots;
};
struct HeapPagesRow {
  uint64_t owner;
  uint64_t pages;
  uint64_t used_bytes;
};

struct NodeMemoryRow {
  uint64_t node;
  uint64_t heap_bytes;
  uint64_t file_bytes;
  uint64_t other_bytes;
};

struct TrackingRow {
  bool is_known = false;
  platform::TrackingKind kind = platform::TrackingKind::kNone;
  bool concurrent = false;
  bool generational = false;
  bool automatic = false;
  uint64_t goal_ns = 0;
  std::string reason;
};

struct ReportModel {
  std::map<std::string, std::string> description;
  uint64_t run_ns = 0;  // from the beginning of the trace to its last event
  // All that follows is without inspections, whose stops are the tool's.
  std::vector<CollectionRow> collections;
  std::vector<Interval> pauses;
  std::array<uint64_t, gc::kPauseParts> parts_ns = {};
  std::vector<LevelRow> levels;
  std::vector<Point> unswept;   // bytes
  std::vector<Point> returned;  // bytes, since the beginning
  std::map<uint32_t, ThreadRow> threads;
  uint64_t waited_ns = 0;  // of all threads of the program, ready to run and without a processor
  std::array<StallSums, platform::kStallCauses> stalls = {};
  std::vector<uint64_t> stall_ns;  // of every thread
  std::map<uint64_t, MarkerRow> markers;
  uint64_t marking_ns = 0;  // in which any marker marked
  std::vector<Interval> inspections;
  std::vector<ProgramSpan> program;
  uint64_t max_resident_bytes = 0;  // of all levels and collections
  // Of the last sample.
  std::vector<SizeClassRow> classes;
  std::vector<HeapPagesRow> owners;
  std::vector<NodeMemoryRow> nodes;  // at the end; none of a machine with one node
  TrackingRow tracking;              // the last one
  // What is missing.
  bool is_complete = false;
  uint64_t dropped_events = 0;
  uint64_t untraced_threads = 0;
  std::string error;                   // why the trace could not be read further
  std::vector<std::string> strangers;  // what is said of parts of the page from other processes

  uint64_t page_bytes() const { return Number("page_bytes", 16384); }
  uint64_t Number(const char* key, uint64_t otherwise) const;
  const std::string& Text(const char* key) const;
};

// Reads what is left of the trace.
void ReadModel(CollectorTrace* trace, ReportModel* model);

// Whether one of the intervals, which are in order and disjoint, has a time in common with `span`.
bool Overlap(const std::vector<Interval>& intervals, const Interval& span);

// The intervals in order, those that touch or overlap joined.
std::vector<Interval> Union(std::vector<Interval> intervals);
uint64_t LengthOf(const std::vector<Interval>& intervals);

}  // namespace gleaner::tools
