// `gleaner why`: what keeps objects of a heap snapshot (docs/reference/heap.md).
#pragma once

#include <cstdint>
#include <string>

struct WhyOptions {
  std::string snapshot;
  std::string address;  // in hexadecimal; empty: not asked for
  bool largest = false;
  std::string type;  // part of the name of a kind or class; empty: not asked for
  uint32_t paths = 1;
  uint32_t top = 10;  // groups of --type
  bool json = false;
};

// Returns the exit status: 0; 1 after a message if the snapshot cannot be read, or there is no such
// object.
int Why(const WhyOptions& options);
