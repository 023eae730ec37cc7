// How much memory is worth how much time: docs/design/policy.md, "The law".
//
// Between two collections the program allocates E bytes. A collection takes the processor time K,
// the sweep left out, and the program takes the processor time u for each byte that it allocates.
// Let M be the bytes that live and the anonymous memory that the process has outside the heap. Then
// the program needs more than without a garbage collector:
//   x = E / M                  of its memory, and
//   K / (u E) = r / x          of its time, with the cost ratio r = K / (u M), and
//   c E / T = t x              of its time, with t = c M / T: E bytes are touched for the first
//                              time, once, at c each. T is the processor time that the program has
//                              taken so far. Nobody knows how much more it will take; as much again
//                              is a good guess.
// The law makes x + w (r / x + t x) as small as possible: a part of the program's time is worth w
// times as large a part of its memory. That is so at x = sqrt(w r / (1 + w t)). libgc's
// free_space_divisor d, whose default is 3, divides x by d / 3.
//
// E is at least kMinGrowth of the bytes that live: a collection costs the program more than K,
// since its caches are cold afterwards and the free slots are scattered, less so the more of the
// heap is free. Memory outside the heap has no part in that. And E is at most kMaxGrowth M: no
// program should find that it takes more than twice its memory unless it has asked for that.
//
// Of what is allocated during a concurrent cycle, F bytes, everything stays until the next cycle is
// over. So only E - F bytes are allocated from one cycle to the next, and E = F + x M.
//
// This is the square-root rule of Kirisame, Shenoy and Panchekha, Optimal Heap Limits for Reducing
// Browser Memory Use (OOPSLA 2022), for one heap and memory counted in parts of the program's own.
//
// K, u and M are sums over the last collections, each weighing a part 1/kMemory less than the next
// one: minor and full collections, and a program's phases, are averaged.
//
// Guarded by the collector lock.
#pragma once

#include <cstdint>

namespace gleaner::gc {

class AllowanceLaw {
 public:
  // The period from the end of one collection to the end of the next.
  struct Period {
    uint64_t run_ns = 0;             // until the stop
    uint64_t run_processor_ns = 0;   // the program's processor time in run_ns, of all threads
    uint64_t stop_processor_ns = 0;  // the collecting thread's processor time in the stop
    // Processor time that the collection took in run_ns: concurrent marking, write faults.
    uint64_t concurrent_processor_ns = 0;
    uint64_t allocated_bytes = 0;  // net, in run_ns
    uint64_t footprint_bytes = 0;  // M at the end of the period
    double touch_ns_per_byte = 0;  // c
  };
  void Learn(const Period& period);

  // The cost ratio r; 0 before the first period.
  double cost_ratio() const;
  // E, for the M, the bytes that live and the F of the last collection; F before the first period.
  uint64_t Bytes(uint64_t footprint_bytes, uint64_t live_bytes, uint64_t in_cycle_bytes,
                 uint64_t free_space_divisor) const;
  // The bytes that the program allocates while each processor that it keeps busy gives it `ns`
  // nanoseconds.
  uint64_t BytesAllocatedIn(uint64_t ns) const;
  // How many processors the program keeps busy, at least 1.
  double ProcessorsBusy() const;

 private:
  static constexpr double kMemory = 8;
  static constexpr double kTimeWeight = 2;  // w
  static constexpr double kMinGrowth = 1.0 / 3;
  static constexpr double kMaxGrowth = 1;

  // Sums over the periods, the older ones weighing less.
  double run_ns_ = 0;
  double run_processor_ns_ = 0;
  double program_ns_ = 0;     // processor time of the program: of u
  double collection_ns_ = 0;  // processor time of the collections: of K
  double allocated_bytes_ = 0;
  double footprint_bytes_ = 0;

  double all_program_ns_ = 0;  // T: the sum of the program's processor time, all periods alike
  double touch_ns_per_byte_ = 0;
};

}  // namespace gleaner::gc
