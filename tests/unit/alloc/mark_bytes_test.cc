#include "alloc/mark_bytes.h"

#include <gtest/gtest.h>

#include <random>

namespace gleaner::alloc {
namespace {

constexpr uint32_t kBytes = kMarkBytesPerPage;

struct alignas(16) Marks {
  uint8_t bytes[kBytes] = {};
};

uint32_t NaiveLast(const uint8_t* marks, uint32_t end, bool occupied) {
  while (end != 0 && (marks[end - 1] != kFreeSlot) != occupied) --end;
  return end;
}

void CompareAt(const Marks& marks, uint32_t end) {
  ASSERT_EQ(FindLastFree(marks.bytes, end), NaiveLast(marks.bytes, end, false)) << "below " << end;
  ASSERT_EQ(FindLastOccupied(marks.bytes, end), NaiveLast(marks.bytes, end, true))
      << "below " << end;
}

TEST(MarkBytesTest, FindLastInUniformBytes) {
  for (const uint8_t value : {0, 1, 2, 0x7f, 0x80, 0xff}) {
    Marks marks;
    memset(marks.bytes, value, kBytes);
    for (uint32_t end = 0; end <= kBytes; ++end) CompareAt(marks, end);
  }
}

// One byte that differs, at every place, seen from every end near it.
TEST(MarkBytesTest, FindLastSeesEverySingleByte) {
  for (const uint8_t value : {1, 2, 0x80}) {
    for (uint32_t at = 0; at < 80; ++at) {
      Marks occupied;
      occupied.bytes[at] = value;
      Marks free;
      memset(free.bytes, value, kBytes);
      free.bytes[at] = kFreeSlot;
      for (uint32_t end = 0; end < 100; ++end) {
        CompareAt(occupied, end);
        CompareAt(free, end);
      }
    }
  }
}

TEST(MarkBytesTest, FindLastInRandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Marks marks;
    const unsigned density = 1 + random() % 60;
    for (uint8_t& byte : marks.bytes)
      byte = random() % density == 0 ? static_cast<uint8_t>(1 + random() % 2) : 0;
    if (round % 2 != 0) {
      for (uint8_t& byte : marks.bytes) byte = byte == 0 ? 1 : 0;
    }
    for (int i = 0; i < 100; ++i) CompareAt(marks, random() % (kBytes + 1));
    CompareAt(marks, kBytes);
  }
}

// Runs found by the two searches, as ThreadHeap uses them, are the free slots, each once.
TEST(MarkBytesTest, TheRunsFoundAreTheFreeSlots) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    Marks marks;
    const uint32_t slots = 2 + random() % (kBytes - 1);
    for (uint32_t i = 0; i < slots; ++i) marks.bytes[i] = random() % 3 == 0 ? 1 : 0;
    Marks expected = marks;
    for (uint32_t next = slots; next != 0;) {
      const uint32_t end = FindLastFree(marks.bytes, next);
      if (end == 0) break;
      const uint32_t begin = FindLastOccupied(marks.bytes, end - 1);
      for (uint32_t i = begin; i < end; ++i) {
        ASSERT_EQ(marks.bytes[i], kFreeSlot);
        marks.bytes[i] = 7;
      }
      next = begin;
    }
    for (uint32_t i = 0; i < slots; ++i)
      ASSERT_EQ(marks.bytes[i], expected.bytes[i] == 0 ? 7 : 1) << i;
  }
}

// How many bytes a page has in a round of a test: few, then any number.
uint32_t CountOf(int round, std::mt19937& random) {
  return round < 40 ? static_cast<uint32_t>(round) : random() % (kBytes + 1);
}
// Every byte of the page is what `expected` makes of the one that was there.
template <class F>
void ExpectEach(const Marks& now, const Marks& before, F expected) {
  for (uint32_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(now.bytes[i], expected(before.bytes[i])) << i;
  }
}

// All values of [inv.mark-byte], and sets of them.
constexpr uint8_t kValues[] = {kFreeSlot, 1, 2, 4, 8, kDisclaiming};
constexpr uint8_t kMasks[] = {1, 2, 4, 8, 1 | 4, 1 | 8, 2 | 4, 2 | 8, kEpochs, kYoungMarks, 0};

// Long stretches of one value, mixtures of two, of three, and of all.
void FillWithValues(Marks* marks, uint32_t count, int round, std::mt19937& random) {
  const unsigned first = random() % 6;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t which = round % 4 == 0   ? i / 32 + i / 8 % 3
                           : round % 4 == 1 ? random() % 2
                           : round % 4 == 2 ? random() % 3
                                            : random() % 6;
    marks->bytes[i] = kValues[(first + which) % 6];
  }
}

TEST(MarkBytesTest, ClearDeadLeavesTheRestAndCountsIt) {
  std::mt19937 random(4);
  for (int round = 0; round < 800; ++round) {
    const uint8_t dead = kMasks[random() % std::size(kMasks)];
    const uint32_t count = CountOf(round, random);
    Marks marks;
    FillWithValues(&marks, count, round, random);
    const Marks before = marks;
    uint32_t left = 0;
    uint32_t dead_bytes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      left += (marks.bytes[i] & dead) == 0 && marks.bytes[i] != kFreeSlot ? 1 : 0;
      dead_bytes += (marks.bytes[i] & dead) != 0 ? 1 : 0;
    }
    ASSERT_EQ(CountInUse(marks.bytes, count, dead), left) << count;
    uint32_t cleared = 0;
    ASSERT_EQ(ClearDead(marks.bytes, count, dead, &cleared), left) << count;
    ASSERT_EQ(cleared, dead_bytes) << count;
    ExpectEach(marks, before, [&](uint8_t mark) { return (mark & dead) != 0 ? kFreeSlot : mark; });
  }
}

TEST(MarkBytesTest, RecolourTurnsAMaskIntoAValue) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const uint32_t count = CountOf(round, random);
    const uint8_t from = kMasks[random() % std::size(kMasks)];
    const uint8_t to = kValues[1 + random() % 4];
    Marks marks;
    FillWithValues(&marks, count, round, random);
    const Marks before = marks;
    Recolour(marks.bytes, count, from, to);
    ExpectEach(marks, before, [&](uint8_t mark) { return (mark & from) != 0 ? to : mark; });
  }
}

TEST(MarkBytesTest, NormaliseKeepsAndCountsWhatLives) {
  std::mt19937 random(3);
  for (int round = 0; round < 800; ++round) {
    const uint8_t mask = kMasks[random() % std::size(kMasks)];
    const auto live = static_cast<uint8_t>(round % 2 == 0 ? mask : ~mask);
    const uint32_t count = CountOf(round, random);
    Marks marks;
    FillWithValues(&marks, count, round, random);
    uint32_t expected = 0;
    for (uint32_t i = 0; i < count; ++i) expected += (marks.bytes[i] & live) != 0 ? 1 : 0;
    const Marks before = marks;
    ASSERT_EQ(NormaliseMarks(marks.bytes, count, live), expected) << count;
    ExpectEach(marks, before, [&](uint8_t mark) { return static_cast<uint8_t>(mark & live); });
  }
}

}  // namespace
}  // namespace gleaner::alloc
