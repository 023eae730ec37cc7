// A heap profile in a report: sampled allocation sites, in the text format that pprof reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gleaner::tools {

// Bytes stand for what samples were drawn from: each sample weighs as much as what it represents.
struct AllocationStack {
  std::vector<uint64_t> frames;  // innermost first; addresses inside calls
  double live_bytes;
  double all_bytes;
};

struct HeapProfile {
  std::vector<AllocationStack> stacks;
  double mean_bytes = 0;  // between samples; 1: every object
  std::string maps;       // of the process
  bool is_complete = false;
  uint64_t process =
      0;  // its number, and when it began, as in platform::TraceFileHead; 0: not known
  uint64_t process_start = 0;

  // False, with a reason, if the file cannot be read or is no heap profile.
  [[nodiscard]] bool Read(const std::string& path, std::string* reason);
};

// Functions by the allocation below them as a picture, and the sites with most as a table.
std::string DrawnProfile(const HeapProfile& profile);

}  // namespace gleaner::tools
