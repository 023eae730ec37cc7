// The events of the heap and of the collector, for whoever observes them: the core names each event
// once, here, and knows nothing of how it is noted. An event goes to the trace and to its probe
// (trace.h). One that keeps a thread of the program from running is a stall, too (stalls.h). The
// arguments are those of trace_events.def.
//
// While nobody listens, an event costs one relaxed load and a predicted branch, at its beginning if
// it lasts; a stall costs what stalls.h says. All of it is async-signal-safe.
#pragma once

#include "observe/trace.h"
#include "platform/os/stalls.h"

namespace gleaner::platform {

// --- Events that last as long as these objects ---

// An allocation does what it seldom has to. Its thread is kept from running the program.
class SlowPathEvent {
 public:
  explicit SlowPathEvent(TracePath path)
      : stall_(StallCause::kAllocation),
        scope_(TraceEvent::kSlowPath, static_cast<uint64_t>(path)) {}

 private:
  const StallScope stall_;
  const TraceScope scope_;  // the last member: the stall's own event follows this one
};

// Pages are swept while the program runs.
class SweepEvent {
 private:
  const TraceScope scope_{TraceEvent::kSweep};
};

// A concurrent cycle does a step, in this state.
class StepEvent {
 public:
  template <class State>
  explicit StepEvent(State state) : scope_(TraceEvent::kStep, static_cast<uint64_t>(state)) {}

 private:
  const TraceScope scope_;
};

// A marker searches for work.
class IdleEvent {
 public:
  explicit IdleEvent(int worker) : scope_(TraceEvent::kIdle, static_cast<uint64_t>(worker)) {}

 private:
  const TraceScope scope_;
};

// --- Events that last from the object's beginning to its End ---

// A marker marks, in a pause or for a slice of a cycle.
class MarkEvent {
 public:
  void End(int worker, uint64_t steals, uint64_t scanned_bytes, uint64_t objects) const {
    span_.End(TraceEvent::kMark, worker, steals, scanned_bytes, objects);
  }

 private:
  const TraceSpan span_;
};

// Free memory goes back to the system.
class ReturnEvent {
 public:
  void End(size_t bytes) const { span_.End(TraceEvent::kReturned, bytes); }

 private:
  const TraceSpan span_;
};

// --- Events that are over, or last no time ---

template <class Part>
void OnPausePart(Part part, uint64_t begin_ns, uint64_t ns) {
  if (IsTracing()) {
    EmitTrace(TraceEvent::kPausePart, begin_ns, {ns, static_cast<uint64_t>(part)});
  }
}

// A concurrent cycle is in another state.
template <class State>
void OnCycleState(State state) {
  if (IsTracing()) EmitTrace(TraceEvent::kCycleState, NowNs(), {static_cast<uint64_t>(state)});
}

}  // namespace gleaner::platform
