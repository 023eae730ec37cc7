// What the system says of a thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/sleep.h"
#include "tests/support/task_state.h"

namespace gleaner::testing {

// Whether the thread sleeps in the system. A thread that has ended does not.
inline bool Sleeps(int32_t tid) { return task_state(tid) == 'S'; }

// Returns when the thread sleeps in the system.
inline void AwaitSleep(int32_t tid) {
  for (char state = 0; state != 'S'; SleepNs(1'000'000)) {
    state = task_state(tid);
    ASSERT_NE(state, 0) << "it has ended";
  }
}

}  // namespace gleaner::testing
