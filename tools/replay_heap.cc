#include "tools/replay_heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "alloc/tree_fit.h"

namespace {

using gleaner::AlignUp;
using gleaner::kMiB;
namespace alloc = gleaner::alloc;
namespace platform = gleaner::platform;

// What malloc is in this process: the C library's, or what is preloaded.
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
    return realloc(p, std::max<size_t>(size, 1));  // 0 would free it
  }
};

// A space of units under one lock, with the block's number before its first byte, as SWAlloc has
// its metadata.
template <class Space>
class SpaceHeap : public ReplayHeap {
 public:
  template <class... Args>
  bool Init(uint64_t reserve, uint32_t blocks, Args... policy) {
    reserved_ = reserve;
    base_ = static_cast<char*>(platform::Reserve(reserve, platform::OsPageBytes()));
    return base_ != nullptr && space_.Init(policy..., blocks);
  }
  ~SpaceHeap() override {
    if (base_ != nullptr) platform::Release(base_, reserved_);
  }

  void* Allocate(size_t size, size_t alignment) override {
    const std::lock_guard guard(mutex_);
    return AllocateLocked(size, std::max(alignment, kUnit));
  }
  void* AllocateZeroed(size_t size) override {
    void* p = Allocate(size, 0);
    if (p != nullptr) memset(p, 0, size);
    return p;
  }
  void Free(void* p) override {
    const std::lock_guard guard(mutex_);
    space_.Free(BlockOf(p));
  }
  void* Resize(void* p, size_t old_size, size_t size) override {
    const std::lock_guard guard(mutex_);
    const alloc::BlockId block = BlockOf(p);
    const auto before =
        static_cast<uint64_t>(static_cast<char*>(p) - base_) / kUnit - space_.StartOf(block);
    const uint64_t units = before + UnitsFor(size);
    if (units <= space_.CountOf(block)) {
      space_.Shrink(block, units);
      return p;
    }
    if (space_.TryGrow(block, units)) return p;
    void* fresh = AllocateLocked(size, kUnit);
    if (fresh == nullptr) return nullptr;
    memcpy(fresh, p, std::min(old_size, size));
    space_.Free(block);
    return fresh;
  }
  uint64_t AddressSpace() const override { return used_; }
  uint64_t PeakAddressSpace() const override { return used_; }

 private:
  static constexpr size_t kUnit = 16;
  static constexpr uint64_t kGrowBytes = kMiB;

  static uint64_t UnitsFor(size_t size) {
    return std::max<uint64_t>(AlignUp(size, kUnit) / kUnit, 1);
  }
  static alloc::BlockId BlockOf(void* p) {
    alloc::BlockId block;
    memcpy(&block, static_cast<char*>(p) - kUnit, sizeof block);
    return block;
  }

  // The header takes as much as the alignment, so that what follows is aligned.
  void* AllocateLocked(size_t size, size_t alignment) {
    const uint64_t units = UnitsFor(size) + alignment / kUnit;
    alloc::BlockId block = space_.Allocate(units, alignment / kUnit);
    if (block == Space::kNone) {
      if (!Grow((units + alignment / kUnit) * kUnit)) return nullptr;
      block = space_.Allocate(units, alignment / kUnit);
      if (block == Space::kNone) return nullptr;
    }
    char* p = base_ + space_.StartOf(block) * kUnit + alignment;
    memcpy(p - kUnit, &block, sizeof block);
    return p;
  }
  bool Grow(uint64_t bytes) {
    bytes = AlignUp(bytes, kGrowBytes);
    if (bytes > reserved_ - used_ || !platform::Commit(base_ + used_, bytes) ||
        !space_.Extend(used_ / kUnit, bytes / kUnit)) {
      return false;
    }
    used_ += bytes;
    return true;
  }

  uint64_t reserved_ = 0;
  char* base_ = nullptr;
  // Guarded by mutex_.
  std::mutex mutex_;
  Space space_;
  uint64_t used_ = 0;  // also read for a sample, as it may be
};

template <class Space, class... Args>
std::unique_ptr<ReplayHeap> MakeSpaceHeap(uint64_t bytes, uint32_t blocks, Args... policy) {
  constexpr uint64_t kMost = uint64_t{1} << 45;
  const uint64_t reserve = std::min(kMost, AlignUp(bytes, kMiB) * 4 + 1024 * kMiB);
  auto heap = std::make_unique<SpaceHeap<Space>>();
  // Between two allocated blocks there is at most one free one.
  const uint64_t most = std::min<uint64_t>(uint64_t{blocks} * 2 + 2, UINT32_MAX - 1);
  if (!heap->Init(reserve, static_cast<uint32_t>(most), policy...)) return nullptr;
  return heap;
}

struct Row {
  const char* name;
  std::unique_ptr<ReplayHeap> (*make)(uint64_t bytes, uint32_t blocks);
};
constexpr Row kRows[] = {
    {"malloc",
     [](uint64_t, uint32_t) -> std::unique_ptr<ReplayHeap> {
       return std::make_unique<MallocHeap>();
     }},
    {"tree-fit",
     [](uint64_t bytes, uint32_t blocks) {
       return MakeSpaceHeap<alloc::TreeFit>(bytes, blocks, alloc::FitPolicy::kBinned);
     }},
    {"plain-tree",
     [](uint64_t bytes, uint32_t blocks) {
       return MakeSpaceHeap<alloc::TreeFit>(bytes, blocks, alloc::FitPolicy::kPlainTree);
     }},
};

}  // namespace

std::vector<std::string> ReplayHeapNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<ReplayHeap> MakeReplayHeap(const std::string& name, uint64_t bytes,
                                           uint32_t blocks) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.make(bytes, blocks);
  }
  return nullptr;
}
