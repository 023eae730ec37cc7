// `gleaner snapshot`: the figures of a heap snapshot, or of two (docs/reference/heap.md).
#pragma once

#include <cstdint>
#include <string>

struct SnapshotOptions {
  std::string snapshot;
  std::string other;  // a later one; empty: none
  uint32_t top = 10;  // rows of each table
  bool json = false;
};

// Returns the exit status: 0; 1 after a message if a snapshot cannot be read.
int ShowSnapshot(const SnapshotOptions& options);
