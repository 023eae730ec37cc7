// malloc and free by themselves, on whatever allocator is preloaded: ns for a pair, each thread's.
//
//   pair     malloc(size), free at once
//   mixed    the same, sizes geometrically spread over [16, size]
//   batch    `depth` blocks, then all freed, the last or the first first (--order)
//   random   a table of `depth` blocks; each step replaces one picked at random
//   handoff  half of the threads allocate, the others free what they get through a ring
//
// A pair is one allocation and one free; in `handoff` they are on different threads.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench_util.h"

namespace {

enum Shape { kPair, kMixed, kBatch, kRandom, kHandoff };
enum Order { kLastFirst, kFirstFirst };

struct Work {
  Shape shape;
  Order order;
  uint64_t size;
  uint64_t depth;
  uint64_t pairs;
};

// The optimiser must not see that the block goes nowhere, and the first word is written, as any
// program does.
inline void* Get(uint64_t bytes) {
  void* p = malloc(bytes);
  if (p == nullptr) bench::Fail("malloc(%lu) failed", bytes);
  *static_cast<volatile char*>(p) = 1;
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

std::vector<uint32_t> MixedSizes(uint64_t largest, uint64_t seed) {
  bench::Rng rng(seed);
  std::vector<uint32_t> sizes(4096);
  for (uint32_t& size : sizes) {
    uint64_t bytes = 16;
    while (bytes < largest && rng.Below(4) != 0) bytes += bytes / 4 + 4;
    size = static_cast<uint32_t>(bytes < largest ? bytes : largest);
  }
  return sizes;
}

void RunPairs(const Work& work) {
  for (uint64_t i = 0; i < work.pairs; ++i) free(Get(work.size));
}

void RunMixed(const Work& work, uint64_t seed) {
  const std::vector<uint32_t> sizes = MixedSizes(work.size, seed);
  for (uint64_t i = 0; i < work.pairs; ++i) free(Get(sizes[i % sizes.size()]));
}

void RunBatches(const Work& work) {
  std::vector<void*> blocks(work.depth);
  for (uint64_t done = 0; done < work.pairs; done += work.depth) {
    for (void*& p : blocks) p = Get(work.size);
    if (work.order == kLastFirst) {
      for (size_t i = blocks.size(); i-- != 0;) free(blocks[i]);
    } else {
      for (void* p : blocks) free(p);
    }
  }
}

void RunRandom(const Work& work, uint64_t seed) {
  bench::Rng rng(seed);
  const std::vector<uint32_t> sizes = MixedSizes(work.size, seed);
  std::vector<void*> blocks(work.depth);
  for (void*& p : blocks) p = Get(sizes[rng.Below(sizes.size())]);
  for (uint64_t i = 0; i < work.pairs; ++i) {
    void*& p = blocks[rng.Below(blocks.size())];
    free(p);
    p = Get(sizes[i % sizes.size()]);
  }
  for (void* p : blocks) free(p);
}

// One producer, one consumer.
struct Ring {
  static constexpr size_t kSlots = 1024;
  alignas(64) std::atomic<uint64_t> put{0};
  alignas(64) std::atomic<uint64_t> got{0};
  void* slots[kSlots];
};

void Produce(const Work& work, Ring* ring) {
  for (uint64_t i = 0; i < work.pairs; ++i) {
    void* p = Get(work.size);
    while (i - ring->got.load(std::memory_order_acquire) == Ring::kSlots) std::this_thread::yield();
    ring->slots[i % Ring::kSlots] = p;
    ring->put.store(i + 1, std::memory_order_release);
  }
}

void Consume(const Work& work, Ring* ring) {
  for (uint64_t i = 0; i < work.pairs; ++i) {
    while (ring->put.load(std::memory_order_acquire) == i) std::this_thread::yield();
    free(ring->slots[i % Ring::kSlots]);
    ring->got.store(i + 1, std::memory_order_release);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Work work{};
  int shape = 0, order = 0;
  bench::Options options("malloc_pairs", "malloc and free in loops, with any allocator");
  options.Choice("shape", &shape, {"pair", "mixed", "batch", "random", "handoff"}, "what is done");
  options.Choice("order", &order, {"last", "first"}, "batch: which block is freed first");
  options.Number("size", &work.size, 64, 64, 1, UINT64_C(1) << 30, "bytes, or the largest");
  options.Number("depth", &work.depth, 1000, 100, 1, UINT64_C(1) << 24, "blocks at once");
  options.Number("pairs", &work.pairs, 50'000'000, 100'000, 1, UINT64_C(1) << 40, "per thread");
  options.Parse(argc, argv);
  work.shape = static_cast<Shape>(shape);
  work.order = static_cast<Order>(order);
  const int threads = options.threads();
  if (work.shape == kHandoff && threads % 2 != 0) bench::Fail("handoff needs pairs of threads");

  std::vector<Ring> rings(static_cast<size_t>(threads + 1) / 2);
  std::atomic<int> waiting{threads};
  std::vector<uint64_t> spent(static_cast<size_t>(threads));
  const auto run = [&](int t) {
    waiting.fetch_sub(1);
    while (waiting.load() != 0) std::this_thread::yield();
    const uint64_t begin = bench::NowNs();
    Ring* ring = &rings[static_cast<size_t>(t) / 2];
    const auto seed = static_cast<uint64_t>(t) + 1;
    switch (work.shape) {
      case kPair:
        RunPairs(work);
        break;
      case kMixed:
        RunMixed(work, seed);
        break;
      case kBatch:
        RunBatches(work);
        break;
      case kRandom:
        RunRandom(work, seed);
        break;
      case kHandoff:
        t % 2 == 0 ? Produce(work, ring) : Consume(work, ring);
        break;
    }
    spent[static_cast<size_t>(t)] = bench::NowNs() - begin;
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  for (std::thread& thread : others) thread.join();

  double sum = 0;
  for (const uint64_t ns : spent) sum += static_cast<double>(ns);
  bench::ResultLine result("malloc_pairs");
  result.Count("threads", static_cast<uint64_t>(threads));
  result.Real("ns_per_pair", sum / threads / static_cast<double>(work.pairs));
  result.Print();
}
