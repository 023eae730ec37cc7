#include "tools/predict/machine.h"

#include <gtest/gtest.h>

namespace gleaner::tools {
namespace {

Machine Plausible() {
  Machine machine;
  machine.caches.push_back({1 << 20, 64, 8, true, {10, 5, 4, 2}});
  machine.memory = {100, 20, 5, 2};
  machine.transfer_ns = 100;
  return machine;
}

TEST(MachineTest, WhatAnIdleMachineMeasuresIsNotDoubted) {
  Machine machine = Plausible();
  EXPECT_EQ(DoubtsOf(machine), "");
  machine.memory.stream_ns = 1.8;  // as far as the cache, within the spread
  EXPECT_EQ(DoubtsOf(machine), "");
}

TEST(MachineTest, WhatCannotBeIsDoubted) {
  for (double AccessTimes::*time : {&AccessTimes::dependent_ns, &AccessTimes::ahead_ns,
                                    &AccessTimes::batch_ns, &AccessTimes::stream_ns}) {
    Machine machine = Plausible();
    machine.memory.*time = machine.caches.back().times.*time / 2;
    EXPECT_EQ(DoubtsOf(machine), "memory is nearer than the last cache");
  }
  Machine machine = Plausible();
  machine.memory.dependent_ns = 401;
  machine.transfer_ns = 5e4;
  EXPECT_EQ(DoubtsOf(machine), "memory is too far; processors do not see each other's writes");
}

}  // namespace
}  // namespace gleaner::tools
