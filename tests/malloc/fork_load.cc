// fork while other threads allocate and free: the child, of any of the threads, can do everything,
// also with what its parent allocated. usage: fork_load [--seed N] [--forks N]
#include <sys/wait.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace {

std::atomic<bool> g_stop{false};

void Churn(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<void*> blocks(500);
  while (!g_stop.load()) {
    void*& p = blocks[random() % blocks.size()];
    free(p);
    p = malloc(random() % 8 == 0 ? random() % 200'000 : random() % 1000);
    CHECK(p != nullptr);
  }
  for (void* p : blocks) free(p);
}

// Enough to go through slow paths of all kinds, in the heap the parent's threads have left.
void LiveOn(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  for (unsigned i = 0; i < 3000; ++i) {
    const size_t bytes = random() % 10 == 0 ? random() % 100'000 : random() % 2000;
    auto* p = static_cast<unsigned char*>(malloc(bytes));
    CHECK(p != nullptr);
    fill(p, bytes, i);
    blocks.emplace_back(p, bytes);
  }
  for (unsigned i = 0; i < blocks.size(); ++i) {
    CHECK(holds(blocks[i].first, blocks[i].second, i));
    free(blocks[i].first);
  }
}

}  // namespace

int main(int argc, char** argv) {
  require_gleaner();
  unsigned seed = 1, forks = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto value = static_cast<unsigned>(strtoul(argv[i + 1], nullptr, 10));
    if (strcmp(argv[i], "--seed") == 0) seed = value;
    if (strcmp(argv[i], "--forks") == 0) forks = value;
  }
  printf("seed %u\n", seed);
  fflush(stdout);
  std::vector<std::thread> churners;
  for (unsigned t = 0; t < 3; ++t) churners.emplace_back(Churn, seed * 100 + t);
  std::vector<std::thread> forkers;
  for (unsigned t = 0; t < 2; ++t) {
    forkers.emplace_back([=] {
      std::vector<unsigned char*> inherited;
      for (unsigned i = 0; i < forks; ++i) {
        const size_t bytes = 100 + i * 50;
        inherited.push_back(static_cast<unsigned char*>(malloc(bytes)));
        fill(inherited.back(), bytes, i);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
          alarm(60);  // a child that hangs on a lock is a failure
          for (unsigned j = 0; j <= i; ++j) {
            CHECK(holds(inherited[j], 100 + j * 50, j));
            free(inherited[j]);
          }
          LiveOn(seed + i);
          std::thread([=] { LiveOn(seed + i + 1); }).join();
          const pid_t grandchild = fork();
          if (grandchild == 0) {
            LiveOn(seed + i + 2);
            _exit(0);
          }
          int status = -1;
          CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
          _exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
      }
      for (unsigned i = 0; i < forks; ++i) {
        CHECK(holds(inherited[i], 100 + i * 50, i));
        free(inherited[i]);
      }
    });
  }
  for (std::thread& thread : forkers) thread.join();
  g_stop.store(true);
  for (std::thread& thread : churners) thread.join();
}
