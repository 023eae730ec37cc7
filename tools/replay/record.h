// `gleaner record`: runs a program with its allocations written to a trace.
#pragma once

#include <cstdint>
#include <string>

struct RecordOptions {
  std::string file = "gleaner.trace";
  uint64_t limit_bytes = 256u << 20;  // size limit of each file
  bool children = true;  // record programs after the first one, too, in files of their own
};

// Runs the program with the recorder preloaded, prints what was recorded, and ends this process as
// the program did. `arguments` ends with null. Returns only if the program could not be run: the
// exit status, after a message.
int Record(char* const* arguments, const RecordOptions& options);
