// What the system says of a thread.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tests/support/sleep.h"

namespace gleaner::testing {

// Returns when the thread sleeps in the system.
inline void AwaitSleep(int32_t tid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  for (char state = 0; state != 'S'; SleepNs(1'000'000)) {
    char text[512] = {};
    const int fd = open(path, O_RDONLY);
    ASSERT_GE(fd, 0);
    ASSERT_GT(read(fd, text, sizeof text - 1), 0);
    close(fd);
    state = strrchr(text, ')')[2];
  }
}

}  // namespace gleaner::testing
