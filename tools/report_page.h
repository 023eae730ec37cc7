// The HTML page of a report: one file, nothing of which is fetched from elsewhere.
#pragma once

#include <string>

#include "tools/report_model.h"
#include "tools/report_profile.h"

namespace gleaner::tools {

// `profile` is null if there is none.
std::string MakePage(const ReportModel& model, const HeapProfile* profile);

}  // namespace gleaner::tools
