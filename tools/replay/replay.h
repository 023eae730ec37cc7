// `gleaner replay`: replays a recorded trace on an allocator of choice.
#pragma once

#include <cstdint>
#include <string>

enum class Touch : uint8_t { kNone, kFirst, kPages };

struct ReplayOptions {
  std::string trace;
  std::string allocator = "malloc";  // one of ReplayHeapNames()
  Touch touch = Touch::kPages;       // which bytes of a new block the replay writes
  bool one_thread = false;
  std::string csv;        // file for the samples of memory use; empty: none
  uint32_t points = 200;  // number of those samples
};

// Prints the result on standard output. Returns the exit status: 0; 1 if the trace or the allocator
// could not be used, or an operation was refused memory; 2 if the trace is damaged and the part
// before the damage was replayed.
int Replay(const ReplayOptions& options);
