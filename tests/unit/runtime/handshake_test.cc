// Handshakes with one thread after the other, while threads allocate, block, are born and end.
//
// What a handshake is for: when all have been made, no thread fills a run with the old mark any
// more, nor has slots of the old mark that it has not handed out; and the words of its stack have
// been copied. Both are looked at here from outside.
#include <algorithm>

#include "alloc/object.h"
#include "gc/collector.h"
#include "runtime/process/runtime_state.h"
#include "runtime/process/variables.h"
#include "runtime/threads/blocking.h"
#include "runtime/threads/mutator.h"
#include "tests/support/child.h"
#include "tests/threads/concurrent.h"

namespace gleaner::runtime {
namespace {

using testing::Random;

class HandshakeTest : public testing::ConcurrentTest {};

// What all new objects have to be marked with; 0 while that changes.
std::atomic<uint8_t> g_settled{1};
std::atomic<bool> g_over{false};
std::atomic<uint64_t> g_seen{0};
std::atomic<uint64_t> g_wrong{0};

// Allocates, and looks at the marks of what it gets.
void Allocate(Random& random, int objects) {
  for (int i = 0; i < objects; ++i) {
    const uint8_t before = g_settled.load();
    void* p = alloc::AllocateObject(alloc::Kind::kNormal, 16 + random.Below(300));
    ASSERT_NE(p, nullptr);
    alloc::ObjectRef object;
    ASSERT_TRUE(alloc::FindSlot(AddressOf(p), &object));
    const uint8_t mark = alloc::LoadMark(object.mark());
    if (before != 0 && g_settled.load() == before) {
      g_seen.fetch_add(1);
      if (mark != before) g_wrong.fetch_add(1);
    }
    if (random.OneIn(2)) alloc::FreeObject(p);
  }
}

void* Nothing(void*) {
  sched_yield();
  return nullptr;
}

// Words that the handshakes have copied.
std::vector<Addr> CopiedWords(const gc::RootBuffer& words, gc::RootTasks* scratch) {
  scratch->Clear();
  words.AddTo(scratch);
  std::vector<Addr> all;
  for (size_t i = 0; i < scratch->size(); ++i) {
    const platform::Range range = scratch->at(i).range;
    all.insert(all.end(), PointerAt<const Addr>(range.begin), PointerAt<const Addr>(range.end));
  }
  std::sort(all.begin(), all.end());
  return all;
}

CHILD_TEST_F(HandshakeTest, AfterItAllNewObjectsHaveTheNewMarkAndAllStacksAreCopied) {
  Init();
  g_disable_automatic = 1;
  constexpr size_t kWorkers = 4;
  constexpr int kRounds = 150 / static_cast<int>(testing::kSlowdown);
  gc::RootTasks scratch;
  gc::RootBuffer words;
  ASSERT_TRUE(scratch.Init());
  ASSERT_TRUE(words.Init());
  // Each worker has one of these, on its stack alone (complemented here) while its flag is up.
  static std::atomic<Addr> hidden[kWorkers];
  static std::atomic<bool> held[kWorkers];
  testing::RunThreads(kWorkers + 2, [&](size_t self) {
    Random random(self);
    if (self < kWorkers) {
      ASSERT_TRUE(AttachThread());
      void* volatile mine = alloc::AllocateObject(alloc::Kind::kNormal, 64);
      hidden[self] = ~AddressOf(mine);
      held[self] = true;
      while (!g_over) {
        Allocate(random, 50);
        if (random.OneIn(4)) DoBlocking(Nothing, nullptr);
      }
      held[self] = false;
      asm volatile("" : : "r"(&mine) : "memory");
      Threads::Unregister();
    } else if (self == kWorkers) {
      // Threads that come and go all the time.
      while (!g_over) {
        std::thread short_lived([&random] {
          ASSERT_TRUE(AttachThread());
          Allocate(random, 200);
          if (random.OneIn(2)) Threads::Unregister();  // else its end does it
        });
        short_lived.join();
      }
    } else {
      ASSERT_TRUE(AttachThread());
      size_t handshakes = 0;
      for (int round = 0; round < kRounds; ++round) {
        {
          platform::LockGuard guard(gc::g_collector.lock());
          const uint8_t mark = alloc::OtherEpoch(alloc::AllocationColour());
          g_settled = 0;
          alloc::g_allocation_colour.Store(mark, platform::memory_order_relaxed);
          bool everybody = true;
          for (auto& flag : held) everybody &= flag.load();
          words.Clear();
          Threads::BeginHandshakes();
          const Addr here = AddressOf(__builtin_frame_address(0));
          while (Threads::Handshake(here, &scratch, &words)) ++handshakes;
          g_settled = mark;
          const std::vector<Addr> copied = CopiedWords(words, &scratch);
          for (size_t i = 0; i < kWorkers && everybody; ++i) {
            EXPECT_TRUE(std::binary_search(copied.begin(), copied.end(), ~hidden[i].load()))
                << "the stack of worker " << i;
          }
        }
        Allocate(random, 20);
      }
      g_over = true;
      EXPECT_GE(handshakes, static_cast<size_t>(kRounds) * 2);
      printf("%zu handshakes, %llu objects looked at\n", handshakes,
             static_cast<unsigned long long>(g_seen.load()));
    }
  });
  EXPECT_EQ(g_wrong.load(), 0u);
  EXPECT_GT(g_seen.load(), 1000u);
}

// Stops of the whole world, suspensions and handshakes do not get into each other's way.
CHILD_TEST_F(HandshakeTest, OtherStopsMeanwhile) {
  Init();
  g_disable_automatic = 1;
  static std::atomic<bool> over{false};
  testing::RunThreads(4, [&](size_t self) {
    Random random(self + 10);
    ASSERT_TRUE(AttachThread());
    if (self < 2) {
      while (!over) Allocate(random, 50);
    } else {
      gc::RootTasks scratch;
      gc::RootBuffer words;
      ASSERT_TRUE(scratch.Init());
      ASSERT_TRUE(words.Init());
      for (int round = 0; round < 200; ++round) {
        platform::LockGuard guard(gc::g_collector.lock());
        if (self == 2) {
          words.Clear();
          Threads::BeginHandshakes();
          while (Threads::Handshake(AddressOf(__builtin_frame_address(0)), &scratch, &words)) {
          }
        } else {
          Threads::Stop();
          EXPECT_TRUE(platform::WorldIsStopped());
          Threads::Resume();
        }
      }
      over = true;
    }
  });
}

// Static data are copied a piece at a time, and all of them. (The program's own data do not count
// here, since the library is linked into it.)
Addr g_root_words[40000];

CHILD_TEST_F(HandshakeTest, StaticDataAreCopiedInPieces) {
  Init();
  const Addr first = AddressOf(alloc::AllocateObject(alloc::Kind::kNormal, 64));
  const Addr last = AddressOf(alloc::AllocateObject(alloc::Kind::kNormal, 64));
  g_root_words[0] = first;
  g_root_words[39999] = last;
  gc::RootTasks scratch;
  gc::RootBuffer words;
  ASSERT_TRUE(scratch.Init());
  ASSERT_TRUE(words.Init());
  gc::RootPosition position;
  size_t pieces = 0;
  platform::LockGuard guard(gc::g_collector.lock());
  const Addr begin = AddressOf(g_root_words);
  ASSERT_TRUE(g_static_roots.added.Add({begin, begin + sizeof g_root_words}));
  for (; Threads::CopyRoots(&position, &words); ++pieces) {
  }
  EXPECT_GT(pieces, sizeof g_root_words / (64 * kKiB));
  const std::vector<Addr> copied = CopiedWords(words, &scratch);
  EXPECT_TRUE(std::binary_search(copied.begin(), copied.end(), first));
  EXPECT_TRUE(std::binary_search(copied.begin(), copied.end(), last));
}

}  // namespace
}  // namespace gleaner::runtime
