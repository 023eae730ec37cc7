// The worker pool, and collections with it. What several workers mark is compared in
// marking_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/support/fake_world.h"
#include "tests/support/flags.h"

namespace gleaner::gc {
namespace {

using testing::Rounds;

CHILD_TEST(WorkerPoolTest, EveryWokenHelperRunsTheJobOnce) {
  struct Job {
    WorkerPool* pool;
    std::atomic<int> runs[kMaxWorkers] = {};
    uint64_t plain = 0;  // written before the job: helpers must see it
    std::atomic<int> wrong{0};
  };
  static WorkerPool pool;
  pool.SetSize(5);
  EXPECT_EQ(pool.size(), 5);
  EXPECT_FALSE(pool.CanWake());  // nobody started yet
  pool.StartHelpers();
  for (unsigned round = 0; round < Rounds(500); ++round) {
    Job job;
    job.pool = &pool;
    job.plain = round;
    job.runs[0].store(1);
    pool.Begin(
        [](void* context, int worker) {
          auto* running = static_cast<Job*>(context);
          if (running->plain >= Rounds(500)) running->wrong.fetch_add(1);
          running->runs[worker].fetch_add(1);
          if (worker % 2 != 0) running->pool->WakeOne();  // from a helper, too
        },
        &job);
    if (round % 3 == 0) {
      pool.WakeAll(static_cast<int>(round % 7));
      EXPECT_GE(pool.last_workers(), static_cast<int>(std::min(round % 7, 5u)));
    } else {
      for (unsigned i = 0; i < round % 6; ++i) pool.WakeOne();
    }
    pool.Finish();
    const int workers = pool.last_workers();
    ASSERT_LE(workers, 5);
    for (int i = 0; i < kMaxWorkers; ++i)
      ASSERT_EQ(job.runs[i].load(), i < workers ? 1 : 0) << "worker " << i;
    ASSERT_EQ(job.wrong.load(), 0);
  }
}

void** MakeTree(int depth) {
  auto** p = static_cast<void**>(testing::Allocate(alloc::Kind::kNormal, 48));
  EXPECT_NE(p, nullptr);
  for (int i = 0; depth != 0 && i < 2; ++i) p[i] = MakeTree(depth - 1);
  return p;
}

CHILD_TEST(ParallelMarkTest, HelpersTakePart) {
  testing::StartHeap();
  testing::StartCollector(4);
  int most = 0;
  uint64_t steals = 0;
  for (int round = 0; round < 10; ++round) {
    testing::g_roots.assign(1, MakeTree(15) + 1);
    testing::Collect();
    most = std::max(most, g_collector.last().markers);
    steals += g_collector.last().steals;
  }
  EXPECT_LE(most, 4);
  EXPECT_GT(most, 1) << "marking was never parallel";
  EXPECT_GT(steals, 0u) << "nothing was ever stolen";
}

}  // namespace
}  // namespace gleaner::gc
