#include "tools/common/json.h"

#include <cstdio>

namespace gleaner::tools {

std::string TextOf(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Print(const Json& object) {
  const char* before = "{";
  for (const auto& [name, value] : object.items()) {
    printf("%s\n%s: %s", before, TextOf(name).c_str(), TextOf(value).c_str());
    before = ",";
  }
  puts("\n}");
}

}  // namespace gleaner::tools
