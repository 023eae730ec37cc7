// `gleaner top`: a running program's heap, without stopping it (docs/reference/commands.md).
#pragma once

#include <cstdint>

struct TopOptions {
  int process = 0;
  double seconds = 1;   // between two frames
  uint64_t frames = 0;  // 0: until the process ends
  bool json = false;
};

// Returns the exit status: 0, also if the process ends; 1 if its heap cannot be read, or the output
// not be written.
int Top(const TopOptions& options);
