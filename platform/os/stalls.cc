#include "platform/os/stalls.h"

#include <atomic>

namespace gleaner::platform {

__thread StallState t_stall __attribute__((tls_model("initial-exec"))) = {};

constinit Hint<StallListener> g_stall_listener{nullptr};

namespace {

constexpr uint32_t kShards = 8;

struct alignas(64) Shard {
  Count<uint64_t> total_ns[kStallCauses];
  Atomic<uint64_t> max_ns[kStallCauses];
  Count<uint64_t> buckets[kStallCauses][kStallBuckets];
};
// Starts as zeroes, so only the written parts are resident.
constinit Shard g_shards[kShards] = {};

constexpr uint64_t kDepth = 0xffff;
constexpr uint64_t kOpened = kDepth + 1;

// Orders accesses of a thread for its own signal handlers.
void Fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Raises *max to at least `value`. Relaxed would do; acquire is the weakest order of
// Atomic::CompareExchange. Two threads that raise it at once each retry until their value is stored
// or is not the largest.
void Raise(Atomic<uint64_t>* max, uint64_t value) {
  uint64_t seen = max->Load(memory_order_relaxed);
  while (value > seen && !max->CompareExchange(seen, value, memory_order_acquire)) {
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
  // The rank of the stall that is sought, from 1.
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
  // Relaxed: counts, of which each is true by itself.
  for (const Shard& shard : g_shards) {
    for (int i = 0; i < kStallBuckets; ++i) {
      const uint64_t stalls = shard.buckets[c][i].Get();
      out->buckets[i] += stalls;
      out->count += stalls;
    }
    out->total_ns += shard.total_ns[c].Get();
    const uint64_t max_ns = shard.max_ns[c].Load(memory_order_relaxed);
    if (max_ns > out->max_ns) out->max_ns = max_ns;
  }
}

uint64_t LongestStallNs() {
  uint64_t longest = 0;
  for (const Shard& shard : g_shards) {
    for (const Atomic<uint64_t>& max_ns : shard.max_ns) {
      const uint64_t ns = max_ns.Load(memory_order_relaxed);  // true by itself
      if (ns > longest) longest = ns;
    }
  }
  return longest;
}

StallRows RowsOfStalls() { return {g_shards, kShards, sizeof(Shard)}; }

void BeginStallsOfThread(int tid) {
  t_stall.shard = static_cast<uint8_t>(static_cast<uint32_t>(tid) % kShards + 1);
}

void EndStallsOfThread() { t_stall.shard = 0; }

void RecordStall(StallCause cause, uint64_t ns) {
  if (t_stall.shard == 0) return;
  const int c = static_cast<int>(cause);
  Shard& shard = g_shards[t_stall.shard - 1];
  shard.total_ns[c].Add(ns);
  Raise(&shard.max_ns[c], ns);
  shard.buckets[c][StallBucketOf(ns)].Add(1);
}

// Begin and End. A signal handler may run between any two lines, with scopes of its own; it leaves
// the depth unchanged, but raises the number of opened scopes. The compare-and-exchange of Begin
// makes sure that no handler has overwritten the fields that Begin publishes. Once a scope is open,
// handlers' scopes are parts of the stall: a handler's scope that comes before the clock is read
// sets begin_ns itself. The compare-and-exchange of End makes sure that no part came after End read
// the clock. Orders are relaxed, and acquire as the weakest of an exchange: all accesses are one
// thread's.

void StallScope::Begin(StallCause cause) {
  StallState& stall = t_stall;
  uint64_t seen = stall.scopes.Load(memory_order_relaxed);
  if ((seen & kDepth) != 0) {
    RaiseStallCause(cause);
    // A handler leaves the depth unchanged. This store may overwrite a handler's increment of the
    // opened scopes; that does no harm, since the increment of this store changes the word as well.
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
    // Acquire: the weakest order of CompareExchange; the accesses are one thread's.
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
    // Acquire: the weakest order of CompareExchange; the accesses are one thread's.
  } while (!stall.scopes.CompareExchange(seen, seen - 1, memory_order_acquire));
  RecordStall(static_cast<StallCause>(cause), now - begin);
  const StallListener listener = g_stall_listener.Get();
  if (listener != nullptr) listener(static_cast<StallCause>(cause), begin, now - begin);
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
