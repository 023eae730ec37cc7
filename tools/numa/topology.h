// `gleaner topology`: the machine's memory nodes, and where markers run on them
// (docs/reference/numa.md).
#pragma once

struct TopologyOptions {
  int markers = 0;  // 0: as many as the library would start
  bool json = false;
};

// Returns the exit status: 0; 1 after a message if there is no memory.
int ShowTopology(const TopologyOptions& options);
