// Monotonic time.
#pragma once

#include <cerrno>
#include <ctime>

#include "platform/base.h"

namespace gleaner::platform {

inline uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// The time of the same clock at its last tick, at most some milliseconds ago; a seventh of the cost
// of NowNs.
inline uint64_t CoarseNowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Processor time of all the process's threads so far.
inline uint64_t ProcessorNs() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1000000000u + static_cast<uint64_t>(used.tv_nsec);
}

// Sleeps for `ns`; may return early. Keeps errno.
inline void SleepNs(uint64_t ns) {
  const int saved = errno;
  const timespec time{static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)};
  nanosleep(&time, nullptr);
  errno = saved;
}

}  // namespace gleaner::platform
