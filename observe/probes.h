// Static probes (USDT) for bpftrace, perf and gdb at the points of a collector trace
// (docs/reference/statistics.md), and the one word by which those points know whether anybody
// listens.
//
// All probes share one semaphore: it counts the tracers of any of them.
#pragma once

#include <cstdint>

#include "platform/os/atomic.h"

namespace gleaner::platform {

enum class TraceEvent : uint8_t;

//   31       16 15       1 0
//   | semaphore | zero    | trace |
//
// A tracer adds to the semaphore from outside, while the program stands still (gdb) or with 16-bit
// accesses of its own (the kernel); this process never writes that half. probes.cc defines the
// word, or no_probes.cc, where <sys/sdt.h> is missing.
extern Atomic<uint32_t> g_listeners;
inline constexpr uint32_t kTraceListens = 1;

inline bool IsProbed() {
  return GLEANER_UNLIKELY(g_listeners.Load(memory_order_relaxed) >> 16 != 0);  // a hint
}

// Fires the event's probe, with the time of its beginning and its arguments. Async-signal-safe.
GLEANER_COLD void FireProbe(TraceEvent event, uint64_t begin_ns, const uint64_t* arguments);

}  // namespace gleaner::platform
