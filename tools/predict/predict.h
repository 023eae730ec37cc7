// `gleaner predict`: the time of a collection of a heap snapshot on any number of processors.
#pragma once

#include <string>
#include <vector>

#include "gc/mark/marker_count.h"
#include "tools/predict/prediction.h"

struct PredictOptions {
  std::string snapshot;
  std::string machine;           // its name or file; empty: this one
  std::string markers = "1-64";  // N, A-B, or several of these between commas
  bool json = false;
};

// Prints to standard output. Returns the exit status.
int Predict(const PredictOptions& options);

// A prediction, and the machine that it is for.
struct PredictedHeap {
  gleaner::tools::Machine machine;
  gleaner::tools::Prediction prediction;
  gleaner::gc::MarkingTimes measured;  // when the snapshot was taken; nothing: it is not known
};
// `machine`: as in PredictOptions. False, with the reason in *error. Throws std::bad_alloc.
[[nodiscard]] bool PredictHeap(const std::string& snapshot, const std::string& machine,
                               const std::vector<int>& markers, PredictedHeap* heap,
                               std::string* error);
