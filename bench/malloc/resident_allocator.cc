#include "resident_allocator.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace bench {

const std::vector<std::string> AllocatorOptions::kNames = {"malloc", "arena-binned", "arena-tree",
                                                           "arena-first-fit", "arena-buddy"};

AllocatorOptions::AllocatorOptions(Options* options) {
  options->Choice("allocator", &choice_, kNames, "malloc is that of the process (LD_PRELOAD)");
  options->Number("granularity", &granularity_, 256, 256, 16, 4096, "of arenas, in bytes");
  options->Number("threshold", &threshold_, 131072, 131072, 0, 262144,
                  "of arenas: up to so many bytes come from slabs; 0 is one tier");
  options->Flag("huge-pages", &huge_pages_, "advise huge pages for arenas");
}

gleaner_arena* AllocatorOptions::CreateArena(uint64_t bytes) const {
  if (is_malloc()) return nullptr;
  gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  options.policy = choice_ - 1;
  options.granularity = granularity_;
  options.threshold = threshold_;
  if (huge_pages_) options.flags |= GLEANER_ARENA_HUGE_PAGES;
  gleaner_arena* arena = gleaner_arena_create(bytes, &options);
  if (arena == nullptr) {
    Fail("no arena of %lu bytes: %s", static_cast<unsigned long>(bytes), std::strerror(errno));
  }
  return arena;
}

uint64_t PageFaults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_minflt);
}

}  // namespace bench
