// `gleaner calibrate`: measures this machine for `gleaner predict`.
#pragma once

#include <string>

struct CalibrateOptions {
  std::string output;  // a file; "-" is standard output; empty: where `gleaner predict` looks
};

// Returns the exit status.
int CalibrateMachine(const CalibrateOptions& options);
