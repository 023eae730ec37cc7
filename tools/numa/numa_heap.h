// Whose the pages of a Gleaner heap in another process are, by the heap's own page table, and on
// which nodes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "alloc/page.h"
#include "runtime/observe/live_figures.h"
#include "tools/numa/numa_maps.h"
#include "tools/system/process_memory.h"

namespace gleaner::tools {

struct LargeObject {
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool is_pointer_free = false;
  BytesByNode nodes;
};

class NumaHeap {
 public:
  // `memory` and `tables` outlive the object.
  NumaHeap(const ProcessMemory& memory, const runtime::HeapTables& tables)
      : memory_(memory), tables_(tables) {}

  // The name of the table that the mapping is of, "mark bytes" or "page descriptors"; empty for
  // one that is none.
  std::string TableOf(const NumaMapping& mapping) const;
  bool HasPages(const NumaMapping& mapping) const;

  // What the mapping's memory is used for: a use, such as "small objects", to the bytes on each
  // node. Adds large objects to those known. False if the kernel does not tell; `error` is that of
  // the call, or 0 where the process's memory could not be read. pre: HasPages(mapping); mappings
  // come in the order of their addresses.
  using Uses = std::map<std::string, BytesByNode>;
  [[nodiscard]] bool Attribute(const NumaMapping& mapping, Uses* uses, int* error);

  // The largest objects so far, the largest first.
  std::vector<LargeObject> LargestObjects() const;

 private:
  struct Walk;
  // A heap without a collector has blocks, of one kind, and only the first page of a large one
  // tells.
  bool IsMalloc() const { return tables_.bytes == sizeof tables_; }
  uint64_t LargeBytes(const alloc::PageInfo& page) const;
  const char* NameOfUse(size_t use) const;
  [[nodiscard]] bool WalkPages(const NumaMapping& mapping, int only_node, Walk* walk, int* error);
  static void Keep(const LargeObject& object, std::vector<LargeObject>* largest);

  const ProcessMemory& memory_;
  const runtime::HeapTables& tables_;
  std::vector<LargeObject> largest_;  // a heap, in the sense of std::push_heap
  // The object at the end of the mappings so far, which the next one may go on with.
  LargeObject open_;
  size_t open_use_ = 0;
};

}  // namespace gleaner::tools
