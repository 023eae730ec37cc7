// JSON that commands write.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gleaner::tools {

// Members stay in the order in which they are added.
using Json = nlohmann::ordered_json;

// On one line. Bytes that are no UTF-8 become U+FFFD: names of threads may be cut anywhere.
std::string TextOf(const Json& value);
// On standard output, a line for each member.
void Print(const Json& object);

}  // namespace gleaner::tools
