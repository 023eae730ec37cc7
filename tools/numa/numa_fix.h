// Moves the pages of a process to the nodes that they are bound to.
#pragma once

#include <map>
#include <string>

#include "tools/common/json.h"
#include "tools/numa/numa_places.h"

namespace gleaner::tools {

struct NumaMoves {
  int error = 0;                // of the call, if the kernel moves nothing at all
  bool own_pages_only = false;  // this process may not move pages that other processes have
  uint64_t moved_pages = 0;
  std::map<int, uint64_t> stayed_pages;  // by the reason, an errno

  uint64_t Stayed() const;
  // What was done and what was not, and why, as a sentence or some.
  std::string Text() const;
  Json AsJson() const;
};

NumaMoves MoveMisplaced(const ProcessMemory& memory, const NumaPlaces& places);

}  // namespace gleaner::tools
