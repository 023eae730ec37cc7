// How long threads of the program were kept from running it, and why.
//
// A stall is one uninterrupted stretch of time of one registered thread, from the moment it begins
// work for the collector, or a wait for it, to the moment it goes on. Parts of a stall do not count
// by themselves: a thread that finds a collection due, waits for the collector lock, is stopped,
// and takes a page afterwards, has stalled once. Its cause is the weightiest of the parts, in the
// order of StallCause. docs/latency.md says what is inside and what is too short to count.
//
// Who touches what: a thread's StallState is its own, and its signal handlers'. The counts are
// shared by all threads that hash to one shard; they are added to when a stall ends, never on the
// fast path of anything.
#pragma once

#include "platform/atomic.h"
#include "platform/clock.h"

namespace gleaner::platform {

// Later ones outweigh earlier ones. As enum gleaner_stall_cause.
enum class StallCause : uint8_t {
  kAllocation,  // memory from other threads or from the system, a shared lock, what allocation owes
  kWriteFault,  // the first write to a tracked page
  kAssist,      // a thread that allocates waits for a cycle beside it, or marks for it
  kWait,        // for a collection of another thread's, for the collector lock
  kPause,       // the world is stopped
};
inline constexpr int kStallCauses = 5;
const char* NameOf(StallCause cause);

// The histogram's buckets: exact below 16 ns, then sixteen for each doubling, so that a bound is
// off by at most a sixteenth. From 2^40 ns (18 minutes) on everything is in the last one. The
// layout is that of HDR histograms.
inline constexpr int kStallSubBits = 4;
inline constexpr int kStallMaxBits = 40;
inline constexpr int kStallBuckets = (kStallMaxBits - kStallSubBits + 1) << kStallSubBits;

constexpr int StallBucketOf(uint64_t ns) {
  constexpr uint64_t kExact = 1u << kStallSubBits;
  if (ns < kExact) return static_cast<int>(ns);
  const int top = 63 - __builtin_clzll(ns);
  if (top >= kStallMaxBits) return kStallBuckets - 1;
  const int shift = top - kStallSubBits;
  return (shift << kStallSubBits) + static_cast<int>(ns >> shift);
}
// The least value of a bucket; of kStallBuckets, the end of the last one.
constexpr uint64_t StallBucketBegin(int bucket) {
  constexpr int kExact = 1 << kStallSubBits;
  if (bucket < 2 * kExact) return static_cast<uint64_t>(bucket);
  const int shift = (bucket >> kStallSubBits) - 1;
  return static_cast<uint64_t>((bucket & (kExact - 1)) + kExact) << shift;
}

struct StallHistogram {
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t max_ns = 0;
  uint64_t buckets[kStallBuckets] = {};

  void Add(const StallHistogram& other);
  // The end of the bucket in which the stall of that rank lies, `per_mille` of all being shorter
  // or as long; the maximum, if that is less. 0 if there are none.
  uint64_t Quantile(double per_mille) const;
};

// What has been recorded so far. Any thread, at any time; a stall that ends meanwhile may be in
// some figures and not in others.
void ReadStalls(StallCause cause, StallHistogram* out);

// From any cause, so far. Cheap; any thread, at any time.
uint64_t LongestStallNs();

// A stall of the calling thread that is over; ignored if its stalls do not count.
// Async-signal-safe.
void RecordStall(StallCause cause, uint64_t ns);

// The stall that the calling thread is in.
struct StallState {
  // Number of scopes that are open in the low 16 bits; above, how many have been opened. The thread
  // changes it by compare-and-exchange, so that it notices what its handlers have done meanwhile.
  Atomic<uint64_t> scopes;
  uint64_t begin_ns;  // 0 while the outermost scope is about to read the clock
  bool has_part[kStallCauses];
  uint8_t shard;  // where the thread's stalls are counted, from 1; 0: they are not
};
extern __thread StallState t_stall;

// From here on the calling thread's stalls count, as those of thread number `tid`; or no longer.
void BeginStallsOfThread(int tid);
void EndStallsOfThread();

// Part of a stall. A scope that finds none begins one, and ends it. One that begins while the
// thread's stalls do not count is nothing, not even a look at the clock. Async-signal-safe: a
// handler may have scopes at whatever instruction of another's.
class StallScope {
 public:
  explicit StallScope(StallCause cause) : counts_(t_stall.shard != 0) {
    if (counts_) Begin(cause);
  }
  ~StallScope() {
    if (counts_) End();
  }
  StallScope(const StallScope&) = delete;
  StallScope& operator=(const StallScope&) = delete;

 private:
  friend class StallInterruption;
  static void Begin(StallCause cause);
  static void End();

  const bool counts_;
};

// Code of the program's that runs in the midst of a stall, a finalizer for example: the stall ends
// where it begins, and another one begins where it ends.
class StallInterruption {
 public:
  StallInterruption();
  ~StallInterruption();
  StallInterruption(const StallInterruption&) = delete;
  StallInterruption& operator=(const StallInterruption&) = delete;

 private:
  uint64_t depth_;
};

// Weighs the stall that the thread is in as one of that cause. Nothing if it is in none.
void RaiseStallCause(StallCause cause);

}  // namespace gleaner::platform
