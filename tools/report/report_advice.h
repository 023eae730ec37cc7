// What a report advises: rules over the figures of a run. A rule that finds nothing says nothing.
#pragma once

#include <string>
#include <vector>

#include "tools/report/report_model.h"

namespace gleaner::tools {

struct Advice {
  const char* rule;      // its name in docs/reference/commands.md
  const char* title;     // what stands out
  std::string evidence;  // the figures
  const char* action;    // what can be done
  const char* document;  // where more is said: FILE#SECTION
};

// In the order of the rules, of which docs/reference/commands.md has the laws.
std::vector<Advice> Advise(const ReportModel& model);

}  // namespace gleaner::tools
