#include "tools/common/json.h"

#include <cstdio>

namespace gleaner::tools {

std::string TextOf(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Print(const Json& value) { puts(TextOf(value).c_str()); }

}  // namespace gleaner::tools
