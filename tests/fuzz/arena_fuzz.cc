// libFuzzer: operations on an arena, read from the input, against a model.
//
// The first bytes choose policy, granularity, threshold, memory and residency; each operation then
// takes an opcode and its operands. After each, what the arena answers is compared with a list of
// the blocks in use; contents of blocks are checked when they are freed; now and then, and at the
// end, the arena checks itself. Without input left a run ends, so every input is a valid one.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "alloc/arenas/arena.h"

namespace gleaner::alloc {
namespace {

class Input {
 public:
  Input(const uint8_t* data, size_t bytes) : data_(data), end_(data + bytes) {}
  bool empty() const { return data_ == end_; }
  uint8_t Byte() { return empty() ? 0 : *data_++; }
  uint64_t Word(int bytes) {
    uint64_t word = 0;
    for (int i = 0; i < bytes; ++i) word = word << 8 | Byte();
    return word;
  }
  // Any size: mostly those of some order of magnitude, sometimes hostile ones.
  size_t Size() {
    const uint8_t kind = Byte();
    if (kind >= 250) return SIZE_MAX - Word(2);
    const unsigned bits = kind % 24;
    return (size_t{1} << bits) + (Word(3) & ((size_t{1} << bits) - 1));
  }

 private:
  const uint8_t* data_;
  const uint8_t* const end_;
};

#define EXPECT(condition) \
  GLEANER_CHECK(condition, "the arena disagrees with the model at operation %zu", step)

class Run {
 public:
  explicit Run(Input input) : in_(input) {}
  ~Run() {
    if (arena_ != nullptr) arena_->Destroy();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Do() {
    ArenaConfig config;
    const uint8_t choice = in_.Byte();
    config.policy = static_cast<ArenaPolicy>(choice & 3);
    own_ = (choice & 4) != 0;
    config.thread_safe = (choice & 8) != 0;
    config.huge_pages = (choice & 16) != 0;
    config.unit_bytes = size_t{16} << in_.Byte() % 9;
    config.small_bytes = (choice & 32) != 0 ? size_t{1} << in_.Byte() % 19 : 0;
    config.resident_bytes = in_.Byte() % 8 * kMiB;
    config.decay_ns = in_.Byte() % 2;
    const size_t bytes = 1 + in_.Word(3) % (8 * kMiB);
    if (own_) {
      arena_ = Arena::Create(bytes, config);
    } else {
      memory_.assign(bytes + 3 * config.unit_bytes, 0xa5);
      arena_ = Arena::CreateOn(AddressOf(memory_.data()) + in_.Byte() % 16,
                               bytes + 2 * config.unit_bytes, config);
    }
    if (arena_ == nullptr) return;
    unit_ = config.unit_bytes;
    begin_ = arena_->begin();
    end_ = begin_ + arena_->GetStats().pool_bytes;
    for (step = 0; !in_.empty(); ++step) {
      Operation();
      if (step % 256 == 0) arena_->CheckForTesting();
    }
    arena_->CheckForTesting();
    const Arena::Stats stats = arena_->GetStats();
    EXPECT(stats.used_blocks == blocks_.size() && stats.bad_frees == bad_frees_);
    while (!blocks_.empty()) FreeBlock(blocks_.begin());
    arena_->Trim();
    EXPECT(arena_->GetStats().used_bytes == 0);
    if (config.policy != ArenaPolicy::kBuddy) {
      EXPECT(arena_->GetStats().largest_free == end_ - begin_);
    }
    arena_->CheckForTesting();
  }

 private:
  struct Block {
    size_t bytes;
    uint8_t pattern;
  };
  using Blocks = std::map<Addr, Block>;

  // Both ends of a block hold its pattern.
  static constexpr size_t kMarked = 64;
  static void Mark(Addr a, const Block& block) {
    const size_t n = block.bytes < kMarked ? block.bytes : kMarked;
    memset(PointerAt<void>(a), block.pattern, n);
    memset(PointerAt<void>(a + block.bytes - n), block.pattern, n);
  }
  static bool IsMarked(Addr a, const Block& block) {
    const size_t n = block.bytes < kMarked ? block.bytes : kMarked;
    for (size_t i = 0; i < n; ++i) {
      if (*PointerAt<uint8_t>(a + i) != block.pattern ||
          *PointerAt<uint8_t>(a + block.bytes - 1 - i) != block.pattern) {
        return false;
      }
    }
    return true;
  }

  void FreeBlock(Blocks::iterator block) {
    EXPECT(arena_->BlockBytes(block->first) == block->second.bytes);
    EXPECT(IsMarked(block->first, block->second));
    EXPECT(arena_->Free(block->first) == Arena::FreeResult::kFreed);
    EXPECT(arena_->BlockBytes(block->first) == 0);
    last_freed_ = block->first;
    blocks_.erase(block);
  }

  void Operation() {
    const uint8_t opcode = in_.Byte();
    if (opcode < 120) {
      AllocateBlock((opcode & 1) != 0);
    } else if (opcode < 220) {
      if (blocks_.empty()) return;
      auto block = blocks_.lower_bound(begin_ + in_.Word(3) % (end_ - begin_));
      FreeBlock(block != blocks_.end() ? block : blocks_.begin());
    } else if (opcode < 230) {
      BadFree(last_freed_);
    } else if (opcode < 245) {
      BadFree(begin_ + in_.Word(3) % (end_ - begin_ + kMiB) - kMiB / 2);
    } else if (opcode < 248) {
      arena_->Trim();
      EXPECT(arena_->GetStats().idle_bytes == 0);
    } else {
      const Arena::Stats stats = arena_->GetStats();
      EXPECT(stats.largest_free <= end_ - begin_ - stats.used_bytes);
      EXPECT(stats.used_blocks == blocks_.size());
    }
  }

  void AllocateBlock(bool zeroed) {
    const size_t bytes = in_.Size();
    const size_t alignment = size_t{1} << in_.Byte() % 64 / 2;
    const Addr a = AddressOf(arena_->Allocate(bytes, alignment, zeroed));
    if (a == 0) {
      // Never refused to an arena that has it in one piece, however it lies.
      const uint64_t largest = arena_->GetStats().largest_free;
      EXPECT(bytes > end_ - begin_ || alignment > largest ||
             std::bit_ceil(AlignUp(bytes | 1, unit_)) + alignment > largest);
      return;
    }
    const size_t usable = arena_->BlockBytes(a);
    EXPECT(a % alignment == 0 && a % unit_ == 0);
    EXPECT(usable >= bytes && usable > 0 && a >= begin_ && a + usable <= end_);
    const auto next = blocks_.lower_bound(a);
    EXPECT(next == blocks_.end() || a + usable <= next->first);
    EXPECT(next == blocks_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= a);
    if (zeroed) {
      EXPECT(*PointerAt<uint8_t>(a) == 0 &&
             (usable == 1 || memcmp(PointerAt<void>(a), PointerAt<void>(a + 1), usable - 1) == 0));
    }
    const Block block{usable, static_cast<uint8_t>(1 + in_.Byte() % 255)};
    Mark(a, block);
    blocks_[a] = block;
  }

  void BadFree(Addr a) {
    if (blocks_.contains(a)) return;
    EXPECT(arena_->Free(a) != Arena::FreeResult::kFreed);
    ++bad_frees_;
  }

  Input in_;
  std::vector<uint8_t> memory_;
  Arena* arena_ = nullptr;
  bool own_ = false;
  size_t unit_ = 0;
  Addr begin_ = 0, end_ = 0, last_freed_ = 0;
  Blocks blocks_;
  uint64_t bad_frees_ = 0;
  size_t step = 0;
};

}  // namespace
}  // namespace gleaner::alloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gleaner::alloc::Run(gleaner::alloc::Input(data, bytes)).Do();
  return 0;
}
