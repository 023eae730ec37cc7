// The figures of a heap snapshot: what there is, and what keeps how much of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gleaner::tools {

struct SummaryRow {
  std::string kind, type;  // of objects; both empty for a root
  uint64_t object_bytes;   // 0 for a root
  std::string root;        // its name; empty for objects
  uint64_t objects;        // how many there are, or how many only this root keeps
  uint64_t bytes;
};

struct SummaryObject {
  uint64_t address, bytes;
  std::string kind, type;
  uint64_t retained_bytes, retained_objects;  // what would be free without it, itself included
  std::string root;                           // that the path of `gleaner why` begins at
};

struct SnapshotSummary {
  std::string path;
  std::map<std::string, std::string> description;
  uint64_t objects = 0, bytes = 0, references = 0;
  uint64_t reached_objects = 0, reached_bytes = 0;  // from roots
  uint64_t shared_objects = 0, shared_bytes = 0;    // from several roots: no row counts them
  std::vector<SummaryRow> kinds;                    // by kind, type and size; most bytes first
  std::vector<SummaryRow> roots;                    // most bytes first
  std::vector<SummaryObject> largest;               // most retained first
  std::vector<std::string> warnings;
};

// Reads the snapshot. `top`: how many of the largest objects, at most. One that retains less than a
// thousandth of the heap is left out. An object that retains more than half
// of what the one object before it on every path retains is left out, for the latter says it: of a
// list only the first node. False with `error` if the file cannot be read.
[[nodiscard]] bool Summarize(const std::string& path, size_t top, SnapshotSummary* summary,
                             std::string* error);

// A row of one summary that is in the other, too, or with zeros.
struct GrowthRow {
  SummaryRow before, after;
  int64_t grown_bytes() const { return static_cast<int64_t>(after.bytes - before.bytes); }
  int64_t grown_objects() const { return static_cast<int64_t>(after.objects - before.objects); }
};
// Matched by what they are called; those that have changed, most grown first.
std::vector<GrowthRow> Growth(const std::vector<SummaryRow>& before,
                              const std::vector<SummaryRow>& after);

}  // namespace gleaner::tools
