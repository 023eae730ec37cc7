// Experiment of SWAlloc's paper over sizes: for each power of two from 4 B to 128 MB, 64 blocks are
// allocated and then freed, over and over; the program prints a line of CSV for each size. A round
// before the measured ones is not counted.
//
// Thread-safe malloc against an arena for one thread: the arena takes no lock.
#include <cstdio>
#include <vector>

#include "resident_allocator.h"

using bench::Touch;

int main(int argc, char** argv) {
  uint64_t blocks, ms, repeats, max_bytes;
  int touch;
  bench::Options options("gleaner_bench_sizes", "64 allocations and frees of each size, as CSV");
  bench::AllocatorOptions allocator(&options);
  options.Choice("touch", &touch, bench::kTouchNames, "what is written of a fresh block");
  options.Number("blocks", &blocks, 64, 8, 1, 4096, "blocks of a round");
  options.Number("max", &max_bytes, 128u << 20, 4u << 20, 4, UINT64_C(1) << 32, "largest size");
  options.Number("ms", &ms, 50, 1, 1, 60000, "least time of a measurement, in milliseconds");
  options.Number("repeats", &repeats, 5, 1, 1, 1000, "measurements; the median is printed");
  options.Parse(argc, argv);

  gleaner_arena* arena = allocator.CreateArena(blocks * max_bytes * 5 / 4 + (64u << 20));
  std::puts("allocator,threshold,touch,bytes,ns_per_pair,page_faults_per_pair");
  for (uint64_t bytes = 4; bytes <= max_bytes; bytes *= 2) {
    std::vector<double> pair_ns;
    uint64_t pairs = 0, faults = 0;
    bench::WithAllocator(arena, [&](auto allocate, auto release) {
      std::vector<void*> held(blocks);
      const auto allocate_all = [&] {
        for (void*& block : held) {
          block = allocate(bytes);
          if (block == nullptr) bench::Fail("no block of %lu bytes", bytes);
          bench::TouchBlock(block, bytes, static_cast<Touch>(touch));
        }
      };
      const auto free_all = [&] {
        for (void* block : held) release(block);
      };
      allocate_all();
      free_all();
      const uint64_t faults_before = bench::PageFaults();
      // Rounds between two looks at the clock, grown until they take a tenth of the time.
      uint64_t rounds_per_look = 1;
      for (uint64_t i = 0; i < repeats; ++i) {
        uint64_t spent = 0, rounds = 0;
        while (spent < ms * 1000000) {
          const uint64_t start = bench::NowNs();
          for (uint64_t round = 0; round < rounds_per_look; ++round) {
            allocate_all();
            free_all();
          }
          const uint64_t took = bench::NowNs() - start;
          spent += took;
          rounds += rounds_per_look;
          if (took < ms * 100000) rounds_per_look *= 2;
        }
        pair_ns.push_back(static_cast<double>(spent) / static_cast<double>(rounds * blocks));
        pairs += rounds * blocks;
      }
      faults = bench::PageFaults() - faults_before;
    });
    std::printf("%s,%lu,%s,%lu,%.2f,%.4f\n", allocator.name().c_str(),
                static_cast<unsigned long>(allocator.threshold()),
                bench::kTouchNames[static_cast<size_t>(touch)].c_str(),
                static_cast<unsigned long>(bytes), bench::Median(pair_ns),
                static_cast<double>(faults) / static_cast<double>(pairs));
    std::fflush(stdout);
  }
  if (arena != nullptr) gleaner_arena_destroy(arena);
}
