// Threads that are cancelled: malloc is no point of cancellation, whatever it does inside, and what
// is cancelled while a collection has stopped it ends afterwards.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <random>

#include "check.h"

namespace {

constexpr unsigned kSeed = 1;
constexpr int kThreads = 300;

// More than a collection's worth, small and large.
void Churn(unsigned seed, int blocks) {
  std::mt19937 random(seed);
  void* kept[64] = {};
  size_t sizes[64] = {};
  for (int i = 0; i < blocks; ++i) {
    const unsigned at = random() % 64;
    if (kept[at] != nullptr) {
      CHECK(holds(kept[at], sizes[at], at));
      free(kept[at]);
    }
    sizes[at] = random() % 64 == 0 ? random() % 500'000 : random() % 2000;
    kept[at] = malloc(sizes[at]);
    CHECK(kept[at] != nullptr);
    fill(kept[at], sizes[at], at);
  }
  for (void* p : kept) free(p);
}

void ExpectCancelled(pthread_t thread) {
  void* result = nullptr;
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
}

std::atomic<int> g_churned{0};

void* ChurnCancelled(void*) {
  pthread_cancel(pthread_self());
  Churn(kSeed, 20'000);
  ++g_churned;
  pthread_testcancel();
  return nullptr;
}

std::atomic<int> g_cleaned{0};
std::atomic<bool> g_over{false};

void CleanUp(void* block) {
  CHECK(holds(block, 300, 7));
  free(block);
  Churn(kSeed, 100);
  ++g_cleaned;
}

void Sleep(long microseconds) {
  const timespec time = {0, microseconds * 1000};
  nanosleep(&time, nullptr);
}

void* ChurnAndSleep(void* seed) {
  void* block = malloc(300);
  fill(block, 300, 7);
  pthread_cleanup_push(CleanUp, block);
  for (unsigned round = 0;; ++round) {
    Churn(static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed)) + round, 20);
    Sleep(50);
  }
  pthread_cleanup_pop(0);
  return nullptr;
}

void* ChurnToTheEnd(void*) {
  for (unsigned round = 0; !g_over; ++round) Churn(round, 1000);
  return nullptr;
}

}  // namespace

int main() {
  require_gleaner();
  printf("seed %u\n", kSeed);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, ChurnCancelled, nullptr) == 0);
  ExpectCancelled(thread);
  CHECK(g_churned == 1);

  pthread_t other;
  CHECK(pthread_create(&other, nullptr, ChurnToTheEnd, nullptr) == 0);
  std::mt19937 random(kSeed);
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&thread, nullptr, ChurnAndSleep, reinterpret_cast<void*>(i)) == 0);
    Sleep(300 + static_cast<long>(random() % 1500));
    CHECK(pthread_cancel(thread) == 0);
    ExpectCancelled(thread);
  }
  CHECK(g_cleaned == kThreads);
  g_over = true;
  CHECK(pthread_join(other, nullptr) == 0);
  return 0;
}
