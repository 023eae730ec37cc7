// The bounds that docs/reference/malloc.md states: what one thread allocates and another one frees
// does not pile up; empty pages of a thread that sleeps serve others, and go back to the system;
// freed large blocks make room for larger ones; a peak goes back to the system.
#include <malloc.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
// For each of four threads 0.6 MiB in magazines, 2 MiB of free pages, 31 current pages; tables.
// What is in the pool and on the shelf are medium blocks, which are not used here.
constexpr size_t kSlack = 4 * 4 * kMiB;

// Hands a value from one thread to the next.
template <class T>
class Box {
 public:
  void Put(T value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !full_; });
    value_ = std::move(value);
    full_ = true;
    changed_.notify_all();
  }
  T Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return full_; });
    full_ = false;
    changed_.notify_all();
    return std::move(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool full_ = false;
  T value_{};
};

using Blocks = std::vector<void*>;

Blocks Allocate(size_t count, size_t bytes) {
  Blocks blocks(count);
  for (void*& p : blocks) p = memset(malloc(bytes), 1, bytes);
  return blocks;
}
void Release(const Blocks& blocks) {
  for (void* p : blocks) free(p);
}

// 10 GB go through, at most 2 x 4 MB of them at once.
void ProducerAndConsumer() {
  Box<Blocks> box;
  const size_t before = status_bytes("VmHWM:");
  std::thread consumer([&box] {
    for (Blocks blocks = box.Take(); !blocks.empty(); blocks = box.Take()) Release(blocks);
  });
  for (int i = 0; i < 2500; ++i) {
    const size_t bytes = size_t{16} << (i % 10);
    box.Put(Allocate(4 * kMiB / bytes / 4, bytes));
  }
  box.Put({});
  consumer.join();
  const size_t peak = status_bytes("VmHWM:");
  printf("producer and consumer: peak %zu, before %zu\n", peak, before);
  CHECK(peak < before + 8 * kMiB + kSlack);
}

// A thread allocates and sleeps, another one frees, a third needs other sizes. What is freed is
// less than the 64 MiB that stay resident, so nothing goes back meanwhile, and more than is needed.
void SleepingOwner() {
  Box<Blocks> to_free, done;
  Box<int> wake;
  std::thread owner([&] {
    std::vector<Blocks> all;
    for (size_t bytes : {32, 500, 4096, 8192}) all.push_back(Allocate(15 * kMiB / bytes, bytes));
    for (Blocks& blocks : all) to_free.Put(std::move(blocks));
    to_free.Put({});
    wake.Take();
  });
  std::thread only_frees([&] {
    for (Blocks blocks = to_free.Take(); !blocks.empty(); blocks = to_free.Take()) Release(blocks);
    done.Put({nullptr});
    wake.Take();
  });
  done.Take();
  const size_t before = status_bytes("VmRSS:");
  std::thread third([&] {
    Blocks small = Allocate(20 * kMiB / 1024, 1024);
    Blocks large = Allocate(5, 4 * kMiB);
    const size_t after = status_bytes("VmRSS:");
    printf("sleeping owner: resident %zu, with 40 MiB of another thread %zu\n", before, after);
    CHECK(after < before + kSlack);  // they fit into what the owner has no use for
    Release(small);
    Release(large);
  });
  third.join();
  CHECK(malloc_trim(0) == 1);
  const size_t trimmed = status_bytes("VmRSS:");
  printf("sleeping owner: after malloc_trim %zu\n", trimmed);
  CHECK(trimmed < kSlack);
  wake.Put(1);
  wake.Put(1);
  owner.join();
  only_frees.join();
}

// Threads that have a block of each of many sizes, and end. Of 16 KiB pages they touch a part.
void ManyThreads() {
  constexpr size_t kThreads = 200;
  // 58 KiB of blocks in 4 KiB pages, mark bytes, magazines, a stack; half of what whole pages take.
  constexpr size_t kEach = 200 * kKiB;
  // What the page space keeps of it, and for each thread its heap's own data.
  constexpr size_t kStays = kThreads * 100 * kKiB;
  (void)malloc_trim(0);
  const size_t before = status_bytes("VmRSS:");
  std::mutex mutex;
  std::condition_variable changed;
  size_t ready = 0;
  bool end = false;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Blocks blocks;
      for (size_t bytes = 16; bytes <= 20000; bytes = bytes * 3 / 2) {
        blocks.push_back(memset(malloc(bytes), 1, bytes));
      }
      std::unique_lock lock(mutex);
      ++ready;
      changed.notify_all();
      changed.wait(lock, [&] { return end; });
      lock.unlock();
      Release(blocks);
    });
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready == kThreads; });
    const size_t waiting = status_bytes("VmRSS:");
    printf("threads: %zu, before %zu\n", waiting, before);
    CHECK(waiting < before + kThreads * kEach);
    end = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(malloc_trim(0) == 1);
  const size_t after = status_bytes("VmRSS:");
  printf("threads: after their end %zu\n", after);
  CHECK(after < before + kStays);
}

// Fewer blocks than may wait before they are joined, as many, and more.
void FreedLargeBlocksAreJoined() {
  constexpr size_t kBytes = 2 * kMiB;
  for (size_t count : {2, 63, 64, 65, 200}) {
    Blocks blocks(count);
    uintptr_t lowest = UINTPTR_MAX, end = 0;
    for (void*& p : blocks) {
      CHECK((p = malloc(kBytes)) != nullptr);
      const auto begin = reinterpret_cast<uintptr_t>(p);
      if (begin < lowest) lowest = begin;
      if (begin + kBytes > end) end = begin + kBytes;
    }
    Release(blocks);
    void* joined = malloc(count * kBytes);
    const auto begin = reinterpret_cast<uintptr_t>(joined);
    CHECK(joined != nullptr && begin < end && begin + count * kBytes > lowest);
    free(joined);
  }
}

// Memory goes back while the thread that freed it makes calls that its magazines serve. How soon is
// not asked: it never does if only calls that they do not serve take part in the decay.
void MemoryGoesBackAfterAPeak() {
  constexpr size_t kPeak = 200 * kMiB;
  // What the page space keeps, mark bytes of slots, medium blocks on the shelf and in magazines.
  constexpr size_t kStays = 64 * kMiB + kPeak / 16 + 24 * kMiB + kSlack;
  for (size_t bytes : {size_t{100}, size_t{3000}, size_t{100'000}, 3 * kMiB}) {
    Release(Allocate(kPeak / bytes, bytes));
    printf("peak of blocks of %zu: resident %zu\n", bytes, status_bytes("VmRSS:"));
    fflush(stdout);
    while (status_bytes("VmRSS:") > kStays) {
      for (int i = 0; i < 1000; ++i) free(opaque(malloc(64)));
    }
  }
}

}  // namespace

int main() {
  require_gleaner();
  FreedLargeBlocksAreJoined();
  ProducerAndConsumer();
  SleepingOwner();
  MemoryGoesBackAfterAPeak();
  ManyThreads();
}
