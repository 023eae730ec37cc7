// The marker's deque: whatever the owner pushes is taken exactly once, unharmed, by the owner or by
// a thief.
#include "gc/mark/work_queue.h"

#include <memory>

#include "tests/threads/concurrent.h"

namespace gleaner::gc {
namespace {

using platform::Atomic;
using platform::memory_order_seq_cst;
using namespace testing;

class WorkQueueTest : public testing::ConcurrentTest {};

// Every word of segment `id` follows from it.
uint64_t Word(uint64_t id, size_t i) { return i == 0 ? id : Mix64(id * Segment::kCapacity + i); }

Segment Make(uint64_t id) {
  Segment segment;
  segment.count = 1 + Mix64(id) % Segment::kCapacity;
  for (size_t i = 0; i < segment.count; ++i) segment.ranges[i] = Word(id, i);
  return segment;
}

bool IsIntact(const Segment& segment) {
  if (segment.count == 0 || segment.count > Segment::kCapacity) return false;
  const Segment expected = Make(segment.ranges[0]);
  if (segment.count != expected.count) return false;
  for (size_t i = 0; i < segment.count; ++i) {
    if (segment.ranges[i] != expected.ranges[i]) return false;
  }
  return true;
}

TEST_F(WorkQueueTest, AnEmptyQueueGivesNothing) {
  auto queue = std::make_unique<WorkQueue>();
  Segment segment;
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(queue->LooksEmpty());
    EXPECT_FALSE(queue->Pop(&segment));
    EXPECT_FALSE(queue->Steal(&segment));
    ASSERT_TRUE(queue->Push(Make(static_cast<uint64_t>(round))));
    EXPECT_FALSE(queue->LooksEmpty());
    ASSERT_TRUE(round % 2 == 0 ? queue->Pop(&segment) : queue->Steal(&segment));
    EXPECT_EQ(segment.ranges[0], static_cast<uint64_t>(round));
    EXPECT_TRUE(IsIntact(segment));
  }
}

TEST_F(WorkQueueTest, AFullQueueRefusesAndKeepsWhatItHas) {
  auto queue = std::make_unique<WorkQueue>();
  Segment segment;
  uint64_t next = 0;
  uint64_t oldest = 0;
  // Several times round the slots.
  for (int round = 0; round < 5; ++round) {
    while (queue->Push(Make(next))) ++next;
    EXPECT_EQ(next - oldest, static_cast<uint64_t>(WorkQueue::kSlots));
    EXPECT_FALSE(queue->Push(Make(next)));
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(queue->Steal(&segment));
      EXPECT_EQ(segment.ranges[0], oldest++) << "thieves get the oldest";
      EXPECT_TRUE(IsIntact(segment));
    }
  }
  while (next != oldest) {
    ASSERT_TRUE(queue->Pop(&segment));
    EXPECT_EQ(segment.ranges[0], --next) << "the owner gets the newest";
    EXPECT_TRUE(IsIntact(segment));
  }
  EXPECT_TRUE(queue->LooksEmpty());
}

struct Load {
  const char* name;
  size_t max_push;  // at a time
  size_t max_pop;
};

// The owner pushes and pops in bursts while thieves take what they can.
void Contend(size_t thieves, const Load& load, uint64_t segments) {
  auto queue = std::make_unique<WorkQueue>();
  std::vector<Atomic<uint32_t>> taken(segments);
  Atomic<bool> over{false};
  Atomic<uint64_t> spoilt{0};
  Atomic<uint64_t> twice{0};
  uint64_t refused = 0;
  const auto take = [&](const Segment& segment) {
    if (!IsIntact(segment) || segment.ranges[0] >= segments) {
      spoilt.FetchAdd(1, memory_order_seq_cst);
    } else if (taken[segment.ranges[0]].Exchange(1, memory_order_seq_cst) != 0) {
      twice.FetchAdd(1, memory_order_seq_cst);
    }
  };
  Atomic<uint64_t> stolen{0};
  RunThreads(1 + thieves, [&](size_t self) {
    Random random(self + thieves * 100 + load.max_push);
    Segment segment;
    if (self == 0) {
      for (uint64_t next = 0; next < segments;) {
        for (size_t n = 1 + random.Below(load.max_push); n != 0 && next < segments; --n) {
          if (queue->Push(Make(next))) {
            ++next;
          } else {
            ++refused;
            break;
          }
        }
        for (size_t n = random.Below(load.max_pop + 1); n != 0; --n) {
          if (queue->Pop(&segment)) take(segment);
        }
        if (random.OneIn(8)) Jitter(random);
      }
      while (queue->Pop(&segment)) take(segment);
      EXPECT_TRUE(queue->LooksEmpty());
      over.Store(true, memory_order_seq_cst);
      return;
    }
    uint64_t mine = 0;
    while (!over.Load(memory_order_seq_cst)) {
      if (queue->Steal(&segment)) {
        take(segment);
        ++mine;
      } else if (random.OneIn(4)) {
        Jitter(random);
      }
    }
    EXPECT_FALSE(queue->Steal(&segment));
    stolen.FetchAdd(mine, memory_order_seq_cst);
  });
  uint64_t missing = 0;
  for (const auto& once : taken) missing += once.Load(memory_order_seq_cst) == 0 ? 1 : 0;
  EXPECT_EQ(missing, 0u) << load.name << ", thieves " << thieves;
  EXPECT_EQ(twice.Load(memory_order_seq_cst), 0u) << load.name << ", thieves " << thieves;
  EXPECT_EQ(spoilt.Load(memory_order_seq_cst), 0u) << load.name << ", thieves " << thieves;
  printf("%s, %zu thieves: %llu segments, %llu stolen, %llu refusals\n", load.name, thieves,
         static_cast<unsigned long long>(segments),
         static_cast<unsigned long long>(stolen.Load(memory_order_seq_cst)),
         static_cast<unsigned long long>(refused));
}

TEST_F(WorkQueueTest, EachSegmentIsTakenOnce) {
  const uint64_t segments = 300000 / testing::kSlowdown;
  for (const size_t thieves : {1u, 2u, 3u}) {
    Contend(thieves, {"nearly empty", 1, 2}, segments);  // all fight for the last one
    Contend(thieves, {"some", 20, 24}, segments);
    Contend(thieves, {"nearly full", 128, 30}, segments);
  }
}

}  // namespace
}  // namespace gleaner::gc
