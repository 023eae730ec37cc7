// `gleaner numa`: which part of a process is on which node (docs/reference/numa.md).
#pragma once

#include <string>

struct NumaOptions {
  int process = 0;
  std::string output;         // a file; empty: standard output, or of a program standard error
  double after_seconds = -1;  // of a program: how long it runs before the report; -1: to its end
  bool all = false;           // every part has a row
  bool json = false;
  bool fix = false;
};

// Of a running process. Returns the exit status: 0; 1 if it cannot be read, the output not be
// written, or, with `fix`, something stays where it is not to be.
int ShowNuma(const NumaOptions& options);

// Runs the program, with `fix` on its own copy of its text, and ends as the program did. Returns
// only if the program could not be run: the exit status, after a message. `arguments` ends with
// null.
int ShowNumaOfProgram(char* const* arguments, const NumaOptions& options);
