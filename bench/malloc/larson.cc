// Larson and Krishnan's server simulation: each thread replaces random blocks of its own array by
// new ones of random size, and after a while hands the array to a thread that it starts, and ends.
// So most blocks are freed by another thread than the one that allocated them.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench_util.h"

namespace {

struct Settings {
  uint64_t seconds, slots, min_bytes, max_bytes, rounds;
};
Settings g_settings;
std::atomic<bool> g_stop{false};
std::atomic<uint64_t> g_operations{0};
std::atomic<uint64_t> g_threads_begun{0};
std::atomic<int> g_running{0};

void* Fresh(bench::Rng* random) {
  const uint64_t range = g_settings.max_bytes - g_settings.min_bytes + 1;
  auto* p = static_cast<char*>(std::malloc(g_settings.min_bytes + random->Below(range)));
  if (p == nullptr) bench::Fail("no memory");
  *p = 1;
  return p;
}

void Serve(std::vector<void*>* blocks, uint64_t seed) {
  bench::Rng random(seed);
  ++g_threads_begun;
  uint64_t done = 0;
  while (done < g_settings.rounds && !g_stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 64; ++i) {
      void*& block = (*blocks)[random.Below(blocks->size())];
      std::free(block);
      block = Fresh(&random);
    }
    done += 64;
  }
  g_operations += done;
  if (g_stop) {
    for (void* block : *blocks) std::free(block);
    delete blocks;
    --g_running;
    return;
  }
  std::thread(Serve, blocks, seed + 1).detach();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options("larson", "blocks that outlive the threads that allocated them");
  options.Number("seconds", &g_settings.seconds, 2, 1, 1, 1000, "how long");
  options.Number("slots", &g_settings.slots, 5000, 500, 1, 1 << 24, "blocks of each thread");
  options.Number("min", &g_settings.min_bytes, 10, 10, 1, 1 << 20, "bytes of the smallest block");
  options.Number("max", &g_settings.max_bytes, 500, 500, 1, 1 << 20, "bytes of the largest block");
  options.Number("rounds", &g_settings.rounds, 500'000, 5'000, 1, 1 << 30,
                 "replacements before a thread hands on");
  options.Parse(argc, argv);
  if (g_settings.min_bytes > g_settings.max_bytes) bench::Fail("--min is above --max");

  const uint64_t begin = bench::NowNs();
  g_running = options.threads();
  for (int t = 0; t < options.threads(); ++t) {
    bench::Rng random(static_cast<uint64_t>(t));
    auto* blocks = new std::vector<void*>(g_settings.slots);
    for (void*& block : *blocks) block = Fresh(&random);
    std::thread(Serve, blocks, 1000 * static_cast<uint64_t>(t)).detach();
  }
  std::this_thread::sleep_for(std::chrono::seconds(g_settings.seconds));
  g_stop = true;
  while (g_running != 0) std::this_thread::yield();
  const double seconds = static_cast<double>(bench::NowNs() - begin) / 1e9;
  bench::ResultLine result("larson");
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Real("ops_per_second", static_cast<double>(g_operations) / seconds);
  result.Count("threads_begun", g_threads_begun);
  result.Print();
}
