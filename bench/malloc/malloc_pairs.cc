// malloc and free by themselves, on whatever allocator is preloaded: ns for a block that is freed
// at once, each thread's.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench_util.h"

namespace {

// The optimiser must not see that the block goes nowhere, and the first word is written, as any
// program does.
inline void* Get(uint64_t bytes) {
  void* p = malloc(bytes);
  if (p == nullptr) bench::Fail("malloc(%lu) failed", bytes);
  *static_cast<volatile char*>(p) = 1;
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t size, pairs;
  bench::Options options("malloc_pairs", "malloc and free in a loop, with any allocator");
  options.Number("size", &size, 64, 64, 1, UINT64_C(1) << 30, "bytes of a block");
  options.Number("pairs", &pairs, 50'000'000, 100'000, 1, UINT64_C(1) << 40, "per thread");
  options.Parse(argc, argv);
  const int threads = options.threads();

  std::atomic<int> waiting{threads};
  std::vector<uint64_t> spent(static_cast<size_t>(threads));
  const auto run = [&](int t) {
    waiting.fetch_sub(1);
    while (waiting.load() != 0) std::this_thread::yield();
    const uint64_t begin = bench::NowNs();
    for (uint64_t i = 0; i < pairs; ++i) free(Get(size));
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
  result.Real("ns_per_pair", sum / threads / static_cast<double>(pairs));
  result.Print();
}
