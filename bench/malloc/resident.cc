// Experiment of SWAlloc's paper with resident blocks: N blocks of sizes uniform from 1 B to 8 MB
// stay allocated; an operation frees a random one and allocates another. One line of CSV for each
// N, from 256 to 16,384 by factors of two unless --blocks names one.
//
// Blocks are left untouched, their first byte is written, or a byte of every page; with the last,
// an N whose blocks would not fit into --memory is left out, since N blocks hold N * 4 MB on
// average. The operations are the same for every allocator, since they depend on --seed alone.
// --sizes log spreads the sizes evenly over the orders of magnitude, so that most blocks are small:
// with it, and --threshold, one sees from which size on a block should be the tree's own.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "resident_allocator.h"

using bench::Touch;

namespace {

struct Result {
  double seconds = 0;
  uint64_t faults = 0;
  uint64_t rss_kb = 0;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t only, operations, max_bytes, seed, memory_mb, repeats;
  int touch, sizes;
  bench::Options options("gleaner_bench_resident",
                         "frees and allocations among resident blocks, as CSV");
  bench::AllocatorOptions allocator(&options);
  options.Choice("touch", &touch, bench::kTouchNames, "what is written of a fresh block");
  options.Number("blocks", &only, 0, 64, 0, 1u << 20, "resident blocks; 0: 256 to 16,384");
  options.Number("operations", &operations, 1'000'000, 2000, 1, UINT64_C(1) << 40,
                 "pairs of a free and an allocation");
  options.Choice("sizes", &sizes, {"uniform", "log"}, "or uniform in their logarithm");
  options.Number("max", &max_bytes, 8u << 20, 64u << 10, 1, UINT64_C(1) << 40, "largest size");
  options.Number("memory", &memory_mb, 8192, 8192, 1, UINT64_C(1) << 30,
                 "MiB that blocks may hold when all pages are touched");
  options.Number("repeats", &repeats, 1, 1, 1, 1000, "runs; the median time is printed");
  options.Number("seed", &seed, 1, 1, 0, UINT64_MAX, "of the operations");
  options.Parse(argc, argv);

  std::puts(
      "allocator,threshold,touch,blocks,operations,ns_per_operation,page_faults_per_operation,"
      "rss_mb");
  const auto how = static_cast<Touch>(touch);
  for (uint64_t blocks = only != 0 ? only : 256; blocks <= (only != 0 ? only : 16384);
       blocks *= 2) {
    // The pool has half as much again as the blocks hold on average; with buddies, which round up
    // to powers of two, three times as much.
    const uint64_t held_bytes = blocks * (max_bytes / 2 + 1);
    if (how == Touch::kAll && held_bytes >> 20 > memory_mb) continue;
    std::vector<double> seconds;
    Result last;
    for (uint64_t repeat = 0; repeat < repeats; ++repeat) {
      gleaner_arena* arena = allocator.CreateArena(
          (allocator.is_buddy() ? held_bytes * 3 : held_bytes / 2 * 3) + (16u << 20));
      Result result;
      bench::WithAllocator(arena, [&](auto allocate, auto release) {
        bench::Rng random(seed);
        std::vector<void*> held(blocks);
        const auto fill = [&](void*& block) {
          const uint64_t bytes =
              sizes == 0 ? 1 + random.Below(max_bytes)
                         : static_cast<uint64_t>(
                               std::exp(random.Unit() * std::log(static_cast<double>(max_bytes))));
          block = allocate(bytes);
          if (block == nullptr) bench::Fail("no block of %lu bytes", bytes);
          bench::TouchBlock(block, bytes, how);
        };
        const auto replace = [&] {
          void*& block = held[random.Below(blocks)];
          release(block);
          fill(block);
        };
        for (void*& block : held) fill(block);
        // To the steady state: every block is replaced a few times.
        for (uint64_t i = 0; i < std::min(4 * blocks, operations); ++i) replace();

        const uint64_t faults = bench::PageFaults();
        const uint64_t start = bench::NowNs();
        for (uint64_t i = 0; i < operations; ++i) replace();
        result.seconds = static_cast<double>(bench::NowNs() - start) / 1e9;
        result.faults = bench::PageFaults() - faults;
        result.rss_kb = bench::StatusKb("VmRSS:");
        for (void* block : held) release(block);
      });
      if (arena != nullptr) gleaner_arena_destroy(arena);
      seconds.push_back(result.seconds);
      last = result;
    }
    const auto count = static_cast<double>(operations);
    std::printf("%s,%lu,%s,%lu,%lu,%.1f,%.3f,%.1f\n", allocator.name().c_str(),
                static_cast<unsigned long>(allocator.threshold()),
                bench::kTouchNames[static_cast<size_t>(touch)].c_str(),
                static_cast<unsigned long>(blocks), static_cast<unsigned long>(operations),
                bench::Median(seconds) * 1e9 / count, static_cast<double>(last.faults) / count,
                static_cast<double>(last.rss_kb) / 1024);
    std::fflush(stdout);
  }
}
