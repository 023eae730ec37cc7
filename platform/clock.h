// Monotonic time.
#pragma once

#include <ctime>

#include "platform/base.h"

namespace gleaner::platform {

inline uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace gleaner::platform
