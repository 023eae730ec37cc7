// Running a benchmark on whichever libgc.so.1 the loader found: initialisation, registered
// threads, and the collections and pauses of the measured region.
// A caller keeps its roots in static data, on a stack, or in collected memory: what a std::function
// or a std::vector holds is invisible to the collector.
#ifndef GLEANER_BENCH_GC_RUN_H_
#define GLEANER_BENCH_GC_RUN_H_

#include <cstdint>
#include <functional>

#include "bench_util.h"
#include "latency_histogram.h"

namespace bench {

// What happened between the first thread's start and the last one's end. A pause lasts from
// GC_EVENT_PRE_STOP_WORLD to GC_EVENT_POST_START_WORLD.
struct Measurement {
  double seconds = 0;
  uint64_t collections = 0;
  uint64_t pauses = 0;
  double pause_mean_ms = 0;
  double pause_max_ms = 0;
  LatencyHistogram gaps;  // with --gaps
};

// Called by the programs at each allocation or operation: with --gaps, the time since the thread's
// last call is recorded, so that the longest is what the thread notices of the collector, whichever
// it is. Costs a look at the clock then, otherwise a predicted branch.
extern bool g_measure_gaps;
void RecordGap();
inline void RecordProgress() {
  if (__builtin_expect(g_measure_gaps, false)) RecordGap();
}
// The thread has waited for others: the time since its last call is no gap.
void ForgetProgress();

// Called by all threads of a body that RunThreads runs: waits until all have. No gap counts it.
void WaitForAll();

// Initialises the collector and starts listening to its events. Once, first, on the main thread.
// With --wake-markers it also creates and joins a thread: Debian's libgc starts its parallel
// markers at the first thread, so a program without threads is marked by one.
void InitGc(const Options& options);

// Runs body(0) on the calling thread and body(1) ... body(threads - 1) on new threads that the
// collector knows; all start together.
Measurement RunThreads(int threads, const std::function<void(int)>& body);

// Adds the measurement, the heap's size and the path of the libgc in use.
void AddGcResult(const Measurement& measurement, ResultLine* result);

// Adds threads, the rate of operations, the checksum and what AddGcResult adds, and prints.
void PrintRun(const Options& options, const Measurement& measurement, double operations,
              uint64_t checksum, ResultLine* result);

// Overwrites the part of the calling thread's stack below the caller's frame, so that no dead
// frame keeps an object alive.
void ClearDeadStack();

}  // namespace bench

#endif  // GLEANER_BENCH_GC_RUN_H_
