// Random histories against a model: every block keeps its bytes, no two overlap; several threads
// that free each other's blocks; sizes that cannot be; wrong frees, in child processes.
// usage: model [--seed N] [--threads N] [--steps N] [--seconds N: with one seed after the other]
#include <malloc.h>
#include <sys/wait.h>

#include <cerrno>
#include <ctime>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
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

  // Of the calls that take one.
  void* Aligned(size_t alignment, size_t bytes) {
    void* p = nullptr;
    switch (Below(4)) {
      case 0:
        CHECK(posix_memalign(&p, alignment, bytes) == 0);
        break;
      case 1:
        p = memalign(alignment, bytes);
        break;
      case 2:
        p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        break;
      default:
        p = alignment > 4096 ? memalign(alignment, bytes)
            : Below(2)       ? valloc(bytes)
                             : pvalloc(bytes);
    }
    CHECK(reinterpret_cast<uintptr_t>(p) % alignment == 0);
    return p;
  }

  // What there is no memory for is refused, and the block stays what it was.
  void Impossible() {
    volatile size_t bytes = Below(2) ? SIZE_MAX - Below(20'000) : SIZE_MAX / 2 + 1 + Below(20'000);
    volatile size_t half = SIZE_MAX / 2 - Below(1000);
    errno = 0;
    switch (Below(7)) {
      case 0:
        CHECK(malloc(bytes) == nullptr);
        break;
      case 1:
        CHECK(calloc(half, 3) == nullptr);
        break;
      case 2:
        CHECK(memalign(size_t{1} << Below(20), bytes) == nullptr);
        break;
      case 3:
        CHECK(pvalloc(bytes) == nullptr);
        break;
      default: {
        if (blocks_.empty()) return;
        const Block& block = blocks_[Below(blocks_.size())];
        CHECK((Below(2) ? realloc(block.p, bytes) : reallocarray(block.p, half, 5)) == nullptr);
        CHECK(Holds(block));
      }
    }
    CHECK(errno == ENOMEM);
    void* untouched = this;
    CHECK(posix_memalign(&untouched, 24, 100) == EINVAL);
    CHECK(posix_memalign(&untouched, 64, bytes) == ENOMEM);
    CHECK(untouched == this);
    free(nullptr);
  }

  // In a process of its own. Where the next call tells, it ends there.
  void WrongFree() {
    const size_t dice = Below(4), bytes = Bytes() + 32;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(60);
      close(2);
      auto* p = static_cast<char*>(malloc(bytes));
      volatile size_t offset = dice == 0 ? 0 : dice == 1 ? 8 : 1;
      free(p + offset);
      free(p + offset);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  }

  void Step() {
    const size_t dice = Below(20'000);
    if (dice == 0) return WrongFree();
    if (dice < 100) return Impossible();
    if (dice == 100) return static_cast<void>(malloc_trim(0));
    const size_t bytes = Bytes();
    if (blocks_.size() < 20 || (blocks_.size() < limit_ && Below(2) == 0)) {
      switch (Below(4)) {
        case 0: {
          void* p = calloc(1, bytes);
          CHECK(p != nullptr && is_zero(p, bytes));
          return Keep(p, bytes);
        }
        case 1:
          return Keep(Aligned(size_t{16} << Below(12), bytes), bytes);
        case 2: {  // all that it has may be used
          void* p = Below(2) ? malloc(bytes) : reallocarray(nullptr, bytes / 3 + 1, 3);
          return Keep(p, malloc_usable_size(p));
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
  unsigned long seed = 1, threads = 4, steps = 60'000, seconds = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const unsigned long value = strtoul(argv[i + 1], nullptr, 10);
    if (strcmp(argv[i], "--seed") == 0) seed = value;
    if (strcmp(argv[i], "--threads") == 0) threads = value;
    if (strcmp(argv[i], "--steps") == 0) steps = value;
    if (strcmp(argv[i], "--seconds") == 0) seconds = value;
  }
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  do {
    printf("seed %lu\n", seed);
    fflush(stdout);
    std::vector<std::thread> actors;
    for (unsigned long t = 0; t < threads; ++t) {
      actors.emplace_back([=] { Actor(static_cast<unsigned>(seed * 1000 + t), steps).Run(); });
    }
    for (std::thread& actor : actors) actor.join();
    for (const Block& block : g_shared) free(block.p);
    g_shared.clear();
    ++seed;
  } while (time(nullptr) < end);
}
