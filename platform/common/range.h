// A range of addresses.
#pragma once

#include "platform/common/units.h"

namespace gleaner::platform {

struct Range {
  Addr begin = 0;
  Addr end = 0;
  bool Contains(Addr a) const { return a - begin < end - begin; }
  size_t bytes() const { return end - begin; }
};

}  // namespace gleaner::platform
