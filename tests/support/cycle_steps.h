// Cycles beside a fake world's program, one step at a time.
#pragma once

#include "tests/support/fake_world.h"

namespace gleaner::testing {

inline gc::Cycle& cycle() { return gc::g_collector.cycle(); }

inline void StartCycles(uint64_t slice_bytes,
                        platform::TrackingKind kind = platform::WriteTracking::BestKind()) {
  StartHeap();
  StartCollector();
  g_tunables.concurrent_mark = true;
  g_tunables.slice_bytes = slice_bytes;
  ASSERT_NE(kind, platform::TrackingKind::kNone);
  ASSERT_TRUE(cycle().Enable(kind));
  gc::g_collector.pacer().ExpandHeapTo(64 * kMiB);  // nothing is due by itself
}

// One step; the final stop, if it is time for it, after a call of `before_stop`. False when the
// cycle is over.
template <class F>
bool Step(const F& before_stop) {
  if (gc::g_collector.Advance(0, 0)) {
    before_stop();
    EXPECT_TRUE(gc::g_collector.Collect(gc::Cause::kAllocation, 0));
  }
  return cycle().IsUnderWay();
}
inline bool Step() {
  return Step([] {});
}

// Starts a cycle and goes on until it is in that state.
inline void AdvanceTo(gc::CycleState state) {
  gc::g_collector.WantCycle();
  while (cycle().state() != state) {
    const bool is_ready = gc::g_collector.Advance(0, 0);
    ASSERT_EQ(is_ready, cycle().state() == gc::CycleState::kReady);
  }
}

inline void FinishSweep() {
  gc::g_collector.SweepRest();
  gc::g_collector.EndSweepIfDone();
}

inline void FinishCycle() {
  while (Step()) {
  }
  FinishSweep();
}

// The program's barrier, where cards are tracked.
inline void RecordStore(const void* place) {
  const platform::WriteTracking& tracker = gc::g_collector.writes().tracker();
  if (tracker.kind() != platform::TrackingKind::kCards) return;
  tracker.card_table()[(AddressOf(place) >> platform::kCardShift) & tracker.card_mask()] = 1;
}

}  // namespace gleaner::testing
