// Which part of a process is on which node, and which pages are on others than they are bound to.
#pragma once

#include <string>
#include <vector>

#include "tools/numa/numa_heap.h"
#include "tools/numa/numa_maps.h"
#include "tools/system/process_memory.h"

namespace gleaner::tools {

// The machine's nodes, as the kernel shows them at this moment.
struct NumaNodes {
  std::vector<int> online;
  std::vector<int> with_memory;
  std::map<int, std::vector<int>> processors;  // of each node that is online
};
NumaNodes ReadNumaNodes();

// The groups in the order in which they are shown.
enum class PartGroup : uint8_t {
  kHeap,
  kCHeap,
  kStacks,
  kText,
  kReadOnlyData,
  kData,
  kMappedFiles,
  kSharedMemory,
  kCode,  // without a file: made at run time, or copied there
  kOther
};
const char* NameOf(PartGroup group);

struct NumaPart {
  PartGroup group = PartGroup::kOther;
  std::string name;  // a use of the heap, the path of a file, or nothing
  BytesByNode nodes;
  std::string policy;              // as the kernel names it; "several" if its mappings differ
  BytesByNode elsewhere;           // of `nodes`: on nodes that the part is not bound to
  BytesByNode elsewhere_of_files;  // of that: pages of files, in the page cache
  uint64_t max_mappers = 1;        // of a page of the mappings that have some elsewhere
};

// A mapping with pages on nodes that it is not bound to.
struct MisplacedMapping {
  uint64_t begin;
  uint64_t end;
  std::vector<int> nodes;  // where its pages are to be
};

struct NumaPlaces {
  int process = 0;
  std::string name;
  NumaNodes machine;
  std::vector<int> allowed_nodes;  // those of its cpuset
  std::string policy;              // of the process: of mappings without one of their own
  // Without a policy: the one node that all processors are on that its threads may use; -1 if these
  // are of several nodes.
  int processors_node = -1;
  std::vector<NumaPart> parts;  // in the order of the groups, the largest of a group first
  std::vector<LargeObject> large_objects;
  std::vector<MisplacedMapping> misplaced;
  // What could not be done.
  bool has_numa_maps = true;
  int heap_error = 0;               // of the call that tells the nodes of the heap's pages
  uint64_t unknown_heap_bytes = 0;  // whose use is not known
  size_t running_threads = 0;       // whose stacks were not found, since they ran
  bool is_heap_of_other_version = false;

  uint64_t Sum() const;
  BytesByNode SumByNode() const;
  BytesByNode Elsewhere() const;
};

// False, with a message, if the process cannot be read. pre: `memory` is open.
[[nodiscard]] bool ReadNumaPlaces(const ProcessMemory& memory, NumaPlaces* places,
                                  std::string* message);

}  // namespace gleaner::tools
