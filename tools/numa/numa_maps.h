// The mappings of a process with the nodes of their pages: /proc/PID/maps and numa_maps, joined.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gleaner::tools {

// Numbers in the kernel's form, "0-2,5", in rising order; empty if the text is none of that form.
std::vector<int> ParseNumbers(const std::string& text);
// The same form.
std::string NumbersText(const std::vector<int>& numbers);

using BytesByNode = std::map<int, uint64_t>;
uint64_t SumOf(const BytesByNode& nodes);
void AddTo(BytesByNode* sum, const BytesByNode& nodes);

struct NumaMapping {
  uint64_t begin = 0;
  uint64_t end = 0;         // begin if it is unknown: numa_maps has it, maps does not
  std::string rights;       // as in maps: "r-xp"
  std::string path;         // as in maps: a file, "[heap]", or nothing
  std::string copied_file;  // of whose segment it is a copy; empty for most
  std::string policy;       // as in numa_maps: "bind:0-1"; empty if that has no line of it
  BytesByNode nodes;        // what is in memory
  uint64_t anonymous_bytes = 0;
  uint64_t max_mappers = 1;  // the largest number of mappings, of any process, of one of its pages
  uint64_t page_bytes = 0;   // of the kernel's pages there

  bool is_file() const { return !path.empty() && path[0] == '/'; }
  bool is_shared() const { return rights.size() == 4 && rights[3] == 's'; }
  bool is_writable() const { return rights.size() == 4 && rights[1] == 'w'; }
  bool is_read_only() const { return rights.starts_with("r-"); }
  bool is_executable() const { return rights.size() == 4 && rights[2] == 'x'; }
};

// A mapping that only one of the texts has, since it was made or given back between the two, stays
// with what is known of it. Lines that are of neither form are left out.
std::vector<NumaMapping> JoinMaps(const std::string& maps, const std::string& numa_maps);
// Where the kernel has no numa_maps there is one node: sizes from /proc/PID/smaps, all on node 0.
std::vector<NumaMapping> MapsOfOneNode(const std::string& smaps);

// The nodes of a policy in words: empty for one without nodes of its own ("default", "local").
std::vector<int> NodesOfPolicy(const std::string& policy);

}  // namespace gleaner::tools
