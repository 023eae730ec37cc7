#include "platform/stalls.h"

#include <atomic>

namespace gleaner::platform {

__thread StallState t_stall __attribute__((tls_model("initial-exec"))) = {};

namespace {

constexpr uint32_t kShards = 8;

struct alignas(64) Shard {
  Atomic<uint64_t> total_ns[kStallCauses];
  Atomic<uint64_t> max_ns[kStallCauses];
  Atomic<uint64_t> buckets[kStallCauses][kStallBuckets];
};
// Zero, and resident only as far as it is written to.
constinit Shard g_shards[kShards] = {};

constexpr uint64_t kDepth = 0xffff;
constexpr uint64_t kOpened = kDepth + 1;

// Between the accesses of a thread and of its own signal handler.
void Fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Relaxed would do, acquire is the least there is (Atomic::CompareExchange): two threads that raise
// it at once each retry until theirs is in or is not the largest.
void Raise(Atomic<uint64_t>* most, uint64_t value) {
  uint64_t seen = most->Load(memory_order_relaxed);
  while (value > seen && !most->CompareExchange(seen, value, memory_order_acquire)) {
  }
}

}  // namespace

const char* NameOf(StallCause cause) {
  static const char* const names[] = {"allocation", "write fault", "assist", "wait", "pause"};
  return names[static_cast<int>(cause)];
}

void StallHistogram::Add(const StallHistogram& other) {
  count += other.count;
  total_ns += other.total_ns;
  if (other.max_ns > max_ns) max_ns = other.max_ns;
  for (int i = 0; i < kStallBuckets; ++i) buckets[i] += other.buckets[i];
}

uint64_t StallHistogram::Quantile(double per_mille) const {
  if (count == 0) return 0;
  // The number of stalls up to and including the one wanted.
  auto rank = static_cast<uint64_t>(static_cast<double>(count) * per_mille / 1000);
  if (static_cast<double>(rank) * 1000 < static_cast<double>(count) * per_mille) ++rank;
  uint64_t seen = 0;
  for (int i = 0; i < kStallBuckets; ++i) {
    seen += buckets[i];
    if (seen == 0 || seen < rank) continue;
    const uint64_t end = StallBucketBegin(i + 1);
    return end < max_ns && i + 1 < kStallBuckets ? end : max_ns;
  }
  return max_ns;
}

void ReadStalls(StallCause cause, StallHistogram* out) {
  const int c = static_cast<int>(cause);
  *out = {};
  // Relaxed: counts, each true by itself (see the declaration).
  for (const Shard& shard : g_shards) {
    for (int i = 0; i < kStallBuckets; ++i) {
      const uint64_t stalls = shard.buckets[c][i].Load(memory_order_relaxed);
      out->buckets[i] += stalls;
      out->count += stalls;
    }
    out->total_ns += shard.total_ns[c].Load(memory_order_relaxed);  // as the others
    const uint64_t max_ns = shard.max_ns[c].Load(memory_order_relaxed);
    if (max_ns > out->max_ns) out->max_ns = max_ns;
  }
}

uint64_t LongestStallNs() {
  uint64_t longest = 0;
  for (const Shard& shard : g_shards) {
    for (const Atomic<uint64_t>& max_ns : shard.max_ns) {
      const uint64_t ns = max_ns.Load(memory_order_relaxed);  // as above
      if (ns > longest) longest = ns;
    }
  }
  return longest;
}

void BeginStallsOfThread(int tid) {
  t_stall.shard = static_cast<uint8_t>(static_cast<uint32_t>(tid) % kShards + 1);
}

void EndStallsOfThread() { t_stall.shard = 0; }

void RecordStall(StallCause cause, uint64_t ns) {
  if (t_stall.shard == 0) return;
  const int c = static_cast<int>(cause);
  Shard& shard = g_shards[t_stall.shard - 1];
  // Relaxed: counts that nothing is concluded from.
  shard.total_ns[c].FetchAdd(ns, memory_order_relaxed);
  Raise(&shard.max_ns[c], ns);
  shard.buckets[c][StallBucketOf(ns)].FetchAdd(1, memory_order_relaxed);
}

// Begin and End. A handler may run between any two lines, with scopes of its own; it always leaves
// the depth as it found it, and another number of opened scopes. The compare-and-exchange of Begin
// makes sure that no handler overwrote what it publishes. Once a scope is open, handlers' scopes
// are parts of it: one that comes before the clock is read notes its own beginning. That of End
// makes sure that no part came after its reading of the clock. Relaxed, and acquire as the least
// that an exchange has: one thread.

void StallScope::Begin(StallCause cause) {
  StallState& stall = t_stall;
  uint64_t seen = stall.scopes.Load(memory_order_relaxed);
  if ((seen & kDepth) != 0) {
    RaiseStallCause(cause);
    // Handlers leave the depth alone: an increment of theirs that this overwrites does not matter,
    // for the scope that must not miss it sees ours.
    stall.scopes.Store(seen + kOpened + 1, memory_order_relaxed);
    Fence();
    if (stall.begin_ns == 0) stall.begin_ns = NowNs();
    return;
  }
  do {
    for (bool& part : stall.has_part) part = false;
    stall.has_part[static_cast<int>(cause)] = true;
    stall.begin_ns = 0;
    Fence();
    // Acquire: the least there is.
  } while (!stall.scopes.CompareExchange(seen, seen + kOpened + 1, memory_order_acquire));
  Fence();
  const uint64_t now = NowNs();
  if (stall.begin_ns == 0) stall.begin_ns = now;
}

void StallScope::End() {
  StallState& stall = t_stall;
  uint64_t seen = stall.scopes.Load(memory_order_relaxed);  // one thread
  if ((seen & kDepth) > 1) {
    stall.scopes.Store(seen - 1, memory_order_relaxed);
    return;
  }
  uint64_t now;
  uint64_t begin;
  int cause;
  do {
    Fence();
    now = NowNs();
    begin = stall.begin_ns;
    for (cause = kStallCauses - 1; cause > 0 && !stall.has_part[cause];) --cause;
    Fence();
    // As in Begin.
  } while (!stall.scopes.CompareExchange(seen, seen - 1, memory_order_acquire));
  RecordStall(static_cast<StallCause>(cause), now - begin);
}

StallInterruption::StallInterruption()
    : depth_(t_stall.scopes.Load(memory_order_relaxed) & kDepth) {  // one thread
  for (uint64_t i = 0; i < depth_; ++i) StallScope::End();
}

StallInterruption::~StallInterruption() {
  for (uint64_t i = 0; i < depth_; ++i) StallScope::Begin(StallCause::kAllocation);
}

void RaiseStallCause(StallCause cause) {
  if ((t_stall.scopes.Load(memory_order_relaxed) & kDepth) == 0) return;  // one thread
  t_stall.has_part[static_cast<int>(cause)] = true;
}

}  // namespace gleaner::platform
