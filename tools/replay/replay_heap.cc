#include "tools/replay/replay_heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gleaner.h"
#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace {

using gleaner::AlignUp;
using gleaner::kMiB;

// This process's malloc: the C library's, or a preloaded one.
class MallocHeap : public ReplayHeap {
 public:
  void* Allocate(size_t size, size_t alignment) override {
    if (alignment == 0) return malloc(size);
    void* p = nullptr;
    return posix_memalign(&p, std::max(alignment, sizeof(void*)), size) == 0 ? p : nullptr;
  }
  void* AllocateZeroed(size_t size) override { return calloc(1, size); }
  void Free(void* p) override { free(p); }
  void* Resize(void* p, size_t, size_t size) override {
    return realloc(p, std::max<size_t>(size, 1));  // size 0 would free the block
  }
};

// An arena with memory of its own.
class ArenaHeap : public ReplayHeap {
 public:
  bool Init(uint64_t bytes, const gleaner_arena_options& options) {
    arena_ = gleaner_arena_create(bytes, &options);
    return arena_ != nullptr;
  }
  ~ArenaHeap() override {
    if (arena_ != nullptr) gleaner_arena_destroy(arena_);
  }

  void* Allocate(size_t size, size_t alignment) override {
    return Record(gleaner_arena_allocate(arena_, size, std::max(alignment, kMallocAlignment)),
                  size);
  }
  void* AllocateZeroed(size_t size) override {
    return Record(gleaner_arena_allocate_zeroed(arena_, size, kMallocAlignment), size);
  }
  void Free(void* p) override { gleaner_arena_free(arena_, p); }
  // Arenas do not resize. The block stays in place if it is large enough and at least half of it
  // would be used; else it is copied.
  void* Resize(void* p, size_t old_size, size_t size) override {
    const size_t usable = gleaner_arena_usable_size(arena_, p);
    if (size <= usable && size >= usable / 2) return p;
    void* fresh = Allocate(size, 0);
    if (fresh == nullptr) return nullptr;
    memcpy(fresh, p, std::min(old_size, size));
    gleaner_arena_free(arena_, p);
    return fresh;
  }
  uint64_t AddressSpace() const override {
    // Relaxed: figures; Record may be changing them.
    const uint64_t low = lowest_.Load(kRelaxed), high = highest_.Load(kRelaxed);
    return high > low ? high - low : 0;
  }
  uint64_t PeakAddressSpace() const override { return AddressSpace(); }

 private:
  static constexpr size_t kMallocAlignment = 16;
  static constexpr auto kRelaxed = gleaner::platform::memory_order_relaxed;

  // Extends the range of addresses that blocks have been in. Relaxed: two figures that nothing else
  // depends on.
  void* Record(void* p, size_t size) {
    if (p == nullptr) return nullptr;
    const uint64_t begin = gleaner::AddressOf(p);
    for (uint64_t low = lowest_.Load(kRelaxed);
         begin < low && !lowest_.CompareExchange(low, begin, kRelaxed);) {
    }
    // Relaxed: a figure that nothing else depends on.
    for (uint64_t high = highest_.Load(kRelaxed);
         begin + size > high && !highest_.CompareExchange(high, begin + size, kRelaxed);) {
    }
    return p;
  }

  gleaner_arena* arena_ = nullptr;
  gleaner::platform::Atomic<uint64_t> lowest_{UINT64_MAX};
  gleaner::platform::Atomic<uint64_t> highest_{0};
};

struct Row {
  const char* name;
  int policy;        // policy of the arena; kNoArena for malloc
  size_t threshold;  // blocks up to this size are in slabs
};
constexpr int kNoArena = -1;
constexpr size_t kSlabs = 131072;
constexpr Row kRows[] = {
    {"malloc", kNoArena, 0},
    {"arena", GLEANER_ARENA_BINNED, kSlabs},
    {"tree-fit", GLEANER_ARENA_BINNED, 0},
    {"plain-tree", GLEANER_ARENA_TREE, 0},
    {"first-fit", GLEANER_ARENA_FIRST_FIT, 0},
    {"buddy", GLEANER_ARENA_BUDDY, 0},
};

}  // namespace

std::vector<std::string> ReplayHeapNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<ReplayHeap> MakeReplayHeap(const std::string& name, uint64_t bytes) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& each) { return name == each.name; });
  if (row == std::end(kRows)) return nullptr;
  if (row->policy == kNoArena) return std::make_unique<MallocHeap>();
  gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  options.policy = row->policy;
  options.flags = GLEANER_ARENA_THREAD_SAFE;
  options.granularity = 16;
  options.threshold = row->threshold;
  // Room for fragmentation; it costs address space only.
  constexpr uint64_t kMax = uint64_t{1} << 44;
  const uint64_t pool = std::min(kMax, AlignUp(std::min(bytes, kMax), kMiB) * 4 + 1024 * kMiB);
  auto heap = std::make_unique<ArenaHeap>();
  if (!heap->Init(pool, options)) return nullptr;
  return heap;
}
