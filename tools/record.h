// `gleaner record`: one program, with its allocations written to a trace.
#pragma once

#include <cstdint>
#include <string>

struct RecordOptions {
  std::string file = "gleaner.trace";
  uint64_t limit_bytes = 256u << 20;  // of each file
  bool children = true;               // programs after the first one get files of their own
};

// Runs the program with the recorder preloaded, says at the end what was recorded, and ends as the
// program did. `arguments` ends with null. Returns only if the program could not be run: the exit
// status for that, after a message.
int Record(char* const* arguments, const RecordOptions& options);
