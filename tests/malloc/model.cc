// Random histories against a model: every block keeps its bytes, no two overlap; several threads
// that free each other's blocks. usage: model [--seed N] [--threads N] [--steps N]
#include <malloc.h>

#include <cerrno>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

namespace {

struct Block {
  unsigned char* p;
  size_t bytes;
  unsigned tag;
};

// Blocks on their way between threads.
std::mutex g_mutex;
std::vector<Block> g_shared;

class Actor {
 public:
  Actor(unsigned seed, size_t steps) : random_(seed), steps_(steps) {}

  void Run() {
    for (size_t i = 0; i < steps_; ++i) Step();
    for (const Block& block : blocks_) Release(block);
  }

 private:
  size_t Below(size_t n) { return random_() % n; }

  size_t Bytes() {
    switch (Below(20)) {
      case 0:
        return Below(3'000'000);
      case 1:
      case 2:
        return Below(40'000);
      case 3:
      case 4:
      case 5:
        return Below(9'000);
      default:
        return Below(600);
    }
  }

  // The ends of large blocks stand for the whole.
  static void Fill(const Block& b) {
    if (b.bytes <= 20'000) return fill(b.p, b.bytes, b.tag);
    fill(b.p, 10'000, b.tag);
    fill(b.p + b.bytes - 10'000, 10'000, b.tag);
  }
  static bool Holds(const Block& b) {
    if (b.bytes <= 20'000) return holds(b.p, b.bytes, b.tag);
    return holds(b.p, 10'000, b.tag) && holds(b.p + b.bytes - 10'000, 10'000, b.tag);
  }

  void Keep(void* p, size_t bytes) {
    CHECK(p != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(p) % 16 == 0 && malloc_usable_size(p) >= bytes);
    const Block block{static_cast<unsigned char*>(p), bytes, static_cast<unsigned>(random_())};
    Fill(block);
    blocks_.push_back(block);
  }
  static void Release(const Block& block) {
    CHECK(Holds(block));
    free(block.p);
  }
  Block TakeAny() {
    const size_t i = Below(blocks_.size());
    const Block block = blocks_[i];
    blocks_[i] = blocks_.back();
    blocks_.pop_back();
    return block;
  }

  void Step() {
    const size_t bytes = Bytes();
    if (blocks_.size() < 20 || (blocks_.size() < limit_ && Below(2) == 0)) {
      switch (Below(4)) {
        case 0: {
          void* p = calloc(1, bytes);
          CHECK(p != nullptr && is_zero(p, bytes));
          return Keep(p, bytes);
        }
        case 1: {
          const size_t alignment = size_t{16} << Below(12);
          void* p = nullptr;
          CHECK(posix_memalign(&p, alignment, bytes) == 0);
          CHECK(reinterpret_cast<uintptr_t>(p) % alignment == 0);
          return Keep(p, bytes);
        }
        default:
          return Keep(malloc(bytes), bytes);
      }
    }
    const Block block = TakeAny();
    switch (Below(8)) {
      case 0:
      case 1: {
        CHECK(Holds(block));
        auto* p = static_cast<unsigned char*>(realloc(block.p, bytes + 1));
        CHECK(p != nullptr);
        if (block.bytes <= 20'000) {
          CHECK(holds(p, block.bytes < bytes ? block.bytes : bytes, block.tag));
        }
        return Keep(p, bytes + 1);
      }
      case 2: {
        const std::lock_guard guard(g_mutex);
        g_shared.push_back(block);
        if (g_shared.size() < 100) return;
        std::swap(g_shared[Below(g_shared.size())], g_shared.back());
        const Block other = g_shared.back();
        g_shared.pop_back();
        return Release(other);
      }
      case 3:
        limit_ = 50 + Below(5000);  // the heap grows and shrinks
        [[fallthrough]];
      default:
        Release(block);
        // Shrinking goes faster than growing.
        for (int i = 0; i < 3 && blocks_.size() > limit_; ++i) Release(TakeAny());
    }
  }

  std::mt19937 random_;
  size_t steps_;
  size_t limit_ = 2000;
  std::vector<Block> blocks_;
};

}  // namespace

int main(int argc, char** argv) {
  require_gleaner();
  unsigned long seed = 1, threads = 4, steps = 60'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const unsigned long value = strtoul(argv[i + 1], nullptr, 10);
    if (strcmp(argv[i], "--seed") == 0) seed = value;
    if (strcmp(argv[i], "--threads") == 0) threads = value;
    if (strcmp(argv[i], "--steps") == 0) steps = value;
  }
  printf("seed %lu\n", seed);
  fflush(stdout);
  std::vector<std::thread> actors;
  for (unsigned long t = 0; t < threads; ++t) {
    actors.emplace_back([=] { Actor(static_cast<unsigned>(seed * 1000 + t), steps).Run(); });
  }
  for (std::thread& actor : actors) actor.join();
  for (const Block& block : g_shared) free(block.p);
}
