// Producers and consumers, after the description of Lever and Boreham's xmalloc-test: one half of
// the threads allocates blocks and passes them on in batches, the other half frees them. Nothing is
// ever freed by the thread that allocated it.
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "bench_util.h"

namespace {

constexpr size_t kBatch = 120;

struct Batch {
  Batch* next;
  void* blocks[kBatch];
};

// Bounded, so that a producer that is faster than its consumer waits.
class Queue {
 public:
  void Push(Batch* batch) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return count_ < kMax; });
    batch->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = batch;
    last_ = batch;
    ++count_;
    not_empty_.notify_one();
  }
  // Null once End was called and nothing is left.
  Batch* Pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [&] { return first_ != nullptr || ended_; });
    if (first_ == nullptr) return nullptr;
    Batch* batch = first_;
    first_ = batch->next;
    if (first_ == nullptr) last_ = nullptr;
    --count_;
    not_full_.notify_one();
    return batch;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    not_empty_.notify_all();
  }

 private:
  static constexpr size_t kMax = 64;
  std::mutex mutex_;
  std::condition_variable not_empty_, not_full_;
  Batch* first_ = nullptr;
  Batch* last_ = nullptr;
  size_t count_ = 0;
  bool ended_ = false;
};

void Produce(Queue* queue, uint64_t batches, uint64_t max_bytes, uint64_t seed) {
  bench::Rng random(seed);
  for (uint64_t i = 0; i < batches; ++i) {
    auto* batch = static_cast<Batch*>(std::malloc(sizeof(Batch)));
    for (void*& block : batch->blocks) {
      block = std::malloc(1 + random.Below(max_bytes));
      if (block == nullptr) bench::Fail("no memory");
      *static_cast<char*>(block) = 1;
    }
    queue->Push(batch);
  }
}

void Consume(Queue* queue) {
  while (Batch* batch = queue->Pop()) {
    for (void* block : batch->blocks) std::free(block);
    std::free(batch);
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t batches, max_bytes;
  bench::Options options("xmalloc_test", "producers allocate, consumers free");
  options.Number("batches", &batches, 60'000, 500, 1, 1 << 30, "of 120 blocks, for each producer");
  options.Number("max", &max_bytes, 256, 256, 1, 1 << 20, "bytes of the largest block");
  options.Parse(argc, argv);

  const uint64_t begin = bench::NowNs();
  const auto pairs = static_cast<size_t>(options.threads() + 1) / 2;
  std::vector<Queue> queues(pairs);
  std::vector<std::thread> producers, consumers;
  for (size_t i = 0; i < pairs; ++i) {
    producers.emplace_back(Produce, &queues[i], batches, max_bytes, i);
    consumers.emplace_back(Consume, &queues[i]);
  }
  for (std::thread& producer : producers) producer.join();
  for (Queue& queue : queues) queue.End();
  for (std::thread& consumer : consumers) consumer.join();
  const double seconds = static_cast<double>(bench::NowNs() - begin) / 1e9;
  bench::ResultLine result("xmalloc_test");
  result.Count("threads", 2 * pairs);
  result.Real("seconds", seconds);
  result.Real("ops_per_second", static_cast<double>(pairs * batches * kBatch) / seconds);
  result.Print();
}
