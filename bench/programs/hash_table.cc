// A large chained hash table that changes while it is read: half of the operations look a key up,
// the others delete it if it is there and insert it if not, so that half of the keys are present.
// The table is striped: thread t owns the keys of its stripe, which makes the result independent
// of scheduling. The build is not measured. Besides the rate, the longest time that a few
// operations took (max_stall_ms) says what a mutator notices of the collector. With --barrier every
// store of a pointer into an object goes through the barrier of gleaner.h.
#define GC_THREADS
#include <algorithm>
#include <bit>
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"
#include "gleaner.h"

GLEANER_DEFINE_CARDS;  // the program runs on other libraries, too

namespace {

constexpr uint64_t kMinWords = 8;
constexpr uint64_t kMaxWords = 63;
// A live key costs its entry, a value of mean size and one or two bucket words.
constexpr uint64_t kBytesPerKey = 24 + 8 * (kMinWords + kMaxWords) / 2 + 12;
// Operations between two looks at the clock.
constexpr uint64_t kBatch = 16;

struct Value;

struct Entry {
  Entry* next;
  uint64_t key;
  Value* value;
};

struct Value {
  uint64_t key;
  Entry* owner;
  uint64_t words;  // Length of this value, header included.
  uint64_t data[1];
};

// Owner thread only. In static data, so that the buckets are rooted.
struct alignas(128) Stripe {
  Entry** buckets;
  uint64_t mask;
  uint64_t keys;  // Keys are 0 ... keys - 1.
  uint64_t present;
  uint64_t checksum;
  uint64_t max_stall_ns;
};
Stripe g_stripes[bench::kMaxThreads];

Entry** FindSlot(const Stripe& stripe, uint64_t key) {
  Entry** slot = &stripe.buckets[bench::Mix64(key) & stripe.mask];
  while (*slot != nullptr && (*slot)->key != key) slot = &(*slot)->next;
  return slot;
}

void Verify(const Entry* entry, uint64_t key) {
  const Value* value = entry->value;
  if (entry->key != key || value->key != key || value->owner != entry ||
      value->data[value->words - 4] != bench::Mix64(key)) {
    bench::Fail("the entry of key %lu is damaged", key);
  }
}

template <bool kBarrier, class T>
void Store(T** slot, T* value) {
  if constexpr (kBarrier) {
    GLEANER_STORE(slot, value);
  } else {
    *slot = value;
  }
}

template <bool kBarrier>
void Insert(Stripe* stripe, Entry** slot, uint64_t key, uint64_t random) {
  auto* entry = static_cast<Entry*>(GC_malloc(sizeof(Entry)));
  const uint64_t words = kMinWords + random % (kMaxWords - kMinWords + 1);
  auto* value = static_cast<Value*>(GC_malloc(words * sizeof(uint64_t)));
  value->key = key;
  Store<kBarrier>(&value->owner, entry);
  value->words = words;
  value->data[words - 4] = bench::Mix64(key);
  entry->key = key;
  Store<kBarrier>(&entry->value, value);
  Store<kBarrier>(slot, entry);
  ++stripe->present;
}

template <bool kBarrier>
void Build(Stripe* stripe, uint64_t seed, uint64_t keys) {
  stripe->keys = keys;
  const uint64_t buckets = std::bit_ceil(std::max<uint64_t>(keys / 2, 16));
  stripe->mask = buckets - 1;
  stripe->buckets = static_cast<Entry**>(GC_malloc(buckets * sizeof(Entry*)));
  bench::Rng rng(1'000 + seed);
  for (uint64_t key = 0; key < keys; ++key) {
    const uint64_t random = rng.Next();
    if (random >> 63 != 0) Insert<kBarrier>(stripe, FindSlot(*stripe, key), key, random >> 8);
  }
}

template <bool kBarrier>
void Mutate(Stripe* stripe, uint64_t seed, uint64_t operations) {
  bench::Rng rng(seed);
  uint64_t found = 0;
  uint64_t last_ns = bench::NowNs();
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t key = rng.Below(stripe->keys);
    const uint64_t random = rng.Next();
    Entry** slot = FindSlot(*stripe, key);
    if (*slot != nullptr) {
      Verify(*slot, key);
      ++found;
      if (random >> 63 != 0) {
        Store<kBarrier>(slot, (*slot)->next);
        --stripe->present;
      }
    } else if (random >> 63 != 0) {
      Insert<kBarrier>(stripe, slot, key, random >> 8);
    }
    bench::RecordProgress();
    if (i % kBatch == kBatch - 1) {
      const uint64_t now_ns = bench::NowNs();
      stripe->max_stall_ns = std::max(stripe->max_stall_ns, now_ns - last_ns);
      last_ns = now_ns;
    }
  }
  stripe->checksum = bench::Mix64(found);
}

template <bool kBarrier>
bench::Measurement Run(int threads, uint64_t seed, uint64_t keys, uint64_t operations,
                       bool no_collect) {
  const auto seed_of = [seed](int t) { return seed + static_cast<uint64_t>(t); };
  bench::RunThreads(threads, [&](int t) { Build<kBarrier>(&g_stripes[t], seed_of(t), keys); });
  if (no_collect) GC_disable();
  return bench::RunThreads(threads,
                           [&](int t) { Mutate<kBarrier>(&g_stripes[t], seed_of(t), operations); });
}

// Walks the whole stripe, verifies every entry and adds the keys to the checksum.
void Finish(Stripe* stripe) {
  uint64_t count = 0;
  for (uint64_t b = 0; b <= stripe->mask; ++b) {
    for (const Entry* entry = stripe->buckets[b]; entry != nullptr; entry = entry->next) {
      Verify(entry, entry->key);
      stripe->checksum += bench::Mix64(entry->key ^ (entry->value->words << 40));
      ++count;
    }
  }
  if (count != stripe->present) {
    bench::Fail("a stripe holds %lu entries, not %lu", count, stripe->present);
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t operations, megabytes;
  bench::RandomWork work;
  bool no_collect = false;
  bool barrier = false;
  bench::Options options("hash_table", "a chained hash table mutating under allocation");
  options.Number("operations", &operations, 12'000'000, 100'000, 1, UINT64_C(1) << 40,
                 "operations per thread");
  options.Number("megabytes", &megabytes, 400, 8, 1, 1 << 20, "live data of all stripes");
  options.Flag("no-collect", &no_collect, "GC_disable() once the table is built");
  options.Flag("barrier", &barrier,
               "stores by the barrier of gleaner.h, for GLEANER_WRITE_TRACKING=cards");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  operations = work.Scaled(operations);
  const int threads = options.threads();
  const uint64_t keys = 2 * (megabytes * 1'000'000 / kBytesPerKey) / static_cast<uint64_t>(threads);
  if (keys < 16) bench::Fail("--megabytes %lu is too little for %d threads", megabytes, threads);

  bench::InitGc(options);
  const auto run = barrier ? Run<true> : Run<false>;
  const bench::Measurement measurement =
      run(threads, work.SeedOffset(), keys, operations, no_collect);

  uint64_t checksum = 0;
  uint64_t stall_ns = 0;
  for (int t = 0; t < threads; ++t) {
    Finish(&g_stripes[t]);
    checksum += g_stripes[t].checksum;
    stall_ns = std::max(stall_ns, g_stripes[t].max_stall_ns);
  }
  const double total = static_cast<double>(operations) * threads;
  bench::ResultLine result("hash_table");
  result.Count("no_collect", no_collect);
  result.Real("max_stall_ms", static_cast<double>(stall_ns) * 1e-6);
  bench::PrintRun(options, measurement, total, checksum, &result);
}
