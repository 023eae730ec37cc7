// Threads that allocate, free their own and each other's objects, end and start, with collections
// in between, under the three policies. No two live objects may share a byte, and memory is zero
// when it is handed out.
#include "alloc/thread_heaps.h"

#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/fake_world.h"
#include "tests/support/flags.h"

namespace gleaner::alloc {
namespace {

using testing::Rounds;
using testing::Seed;
using testing::Threads;

struct Object {
  unsigned char* p = nullptr;
  size_t bytes = 0;
  unsigned char tag = 0;
};

class Mailbox {
 public:
  void Put(const Object& object) {
    std::lock_guard guard(mu_);
    objects_.push_back(object);
  }
  bool Take(Object* out) {
    std::lock_guard guard(mu_);
    if (objects_.empty()) return false;
    *out = objects_.back();
    objects_.pop_back();
    return true;
  }
  // At a barrier only.
  std::vector<Object>& objects() { return objects_; }

 private:
  std::mutex mu_;
  std::vector<Object> objects_;
};

class Party {
 public:
  Party(Policy policy, unsigned threads, unsigned phases, unsigned steps)
      : phases_(phases),
        steps_(steps),
        mailboxes_(threads),
        objects_(threads),
        barrier_(static_cast<std::ptrdiff_t>(threads), Collection{this}) {
    testing::HeapConfig config;
    config.policy = policy;
    config.k = 1;
    testing::StartHeap(config);
    testing::StartCollector(2);
    testing::g_roots.reserve(1 << 20);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t) all.emplace_back([this, t] { Run(t); });
    for (std::thread& thread : all) thread.join();
    EXPECT_EQ(failures_.load(), 0u);
  }

 private:
  struct Collection {
    Party* party;
    void operator()() noexcept { party->CollectNow(); }
  };

  void Fail(const char* what) {
    if (failures_.fetch_add(1) == 0) fprintf(stderr, "%s\n", what);
  }

  void Check(const Object& object) {
    for (size_t i = 0; i < object.bytes; i += object.bytes < 256 ? 1 : 61) {
      if (object.p[i] != object.tag) return Fail("an object's contents changed");
    }
  }

  void Release(const Object& object) {
    Check(object);
    if (FreeObject(object.p) != FreeResult::kFreed) Fail("an object could not be freed");
  }

  void Run(unsigned self) {
    std::mt19937 random(Seed() * 1000 + self);
    t_heap = ThreadHeaps::Acquire();
    std::vector<Object>& mine = objects_[self];
    for (unsigned phase = 0; phase < phases_; ++phase) {
      for (unsigned step = 0; step < steps_; ++step) {
        const unsigned dice = random() % 100;
        if (dice < 55) {
          Object object;
          object.bytes = random() % 100 == 0 ? 8193 + random() % 40000
                                             : 16 + random() % (random() % 8 == 0 ? 4000 : 200);
          const auto kind = static_cast<Kind>(random() % kBuiltInKinds);
          object.p = static_cast<unsigned char*>(AllocateObject(kind, object.bytes));
          if (object.p == nullptr) return Fail("no memory");
          object.tag = static_cast<unsigned char>(1 + random() % 255);
          if (IsZeroed(kind)) {
            for (size_t i = 0; i < object.bytes; i += object.bytes < 256 ? 1 : 61) {
              if (object.p[i] != 0) Fail("memory is not zero");
            }
          }
          memset(object.p, object.tag, object.bytes);
          if (random() % 3 == 0) {
            mailboxes_[random() % mailboxes_.size()].Put(object);
          } else {
            mine.push_back(object);
          }
        } else if (dice < 75) {
          Object object;
          if (mailboxes_[random() % mailboxes_.size()].Take(&object)) Release(object);
        } else if (dice < 98 && !mine.empty()) {
          const size_t at = random() % mine.size();
          const Object object = mine[at];
          mine[at] = mine.back();
          mine.pop_back();
          // Some are given back, some are left to the collector.
          if (random() % 2 == 0) Release(object);
        } else if (random() % 16 == 0) {
          // The thread ends and another takes its place.
          ThreadHeaps::Abandon(t_heap);
          t_heap = &g_no_heap;
          t_heap = ThreadHeaps::Acquire();
        }
      }
      barrier_.arrive_and_wait();
    }
    ThreadHeaps::Abandon(t_heap);
    t_heap = &g_no_heap;
  }

  // All threads are at the barrier.
  void CollectNow() {
    auto& roots = testing::g_roots;
    roots.clear();
    const auto add = [&](const Object& object) { roots.push_back(object.p); };
    for (const auto& objects : objects_) {
      for (const Object& object : objects) add(object);
    }
    for (Mailbox& mailbox : mailboxes_) {
      for (const Object& object : mailbox.objects()) add(object);
    }
    testing::Collect();
    for (void* p : roots) {
      if (!testing::IsAllocated(p)) Fail("an object was lost");
    }
    PageSpaceOf(Space::kScanned).CheckForTesting();
    PageSpaceOf(Space::kPointerFree).CheckForTesting();
  }

  const unsigned phases_;
  const unsigned steps_;
  std::vector<Mailbox> mailboxes_;
  std::vector<std::vector<Object>> objects_;
  std::atomic<unsigned> failures_{0};
  std::barrier<Collection> barrier_;
};

void Policies(Policy policy) {
  const unsigned seed = Seed();
  EXPECT_CHILD_OK([policy, seed] {
    (void)seed;
    Party party(policy, Threads(4), Rounds(12), 2500);
  });
}

TEST(ThreadHeapsTest, LocalityAware) { Policies(Policy::kLps); }
TEST(ThreadHeapsTest, AllLocal) { Policies(Policy::kAllLocal); }
TEST(ThreadHeapsTest, PageShared) { Policies(Policy::kPageShared); }

// Heaps of threads that ended are adopted: as many heaps as threads at a time, not in all.
TEST(ThreadHeapsTest, HeapsAreAdopted) {
  EXPECT_CHILD_OK([] {
    testing::StartHeap();
    const unsigned threads = Threads(8);
    for (unsigned round = 0; round < Rounds(40); ++round) {
      std::vector<std::thread> all;
      for (unsigned t = 0; t < threads; ++t) {
        all.emplace_back([] {
          t_heap = ThreadHeaps::Acquire();
          ASSERT_NE(t_heap, nullptr);
          for (int i = 0; i < 200; ++i) {
            void* p = AllocateObject(Kind::kNormal, 100);
            ASSERT_NE(p, nullptr);
            memset(p, 1, 100);
            if (i % 2 == 0) FreeObject(p);
          }
          ThreadHeaps::Abandon(t_heap);
        });
      }
      for (std::thread& thread : all) thread.join();
    }
    // One is the shared list's and one the main thread's.
    EXPECT_LE(ThreadHeaps::count(), threads + 2);
    EXPECT_EQ(ThreadHeaps::active(), 1u);
  });
}

// One thread allocates, another frees, a third sees nothing but their queue: the memory comes
// round.
TEST(ThreadHeapsTest, ProducerAndConsumer) {
  EXPECT_CHILD_OK([] {
    testing::StartHeap();
    Mailbox queue;
    std::atomic<bool> done{false};
    const unsigned objects = Rounds(60000);
    std::atomic<int> waiting{0};
    std::thread consumer([&] {
      t_heap = ThreadHeaps::Acquire();
      Object object;
      while (!done.load() || waiting.load() != 0) {
        if (!queue.Take(&object)) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(object.p[99], 7);
        ASSERT_EQ(FreeObject(object.p), FreeResult::kFreed);
        waiting.fetch_sub(1);
      }
    });
    for (unsigned i = 0; i < objects; ++i) {
      while (waiting.load() > 2000) std::this_thread::yield();
      Object object;
      object.p = static_cast<unsigned char*>(AllocateObject(Kind::kNormal, 100));
      ASSERT_NE(object.p, nullptr);
      ASSERT_EQ(object.p[99], 0);
      memset(object.p, 7, 100);
      waiting.fetch_add(1);
      queue.Put(object);
    }
    done.store(true);
    consumer.join();
    // 2,000 objects of 112 bytes are 14 pages; without reuse it would be 400.
    EXPECT_LE(TakenPages(), 80u);
  });
}

}  // namespace
}  // namespace gleaner::alloc
