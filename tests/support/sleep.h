// A sleep that keeps errno.
#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace gleaner::testing {

// Sleeps for `ns`; may return early.
inline void SleepNs(uint64_t ns) {
  const int saved = errno;
  const timespec time{static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)};
  nanosleep(&time, nullptr);
  errno = saved;
}

}  // namespace gleaner::testing
