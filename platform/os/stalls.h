// How long threads of the program were kept from running the program, and why.
//
// A stall is one uninterrupted stretch of time of one registered thread, from the moment it begins
// to work or wait for the collector to the moment it continues. Parts of a stall do not count
// separately: a thread that finds a collection due, waits for the collector lock, is stopped, and
// takes a page afterwards, has stalled once. The cause of a stall is the weightiest cause of its
// parts, in the order of StallCause. docs/reference/statistics.md says what counts, and what is too
// short to count.
//
// A StallState is used only by its thread and this thread's signal handlers. All threads that hash
// to one shard share its counts, and add to them when a stall ends, never on a fast path.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/clock.h"

namespace gleaner::platform {

// Later causes outweigh earlier ones. The values are those of enum gleaner_stall_cause.
enum class StallCause : uint8_t {
  kAllocation,  // memory from other threads or from the system, a shared lock, what allocation owes
  kWriteFault,  // the first write to a tracked page
  kAssist,      // an allocating thread waits for a concurrent cycle, or marks for it
  kWait,        // for another thread's collection, or for the collector lock
  kPause,       // the world is stopped
};
inline constexpr int kStallCauses = 5;
const char* NameOf(StallCause cause);

// The histogram's buckets: exact below 16 ns, then sixteen for each doubling, so that a bound is
// off by at most a sixteenth. Stalls of 2^40 ns (18 minutes) and more are in the last bucket. The
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
// The least value of a bucket; for kStallBuckets, the end of the last bucket.
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
  // An upper bound for `per_mille` of the stalls: the end of the bucket that holds the last of
  // them, or max_ns if that is less. 0 without stalls.
  uint64_t Quantile(double per_mille) const;
};

// Reads the stalls of a cause that have been recorded so far. Any thread, at any time; a stall that
// ends meanwhile may be in some figures and not in others.
void ReadStalls(StallCause cause, StallHistogram* out);

// The longest stall of any cause so far. Cheap; any thread, at any time.
uint64_t LongestStallNs();

// Where ReadStalls reads, for readers of another process: rows that begin with the sums of
// nanoseconds by cause and the longest by cause.
struct StallRows {
  const void* first;
  size_t count;
  size_t row_bytes;
};
StallRows RowsOfStalls();

// Records a finished stall of the calling thread; ignored if the thread's stalls do not count.
// Async-signal-safe.
void RecordStall(StallCause cause, uint64_t ns);

// Called when a stall has ended, on its thread, in whatever context that is in: a signal handler, a
// critical section. Null: nobody listens.
using StallListener = void (*)(StallCause cause, uint64_t begin_ns, uint64_t ns);
extern Hint<StallListener> g_stall_listener;

// The stall that the calling thread is in.
struct StallState {
  // The low 16 bits have the number of open scopes, the others the number of scopes ever opened.
  // The thread begins and ends stalls by compare-and-exchange, so that it notices scopes of its
  // handlers.
  Atomic<uint64_t> scopes;
  uint64_t begin_ns;  // 0 while the outermost scope is about to read the clock
  bool has_part[kStallCauses];
  uint8_t shard;  // 1 + index of the shard that counts the thread's stalls; 0: none does
};
extern __thread StallState t_stall;

// From BeginStallsOfThread on the calling thread's stalls count, as those of thread number `tid`;
// from EndStallsOfThread on they do not.
void BeginStallsOfThread(int tid);
void EndStallsOfThread();

// A part of a stall. The outermost scope begins and ends the stall. A scope that begins while the
// thread's stalls do not count does nothing, and does not read the clock. Async-signal-safe: a
// handler may open scopes at any instruction of another scope's Begin or End.
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

// Brackets code of the program that runs within a stall, for example a finalizer: the stall ends at
// the constructor, and another one begins at the destructor.
class StallInterruption {
 public:
  StallInterruption();
  ~StallInterruption();
  StallInterruption(const StallInterruption&) = delete;
  StallInterruption& operator=(const StallInterruption&) = delete;

 private:
  uint64_t depth_;
};

// Adds a cause to the calling thread's current stall. Does nothing outside a stall.
void RaiseStallCause(StallCause cause);

}  // namespace gleaner::platform
