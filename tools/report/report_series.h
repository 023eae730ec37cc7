// The series of a report's charts, as the JSON that tools/report/report.js draws.
#pragma once

#include <string>

#include "tools/report/report_model.h"

namespace gleaner::tools {

// Thinned, so that the page stays small. No '<' is in it: it may stand in a script element.
std::string SeriesOf(const ReportModel& model);

}  // namespace gleaner::tools
