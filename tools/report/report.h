// `gleaner report`: a collector trace as a page to read.
#pragma once

#include <string>
#include <vector>

struct ReportOptions {
  // Of one process, or of the ranks of an MPI run. None: a program is run to get one.
  std::vector<std::string> traces;
  std::string output;    // empty: the trace's name and ".html", or "report.html"; "-": stdout
  std::string profile;   // a heap profile; empty: none
  std::string snapshot;  // a heap snapshot, for the prediction; empty: none
  std::string machine;   // for which that is: as in PredictOptions
};

// Writes the page of a trace, or of the ranks of a run. Returns the exit status: 0; 1 after a
// message if the trace could not be read at all, or the page not be written; 2 if the trace is
// damaged or was not ended, and the page shows what is good.
int ReportTrace(const ReportOptions& options);

// Runs the program on the drop-in library with a trace, and writes its page. Ends this process as
// the program did. Returns only if the program could not be run, or the page not be written: the
// exit status, after a message. `arguments` ends with null.
int ReportProgram(char* const* arguments, const ReportOptions& options);
