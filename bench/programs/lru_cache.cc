// A cache of computed values: a chained hash table whose entries are in one of two doubly linked
// lists, newest first. Entries of the first list hold their values. An entry that is pushed out of
// it goes to the second and keeps a disappearing link alone, until it is asked for again or leaves
// the cache; a value that the collector has taken is computed once more. Popular keys are asked for
// most (by Zipf's law), and popularity moves slowly.
// Each thread has a cache. Which entries are in which list depends on the keys alone, and is what
// the checksum covers; which weak values are still there depends on when is collected.
#define GC_THREADS
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr uint64_t kMinWords = 8;
constexpr uint64_t kSizes = 6;         // A value has up to kMinWords << kSizes words.
constexpr uint64_t kKeysPerEntry = 8;  // Keys that there are for each strong entry.
constexpr uint64_t kMovesEvery = 100;  // Operations after which popularity moves by a key.
// A value, its words of mean length and its entry.
constexpr uint64_t kMeanWords = kMinWords * ((1 << kSizes) - 1) * 3 / (2 * kSizes);
constexpr uint64_t kBytesPerEntry = 8 * kMeanWords + 88;

struct Value {
  uint64_t key;
  uint64_t length;
  uint64_t* words;  // Pointer-free.
};

struct Entry {
  uint64_t key;
  Entry* chain;
  Entry* newer;
  Entry* older;
  Value* value;            // Null in the list of weak entries.
  GC_hidden_pointer link;  // To the same value; cleared by the collector, and 0 then.
};

struct List {
  Entry* newest;
  Entry* oldest;
  uint64_t size;
};

// Owner thread only. In static data, so that buckets and lists are rooted.
struct alignas(128) Cache {
  Entry** buckets;
  uint64_t mask;
  List strong;
  List weak;
  uint64_t strong_limit;
  uint64_t weak_limit;
  uint64_t strong_hits;
  uint64_t weak_hits;
  uint64_t computed;
};
Cache g_caches[bench::kMaxThreads];

uint64_t LengthOf(uint64_t key) {
  const uint64_t random = bench::Mix64(~key);
  const uint64_t min = kMinWords << random % kSizes;
  return min + (random >> 32) % min;
}

uint64_t WordOf(uint64_t key, uint64_t index) { return bench::Mix64(key * 0x10001 + index); }

Value* Compute(uint64_t key) {
  auto* value = static_cast<Value*>(GC_malloc(sizeof(Value)));
  value->key = key;
  value->length = LengthOf(key);
  value->words = static_cast<uint64_t*>(GC_malloc_atomic(value->length * sizeof(uint64_t)));
  for (uint64_t i = 0; i < value->length; ++i) value->words[i] = WordOf(key, i);
  return value;
}

void Verify(const Value* value, uint64_t key) {
  if (value->key != key || value->length != LengthOf(key)) {
    bench::Fail("the value of key %lu is another object", key);
  }
  for (uint64_t i = 0; i < value->length; ++i) {
    if (value->words[i] != WordOf(key, i)) bench::Fail("the value of key %lu is damaged", key);
  }
}

// Called with the collector's lock, without which the value might go as it is revealed.
void* RevealLocked(void* entry) {
  const GC_hidden_pointer link = static_cast<Entry*>(entry)->link;
  return link == 0 ? nullptr : GC_REVEAL_POINTER(link);
}

Value* TryWeak(Entry* entry) {
  return static_cast<Value*>(GC_call_with_alloc_lock(RevealLocked, entry));
}

void** LinkOf(Entry* entry) { return reinterpret_cast<void**>(&entry->link); }

// A link that was cleared is registered no more.
void Watch(Entry* entry, const Value* value) {
  entry->link = GC_HIDE_POINTER(value);
  const int error = GC_general_register_disappearing_link(LinkOf(entry), value);
  if (error != GC_SUCCESS) bench::Fail("a link to key %lu: error %d", entry->key, error);
}

void PushNewest(List* list, Entry* entry) {
  entry->newer = nullptr;
  entry->older = list->newest;
  (list->newest == nullptr ? list->oldest : list->newest->newer) = entry;
  list->newest = entry;
  ++list->size;
}

void Unlink(List* list, Entry* entry) {
  (entry->newer == nullptr ? list->newest : entry->newer->older) = entry->older;
  (entry->older == nullptr ? list->oldest : entry->older->newer) = entry->newer;
  --list->size;
}

Entry** FindSlot(const Cache& cache, uint64_t key) {
  Entry** slot = &cache.buckets[bench::Mix64(key) & cache.mask];
  while (*slot != nullptr && (*slot)->key != key) slot = &(*slot)->chain;
  return slot;
}

Entry* Insert(Cache* cache, Entry** slot, uint64_t key) {
  auto* entry = static_cast<Entry*>(GC_malloc(sizeof(Entry)));
  entry->key = key;
  *slot = entry;
  entry->value = Compute(key);
  ++cache->computed;
  Watch(entry, entry->value);
  return entry;
}

// The link of every other key is left to the collector, which forgets it with the entry.
void Drop(Cache* cache, Entry* entry) {
  Unlink(&cache->weak, entry);
  Entry** slot = FindSlot(*cache, entry->key);
  if (*slot != entry) bench::Fail("key %lu is in a list and not in the table", entry->key);
  *slot = entry->chain;
  if (entry->key % 2 == 0) return;
  const bool registered = GC_unregister_disappearing_link(LinkOf(entry)) != 0;
  if (registered != (entry->link != 0)) {
    bench::Fail("the link of key %lu is %s", entry->key,
                registered ? "registered and cleared" : "neither registered nor cleared");
  }
}

void Shrink(Cache* cache) {
  if (cache->strong.size > cache->strong_limit) {
    Entry* entry = cache->strong.oldest;
    Unlink(&cache->strong, entry);
    entry->value = nullptr;
    PushNewest(&cache->weak, entry);
  }
  if (cache->weak.size > cache->weak_limit) Drop(cache, cache->weak.oldest);
  if (cache->strong.size > cache->strong_limit || cache->weak.size > cache->weak_limit) {
    bench::Fail("a cache has %lu and %lu entries", cache->strong.size, cache->weak.size);
  }
}

// The entry was in the list of weak ones.
void Strengthen(Cache* cache, Entry* entry) {
  Unlink(&cache->weak, entry);
  Value* value = TryWeak(entry);
  if (value != nullptr) {
    ++cache->weak_hits;
  } else {
    value = Compute(entry->key);
    ++cache->computed;
    Watch(entry, value);
  }
  entry->value = value;
}

void Get(Cache* cache, uint64_t key) {
  Entry** slot = FindSlot(*cache, key);
  Entry* entry = *slot;
  if (entry == nullptr) {
    entry = Insert(cache, slot, key);
  } else if (entry->value != nullptr) {
    ++cache->strong_hits;
    Unlink(&cache->strong, entry);
  } else {
    Strengthen(cache, entry);
  }
  PushNewest(&cache->strong, entry);
  Verify(entry->value, key);
  Shrink(cache);
}

void MakeEmpty(Cache* cache, uint64_t strong, uint64_t weak) {
  cache->strong_limit = strong;
  cache->weak_limit = weak;
  cache->mask = std::bit_ceil(strong + weak) - 1;
  cache->buckets = static_cast<Entry**>(GC_malloc((cache->mask + 1) * sizeof(Entry*)));
}

// The logarithm of the rank is spread evenly, so that a rank is as likely as it is small.
void Run(Cache* cache, uint64_t seed, uint64_t operations) {
  bench::Rng rng(seed);
  const uint64_t keys = kKeysPerEntry * cache->strong_limit;
  const double log_keys = std::log(static_cast<double>(keys));
  for (uint64_t i = 0; i < operations; ++i) {
    const auto rank = static_cast<uint64_t>(std::exp(log_keys * rng.Unit()));
    Get(cache, (rank + i / kMovesEvery) % keys);
    bench::RecordProgress();
  }
}

// Checks a list against the table, newest entry first; returns a sum of the keys in their order.
uint64_t CheckList(const Cache& cache, const List& list) {
  uint64_t count = 0;
  uint64_t sum = 0;
  const Entry* newer = nullptr;
  for (Entry* entry = list.newest; entry != nullptr; entry = entry->older) {
    if (entry->newer != newer) bench::Fail("key %lu has a wrong neighbour", entry->key);
    if (*FindSlot(cache, entry->key) != entry) bench::Fail("key %lu is lost", entry->key);
    const bool strong = &list == &cache.strong;
    if (strong != (entry->value != nullptr)) bench::Fail("key %lu is in a wrong list", entry->key);
    const Value* value = TryWeak(entry);
    if (strong && value != entry->value) bench::Fail("key %lu has a wrong link", entry->key);
    if (value != nullptr) Verify(value, entry->key);
    sum = bench::Mix64(sum ^ entry->key);
    newer = entry;
    ++count;
  }
  if (count != list.size || list.oldest != newer) {
    bench::Fail("a list has %lu entries, not %lu", count, list.size);
  }
  return sum;
}

uint64_t CheckCache(const Cache& cache) {
  uint64_t entries = 0;
  for (uint64_t b = 0; b <= cache.mask; ++b) {
    for (const Entry* entry = cache.buckets[b]; entry != nullptr; entry = entry->chain) ++entries;
  }
  if (entries != cache.strong.size + cache.weak.size) {
    bench::Fail("a table has %lu entries, its lists %lu and %lu", entries, cache.strong.size,
                cache.weak.size);
  }
  return CheckList(cache, cache.strong) + 3 * CheckList(cache, cache.weak) +
         bench::Mix64(cache.strong_hits);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t operations, megabytes, weak_percent;
  bench::RandomWork work;
  bench::Options options("lru_cache", "a cache whose older half is held by disappearing links");
  options.Number("operations", &operations, 4'000'000, 50'000, 1, UINT64_C(1) << 40,
                 "values asked for, by each thread");
  options.Number("megabytes", &megabytes, 60, 1, 1, 1 << 20,
                 "values held strongly, over all threads");
  options.Number("weak-percent", &weak_percent, 100, 100, 0, 10'000,
                 "entries held weakly, of those held strongly");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  operations = work.Scaled(operations);
  const auto threads = static_cast<uint64_t>(options.threads());
  const uint64_t strong = megabytes * 1'000'000 / kBytesPerEntry / threads;
  if (strong == 0) bench::Fail("--megabytes %lu is too little for %lu threads", megabytes, threads);

  bench::InitGc(options);
  bench::RunThreads(options.threads(),
                    [&](int t) { MakeEmpty(&g_caches[t], strong, strong * weak_percent / 100); });
  const bench::Measurement measurement = bench::RunThreads(
      options.threads(), [&](int t) { Run(&g_caches[t], work.SeedOf(t), operations); });

  uint64_t strong_hits = 0, weak_hits = 0, computed = 0, checksum = 0;
  for (uint64_t t = 0; t < threads; ++t) {
    const Cache& cache = g_caches[t];
    checksum += CheckCache(cache);
    strong_hits += cache.strong_hits;
    weak_hits += cache.weak_hits;
    computed += cache.computed;
  }
  if (strong_hits + weak_hits + computed != operations * threads) bench::Fail("wrong counts");
  bench::ResultLine result("lru_cache");
  result.Count("strong_hits", strong_hits);
  result.Count("weak_hits", weak_hits);
  result.Count("computed", computed);
  bench::PrintRun(options, measurement, static_cast<double>(operations * threads), checksum,
                  &result);
}
