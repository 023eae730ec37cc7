// The HTML page of a report: one file, nothing of which is fetched from elsewhere.
#pragma once

#include <string>

#include "tools/predict/predict.h"
#include "tools/report/report_model.h"
#include "tools/report/report_profile.h"

namespace gleaner::tools {

// `profile` and `predicted` are null if there are none.
std::string MakePage(const ReportModel& model, const HeapProfile* profile,
                     const PredictedHeap* predicted);

}  // namespace gleaner::tools
