// The page of a report on the processes of one MPI run.
#pragma once

#include <string>
#include <vector>

#include "tools/report/ranks.h"

namespace gleaner::tools {

// pre: at least two traces, in the order of ranks.
std::string MakeRanksPage(const std::vector<RankTrace>& traces, const RunFigures& run);

}  // namespace gleaner::tools
