// What `gleaner numa` says of the places of a process: a table and words, or JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/common/json.h"
#include "tools/numa/numa_places.h"

namespace gleaner::tools {

// What is to know of the places, in plain words: a finding is some sentences, without an end of
// line. The first line of each says what is so; the rest why, and what helps.
std::vector<std::string> FindingsOf(const NumaPlaces& places);

// `all`: every part has a row; else the small ones of a group are joined.
std::string NumaTable(const NumaPlaces& places, bool all);
Json NumaJson(const NumaPlaces& places);

// "12.3 MB on node 0, 4.0 kB on node 2".
std::string NodesText(const BytesByNode& nodes);

}  // namespace gleaner::tools
