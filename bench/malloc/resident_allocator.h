// The allocators that the experiments of SWAlloc's paper are run with: malloc, whichever library it
// is, and arenas of every policy.
#ifndef GLEANER_BENCH_RESIDENT_ALLOCATOR_H_
#define GLEANER_BENCH_RESIDENT_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_util.h"
#include "gleaner.h"

namespace bench {

// Declares --allocator and what goes with it: --granularity, --threshold, --huge-pages.
class AllocatorOptions {
 public:
  explicit AllocatorOptions(Options* options);

  // As on the command line.
  const std::string& name() const { return kNames[static_cast<size_t>(choice_)]; }
  bool is_malloc() const { return choice_ == 0; }
  bool is_buddy() const { return name() == "arena-buddy"; }
  uint64_t threshold() const { return is_malloc() ? 0 : threshold_; }

  // An arena as asked for; null for malloc. Ends the program if it cannot be had.
  gleaner_arena* CreateArena(uint64_t bytes) const;

 private:
  static const std::vector<std::string> kNames;

  int choice_ = 0;
  uint64_t granularity_ = 0, threshold_ = 0;
  bool huge_pages_ = false;
};

// Runs body(allocate, release) with the calls of the arena, or of malloc if it is null; bound at
// compile time, so that the loop around them is the same for all.
template <class Body>
void WithAllocator(gleaner_arena* arena, Body body);

// Touches a block as an experiment asks: not at all, its first byte, or a byte of every OS page.
enum class Touch { kNone, kFirst, kAll };
inline const std::vector<std::string> kTouchNames = {"none", "first", "all"};
inline void TouchBlock(void* block, size_t bytes, Touch touch) {
  auto* p = static_cast<volatile char*>(block);
  if (touch == Touch::kNone) return;
  p[0] = 1;
  if (touch == Touch::kFirst) return;
  for (size_t at = 4096; at < bytes; at += 4096) p[at] = 1;
}

// Minor page faults of this process so far.
uint64_t PageFaults();

}  // namespace bench

#include <cstdlib>

namespace bench {

template <class Body>
void WithAllocator(gleaner_arena* arena, Body body) {
  if (arena != nullptr) {
    body([arena](size_t bytes) { return gleaner_arena_allocate(arena, bytes, 0); },
         [arena](void* p) {
           if (gleaner_arena_free(arena, p) != 0) Fail("a free failed");
         });
  } else {
    // Through the barrier, so that the compiler does not drop the pair.
    body(
        [](size_t bytes) {
          void* p = std::malloc(bytes);
          asm volatile("" : "+r"(p) : : "memory");
          return p;
        },
        [](void* p) { std::free(p); });
  }
}

}  // namespace bench

#endif  // GLEANER_BENCH_RESIDENT_ALLOCATOR_H_
