// `gleaner trace`: a collector trace as JSON for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <string>

struct TraceOptions {
  std::string trace;
  std::string output;  // empty: the trace's name and ".json"; "-": standard output
};

// Returns the exit status: 0; 1 after a message if the trace could not be read at all, or the
// output not be written; 2 if the trace is damaged or was not ended, and what is good is written.
int ConvertTrace(const TraceOptions& options);
