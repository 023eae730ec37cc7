// Threads that start and end in storms, with destructors of thread-local objects and keys that come
// back to malloc; what they leave is freed by others; the footprint is that of a few.
#include <malloc.h>
#include <pthread.h>

#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace {

constexpr unsigned kRounds = 40;
constexpr unsigned kThreads = 25;

struct ThreadLocal {
  std::vector<void*> blocks;
  ~ThreadLocal() {
    for (void* p : blocks) free(p);
    free(malloc(300));
  }
};
thread_local ThreadLocal t_local;

// Keys above and below the library's own in the order of destruction; each comes back for as many
// rounds as the system grants.
pthread_key_t g_keys[3];
void OnKey(void* value) {
  free(value);
  for (pthread_key_t key : g_keys) {
    if (pthread_getspecific(key) == nullptr) {
      pthread_setspecific(key, malloc(40));
      break;
    }
  }
  void* p = malloc(123);
  fill(p, 123, 5);
  CHECK(holds(p, 123, 5));
  free(p);
}

std::mutex g_mutex;
std::vector<std::pair<unsigned char*, size_t>> g_left;

void Live(unsigned seed) {
  for (pthread_key_t key : g_keys) pthread_setspecific(key, malloc(50));
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) t_local.blocks.push_back(malloc(random() % 3000));
  std::vector<std::pair<unsigned char*, size_t>> left;
  for (int i = 0; i < 50; ++i) {
    const size_t bytes = random() % 5000;
    left.emplace_back(static_cast<unsigned char*>(malloc(bytes)), bytes);
    fill(left.back().first, bytes, 7);
  }
  const std::lock_guard guard(g_mutex);
  g_left.insert(g_left.end(), left.begin(), left.end());
}

void Storm(unsigned round) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(Live, round * kThreads + t);
  for (std::thread& thread : threads) thread.join();
  for (const auto& [p, bytes] : g_left) {
    CHECK(holds(p, bytes, 7));
    free(p);
  }
  g_left.clear();
}

}  // namespace

int main() {
  require_gleaner();
  for (pthread_key_t& key : g_keys) CHECK(pthread_key_create(&key, OnKey) == 0);
  for (unsigned round = 0; round < 5; ++round) Storm(round);
  const size_t before = status_bytes("VmRSS:");
  const size_t used_before = mallinfo2().uordblks;
  for (unsigned round = 5; round < kRounds; ++round) Storm(round);
  // Heaps are taken over, not made anew: a thousand threads later there is no more of them. What
  // the destructors leave for ever (a block a thread and key) is below this, too.
  const size_t after = status_bytes("VmRSS:");
  const size_t used_after = mallinfo2().uordblks;
  printf("resident before %zu, after %zu; used before %zu, after %zu\n", before, after, used_before,
         used_after);
  // With collections, free memory that the heap keeps counts as used.
  const char* const collect = getenv("GLEANER_COLLECT");
  if (collect == nullptr || strcmp(collect, "0") == 0) {
    CHECK(used_after < used_before + (size_t{4} << 20));
  }
  // What the system does not take back stays.
  if (getenv("GLEANER_FAILURES") == nullptr) CHECK(after < before + (size_t{8} << 20));
}
