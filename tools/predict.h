// `gleaner predict`: the time of a collection of a heap snapshot on any number of processors.
#pragma once

#include <string>

struct PredictOptions {
  std::string snapshot;
  std::string machine;           // its name or file; empty: this one
  std::string markers = "1-64";  // N, A-B, or several of these between commas
  bool json = false;
};

// Prints to standard output. Returns the exit status.
int Predict(const PredictOptions& options);
