// Termination detection: never while there is a token of work, always once there is none.
//
// The workers do what the marker's do: idle only with nothing of their own, busy before they take
// from another's queue. How many tokens were made and used up is counted by each worker for itself,
// with plain relaxed stores, so that the counting adds no order of its own.
#include "gc/mark/termination.h"

#include "gc/mark/work_queue.h"
#include "tests/threads/concurrent.h"

namespace gleaner::gc {
namespace {

using platform::Atomic;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;
using namespace testing;

// A token's value is how many generations may follow it.
struct alignas(kCacheLineBytes) Worker {
  WorkQueue queue;
  std::vector<uint64_t> own;
  alignas(kCacheLineBytes) Atomic<uint64_t> made{0};  // written by the worker only, as the next
  Atomic<uint64_t> used{0};
};

void Count(Atomic<uint64_t>& counter, uint64_t n) {
  counter.Store(counter.Load(memory_order_relaxed) + n, memory_order_relaxed);
}

class Game {
 public:
  // Of the detector's workers only every so many takes part, which makes its look at all of them
  // take longer.
  Game(TerminationMethod method, size_t workers, size_t spread = 1)
      : workers_(workers), spread_(spread) {
    termination_.Reset(method, static_cast<int>(workers * spread));
  }

  // Puts a token into a worker's hands, before Run.
  void Give(size_t worker, uint64_t token) {
    workers_[worker].own.push_back(token);
    Count(workers_[worker].made, 1);
  }

  // f(random, token, &children) makes the next generation of a token. With `relay`, a worker puts
  // every token up for others and is idle as soon as somebody has taken it. Watchers do nothing but
  // ask whether it is over; the system stops them anywhere, and the tokens go on meanwhile.
  template <class F>
  void Run(F f, bool relay, uint64_t stream, size_t watchers = 0) {
    // As in the marker, a worker that holds work is busy before the others begin to look.
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].own.empty()) termination_.SetBusy(IdOf(i));
    }
    RunThreads(workers_.size() + watchers, [&](size_t self) {
      if (self >= workers_.size()) return Watch();
      Random random(stream * 64 + self);
      const int id = IdOf(self);
      bool busy = !workers_[self].own.empty();
      do {
        if (busy) Work(self, random, f, relay);
        if (busy) termination_.SetIdle(id);
        busy = true;
      } while (FindWork(self, random));
    });
    EXPECT_EQ(Made(), Used()) << "tokens left behind";
    for (Worker& worker : workers_) EXPECT_TRUE(worker.queue.LooksEmpty());
    EXPECT_TRUE(termination_.AllIdle());
    EXPECT_FALSE(late_) << "termination not declared in time";
  }

  uint64_t Made() const { return Sum(&Worker::made); }
  uint64_t Used() const { return Sum(&Worker::used); }
  uint64_t steals() const { return steals_.Load(memory_order_seq_cst); }

 private:
  int IdOf(size_t worker) const { return static_cast<int>(worker * spread_); }

  uint64_t Sum(Atomic<uint64_t> Worker::*counter) const {
    uint64_t sum = 0;
    for (const Worker& worker : workers_) sum += (worker.*counter).Load(memory_order_relaxed);
    return sum;
  }

  template <class F>
  void Work(size_t self, Random& random, F f, bool relay) {
    Worker& worker = workers_[self];
    Segment segment;
    std::vector<uint64_t> children;
    for (;;) {
      while (!worker.own.empty()) {
        const uint64_t token = worker.own.back();
        worker.own.pop_back();
        children.clear();
        f(random, token, &children);
        Count(worker.made, children.size());
        worker.own.insert(worker.own.end(), children.begin(), children.end());
        Count(worker.used, 1);
        if (relay || (worker.own.size() > 1 && worker.queue.LooksEmpty())) {
          segment.count = relay ? worker.own.size() : worker.own.size() / 2;
          if (segment.count > Segment::kCapacity) segment.count = Segment::kCapacity;
          for (size_t i = 0; i < segment.count; ++i) {
            segment.ranges[i] = worker.own.back();
            worker.own.pop_back();
          }
          ASSERT_TRUE(segment.count == 0 || worker.queue.Push(segment));
        }
      }
      if (relay && random.Below(8) != 0) {
        for (int i = 0; i < 200 && !worker.queue.LooksEmpty(); ++i) sched_yield();
      }
      if (!worker.queue.Pop(&segment)) return;
      worker.own.assign(segment.ranges, segment.ranges + segment.count);
    }
  }

  bool IsOver() const {
    if (!termination_.AllIdle()) return false;
    // Now nothing may change any more, so the sums are exact.
    EXPECT_EQ(Made(), Used()) << "declared while there was work";
    for (const Worker& worker : workers_) EXPECT_TRUE(worker.queue.LooksEmpty());
    return true;
  }

  void Watch() {
    const Deadline deadline(60);
    for (size_t turn = 1; !IsOver(); ++turn) {
      if (turn % 4096 == 0 && deadline.passed()) {
        late_ = true;
        return;
      }
    }
  }

  // True with work in `own` and the worker busy; false when all is over.
  bool FindWork(size_t self, Random& random) {
    Worker& worker = workers_[self];
    const int id = IdOf(self);
    const Deadline deadline(60);
    Segment segment;
    for (size_t turn = 0;; ++turn) {
      for (size_t i = 1; i < workers_.size(); ++i) {
        Worker& victim = workers_[(self + i) % workers_.size()];
        if (victim.queue.LooksEmpty()) continue;
        termination_.SetBusy(id);  // before taking anything [inv.termination]
        if (random.OneIn(16)) Jitter(random);
        if (victim.queue.Steal(&segment)) {
          steals_.FetchAdd(1, memory_order_relaxed);  // a statistic
          worker.own.assign(segment.ranges, segment.ranges + segment.count);
          return true;
        }
        termination_.SetIdle(id);
      }
      if (IsOver()) return false;
      if (turn % 1024 == 0 && deadline.passed()) {
        late_ = true;
        return false;
      }
      if (turn % 4 == 3) sched_yield();
    }
  }

  Termination termination_;
  std::vector<Worker> workers_;
  const size_t spread_;
  Atomic<uint64_t> steals_{0};
  std::atomic<bool> late_ = false;
};

class TerminationTest : public testing::ConcurrentTest,
                        public ::testing::WithParamInterface<TerminationMethod> {};

// One token goes from hand to hand: while it does, all but one are idle, and nearly always somebody
// is just changing. For `ns`, and on a loaded machine on until another worker had it at all.
void HandRound(TerminationMethod method, size_t workers, size_t watchers, uint64_t ns) {
  Game game(method, workers, kMaxWorkers / workers);
  const uint64_t end = platform::NowNs() + ns;
  const Deadline deadline(30);
  game.Give(0, 0);
  game.Run(
      [&](Random&, uint64_t token, std::vector<uint64_t>* children) {
        if (platform::NowNs() < end || (game.steals() == 0 && !deadline.passed())) {
          children->push_back(token + 1);
        }
      },
      true, workers, watchers);
  EXPECT_GT(game.steals(), 0u);
  printf("%zu workers, %zu watchers: %llu of %llu tokens changed hands\n", workers, watchers,
         static_cast<unsigned long long>(game.steals()),
         static_cast<unsigned long long>(game.Made()));
}

TEST_P(TerminationTest, OneTokenFromHandToHand) {
  for (const size_t workers : {2u, 3u, 4u}) {
    HandRound(GetParam(), workers, 0, 50000000);
    HandRound(GetParam(), workers, 1, 300000000);
  }
}

// Families that grow and die out at random, one after the other: many short games, since it is
// their ends that count.
TEST_P(TerminationTest, FamiliesThatDieOut) {
  const size_t games = 400 / testing::kSlowdown;
  for (const size_t workers : {1u, 2u, 4u, 8u}) {
    uint64_t tokens = 0;
    for (size_t n = 0; n < games; ++n) {
      Game game(GetParam(), workers);
      Random random(n);
      for (size_t given = random.Below(4); given != 0; --given) {
        game.Give(random.Below(workers), random.Below(12));
      }
      game.Run(
          [](Random& r, uint64_t token, std::vector<uint64_t>* children) {
            if (token == 0) return;
            for (size_t child = r.Below(4); child != 0; --child) {
              children->push_back(token - 1 - (token > 1 ? r.Below(2) : 0));
            }
            if (r.OneIn(8)) Jitter(r);
          },
          n % 2 != 0, n);
      tokens += game.Made();
      if (HasFailure()) FAIL() << "game " << n << ", workers " << workers;
    }
    printf("%zu workers: %zu games, %llu tokens\n", workers, games,
           static_cast<unsigned long long>(tokens));
  }
}

TEST_P(TerminationTest, BusyWorkersAreSeen) {
  Termination termination;
  for (const int workers : {1, 2, 5, kMaxWorkers}) {
    termination.Reset(GetParam(), workers);
    EXPECT_TRUE(termination.AllIdle());
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < workers; ++i) {
        termination.SetBusy(i);
        EXPECT_FALSE(termination.AllIdle());
      }
      for (int i = 0; i < workers; ++i) {
        EXPECT_FALSE(termination.AllIdle());
        termination.SetIdle(i);
      }
      EXPECT_TRUE(termination.AllIdle());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, TerminationTest,
                         ::testing::Values(TerminationMethod::kStates, TerminationMethod::kCounter),
                         [](const auto& test) {
                           return test.param == TerminationMethod::kStates ? "States" : "Counter";
                         });

}  // namespace
}  // namespace gleaner::gc
