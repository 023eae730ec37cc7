// The page of a report on one process.
#pragma once

#include <string>

#include "tools/predict/predict.h"
#include "tools/report/report_model.h"

namespace gleaner::tools {

// `profile` is the file of a heap profile, or empty; `predicted` is null if there is none.
std::string MakePage(const ReportModel& model, const std::string& profile,
                     const PredictedHeap* predicted);

}  // namespace gleaner::tools
