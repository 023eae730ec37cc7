// The trace as bytes: what the writer writes the reader reads, and no file makes the reader fail.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "record/trace_reader.h"
#include "record/trace_writer.h"

namespace gleaner::record {
namespace {

using Bytes = std::vector<uint8_t>;

const void* At(uint64_t address) { return PointerAt<const void>(address); }

// A file of its own for each test.
class TraceTest : public testing::Test {
 protected:
  TraceTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "gleaner_trace_" + std::to_string(ProcessNumber()) + "_" +
            info->name();
    std::filesystem::remove(path_);
  }
  ~TraceTest() override { std::filesystem::remove(path_); }

  Bytes Read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::vector<Event> EventsOf(const TraceReader& reader) {
    std::vector<Event> events;
    reader.ForEach([&](const Event& event) { events.push_back(event); });
    return events;
  }
  // A short trace with every kind of event, by two threads.
  Bytes WriteSmall() {
    static TraceWriter writers[4];
    static int used = 0;
    TraceWriter& writer = writers[used++];
    EXPECT_EQ(writer.Start(path_.c_str(), kMiB, false), 0);
    Stream a, b;
    for (uint64_t i = 1; i <= 20; ++i) {
      writer.Allocated(&a, i * 100, 0, false, At(0x10000 * i));
      writer.Allocated(&b, i, 0, true, At(0x20000000 + 32 * i));
      writer.Allocated(&b, i, 64 * i, false, At(0x7fff00000000 + 64 * i));
      writer.Freeing(&b, At(0x10000 * i));
      writer.Resized(&a, writer.Resizing(&a), At(0x20000000 + 32 * i), i * 7, At(0x30000001 + i));
    }
    writer.EndThread(&b);
    Stream c;
    writer.Freeing(&c, At(0x30000002));
    writer.Finish();
    return Read();
  }

  std::string path_;
};

TEST_F(TraceTest, NumbersOfEveryLength) {
  for (int shift = 0; shift < 64; ++shift) {
    for (const uint64_t value : {uint64_t{1} << shift, (uint64_t{1} << shift) - 1}) {
      uint8_t buffer[16];
      const uint8_t* end = PutVarint(buffer, value);
      uint64_t got;
      ASSERT_EQ(GetVarint(buffer, end, &got), end);
      EXPECT_EQ(got, value);
      EXPECT_EQ(GetVarint(buffer, end - 1, &got), nullptr) << "cut off";
      for (const uint64_t before : {uint64_t{0}, value / 2, kMaxAddress - 1, kMaxAddress - 8}) {
        const uint64_t address = value & (kMaxAddress - 1);
        EXPECT_EQ(UnpackAddress(PackAddress(address, before), before), address);
      }
    }
  }
  const uint8_t too_long[11] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0};
  uint64_t got;
  EXPECT_EQ(GetVarint(too_long, too_long + sizeof too_long, &got), nullptr);
}

TEST_F(TraceTest, ChecksumIsTheStandardOne) {
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(Crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

TEST_F(TraceTest, RandomEventsComeBackInOrder) {
  constexpr uint32_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  static TraceWriter writer;
  ASSERT_EQ(writer.Start(path_.c_str(), 64 * kMiB, false), 0);
  constexpr int kStreams = 5, kEvents = 200'000;
  Stream streams[kStreams];
  std::vector<Event> expected;
  for (int i = 0; i < kEvents; ++i) {
    const auto who = static_cast<uint32_t>(random() % kStreams);
    Stream* stream = &streams[who];
    const uint64_t address = 1 + (random() >> (8 + random() % 50)) % (kMaxAddress - 1);
    const uint64_t size = (random() >> (18 + random() % 40)) % kMaxSize;
    Event event = {};
    event.address = address;
    switch (random() % 5) {
      case 0:
        event.kind = Event::Kind::kAllocate;
        event.size = size;
        writer.Allocated(stream, size, 0, false, At(address));
        break;
      case 1:
        event.kind = Event::Kind::kZeroed;
        event.size = size;
        writer.Allocated(stream, size, 0, true, At(address));
        break;
      case 2:
        event.kind = Event::Kind::kAligned;
        event.size = size;
        event.alignment_log2 = static_cast<uint8_t>(random() % 47);
        writer.Allocated(stream, size, size_t{1} << event.alignment_log2, false, At(address));
        break;
      case 3:
        event.kind = Event::Kind::kFree;
        writer.Freeing(stream, At(address));
        break;
      default: {
        // Another thread's event comes between the two ends of a reallocation.
        const uint64_t to = 1 + random() % (kMaxAddress - 1);
        const uint64_t begin = writer.Resizing(stream);
        Stream* other = &streams[(who + 1) % kStreams];
        writer.Freeing(other, At(8));
        writer.Resized(stream, begin, At(address), size, At(to));
        Event first = event;
        first.kind = Event::Kind::kResizeBegin;
        first.size = size;
        expected.push_back(first);
        Event between = {};
        between.kind = Event::Kind::kFree;
        between.address = 8;
        expected.push_back(between);
        event.kind = Event::Kind::kResizeEnd;
        event.size = size;
        event.from = address;
        event.address = to;
      }
    }
    expected.push_back(event);
  }
  writer.Finish();

  const Bytes bytes = Read();
  TraceReader reader;
  ASSERT_TRUE(reader.Open(bytes.data(), bytes.size()));
  EXPECT_EQ(reader.damage(), "");
  EXPECT_EQ(reader.state(), FileState::kEnded);
  EXPECT_EQ(reader.thread_end(), static_cast<uint32_t>(kStreams));
  const std::vector<Event> got = EventsOf(reader);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].kind, expected[i].kind) << i;
    ASSERT_EQ(got[i].address, expected[i].address) << i;
    ASSERT_EQ(got[i].size, expected[i].size) << i;
    ASSERT_EQ(got[i].from, expected[i].from) << i;
    ASSERT_EQ(got[i].alignment_log2, expected[i].alignment_log2) << i;
    if (i != 0) {
      ASSERT_LT(got[i - 1].sequence, got[i].sequence) << i;
    }
  }
}

// Threads give "blocks" out of one stock to each other: an address is allocated again only after
// it was freed, by way of an atomic exchange, which is all the order there is.
TEST_F(TraceTest, ThreadsAreOrderedWhereTheProgramIs) {
  static TraceWriter writer;
  ASSERT_EQ(writer.Start(path_.c_str(), 256 * kMiB, false), 0);
  constexpr int kThreads = 4, kRounds = 50'000, kCells = 64;
  static std::atomic<uint64_t> cells[kCells];  // a free address, or 0
  for (int i = 0; i < kCells; ++i) cells[i] = 4096 + 16 * static_cast<uint64_t>(i);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      Stream stream;
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < kRounds; ++i) {
        std::atomic<uint64_t>& cell = cells[random() % kCells];
        const uint64_t address = cell.exchange(0, std::memory_order_acquire);
        if (address == 0) continue;
        writer.Allocated(&stream, 1, 0, false, At(address));
        writer.Freeing(&stream, At(address));
        cell.store(address, std::memory_order_release);
      }
      writer.EndThread(&stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.Finish();

  const Bytes bytes = Read();
  TraceReader reader;
  ASSERT_TRUE(reader.Open(bytes.data(), bytes.size()));
  ASSERT_EQ(reader.damage(), "");
  std::unordered_set<uint64_t> live;
  size_t events = 0;
  reader.ForEach([&](const Event& event) {
    ++events;
    if (event.kind == Event::Kind::kFree) {
      ASSERT_EQ(live.erase(event.address), 1u);
    } else {
      ASSERT_TRUE(live.insert(event.address).second);
    }
  });
  EXPECT_TRUE(live.empty());
  EXPECT_GT(events, size_t{kThreads} * kRounds);
}

TEST_F(TraceTest, EveryCutIsFoundAndWhatPrecedesItIsUsed) {
  const Bytes whole = WriteSmall();
  TraceReader good;
  ASSERT_TRUE(good.Open(whole.data(), whole.size()));
  ASSERT_EQ(good.damage(), "");
  const uint64_t events = good.event_count();
  EXPECT_EQ(events, 101u);
  for (size_t length = 0; length < whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    TraceReader reader;
    const bool usable = reader.Open(cut.data(), cut.size());
    ASSERT_NE(reader.damage(), "") << length;
    ASSERT_EQ(reader.damage_offset(), length) << reader.damage();
    ASSERT_EQ(usable, length >= kMinBlockBytes) << length;
    ASSERT_LT(reader.event_count(), events);
  }
}

TEST_F(TraceTest, EveryFlippedByteIsFound) {
  Bytes bytes = WriteSmall();
  TraceReader good;
  ASSERT_TRUE(good.Open(bytes.data(), bytes.size()));
  const std::vector<Event> events = EventsOf(good);
  uint64_t unnoticed = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const uint8_t before = bytes[at];
    for (const uint8_t flip : {uint8_t{1}, uint8_t{0x80}, uint8_t{0xff}}) {
      bytes[at] = before ^ flip;
      TraceReader reader;
      reader.Open(bytes.data(), bytes.size());
      if (reader.damage().empty()) {
        // Behind the events, where one may have been in the making.
        ++unnoticed;
        ASSERT_EQ(EventsOf(reader).size(), events.size()) << at;
        continue;
      }
      ASSERT_LE(reader.damage_offset(), at);
      ASSERT_LT(at - reader.damage_offset(), kMinBlockBytes);
      reader.ForEach([](const Event&) {});
    }
    bytes[at] = before;
  }
  const size_t blocks = bytes.size() / kMinBlockBytes - 1;
  EXPECT_LE(unnoticed, 3 * kMaxEventBytes * blocks);
}

// Damage that the checksum does not find, because it was made by somebody who computes it.
TEST_F(TraceTest, NoEventsMakeTheReaderFail) {
  const Bytes good = WriteSmall();
  constexpr uint32_t kSeed = 4;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  uint64_t bad = 0, fine = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = good;
    for (size_t offset = kMinBlockBytes; offset < bytes.size(); offset += kMinBlockBytes) {
      uint8_t* block = bytes.data() + offset;
      auto* header = reinterpret_cast<BlockHeader*>(block);
      uint32_t used = static_cast<uint32_t>(header->committed);
      const auto changes = random() % 4;
      for (uint64_t i = 0; i < changes; ++i) {
        block[sizeof *header + random() % used] = static_cast<uint8_t>(random());
      }
      if (random() % 8 == 0) header->base_sequence = random() << random() % 64;
      if (random() % 8 == 0) header->thread = static_cast<uint32_t>(random());
      if (random() % 8 == 0) used = static_cast<uint32_t>(random() % (used + 1));
      memset(block + sizeof *header + used, 0, kMinBlockBytes - sizeof *header - used);
      const uint32_t checksum =
          Crc32c(Crc32c(0, block, kBlockChecked), block + sizeof *header, used);
      header->committed = used | uint64_t{checksum} << 32;
    }
    TraceReader reader;
    reader.Open(bytes.data(), bytes.size());
    ++(reader.damage().empty() ? fine : bad);
    uint64_t last = 0;
    reader.ForEach([&](const Event& event) {
      ASSERT_LT(event.thread, kMaxThreads);
      ASSERT_LT(event.thread, reader.thread_end());
      ASSERT_LT(event.address, kMaxAddress);
      ASSERT_NE(event.address, 0u);
      ASSERT_LT(event.size, kMaxSize);
      ASSERT_GE(event.sequence, last);
      last = event.sequence;
    });
  }
  EXPECT_GT(bad, 1000u);
  EXPECT_GT(fine, 1000u);
}

TEST_F(TraceTest, TheLimitEndsTheFileAtABlock) {
  static TraceWriter writer;
  ASSERT_EQ(writer.Start(path_.c_str(), 5 * kMinBlockBytes + 100, false), 0);
  Stream stream;
  uint64_t count = 0;
  while (writer.IsRecording()) {
    writer.Allocated(&stream, 100, 0, false, At(16 * ++count));
    ASSERT_LT(count, 100'000u);
  }
  writer.Finish();
  const Bytes bytes = Read();
  EXPECT_EQ(bytes.size(), 5 * kMinBlockBytes);
  TraceReader reader;
  ASSERT_TRUE(reader.Open(bytes.data(), bytes.size()));
  EXPECT_EQ(reader.damage(), "");
  EXPECT_EQ(reader.state(), FileState::kLimit);
  EXPECT_EQ(reader.event_count(), count - 1);  // the last one found no room
}

TEST_F(TraceTest, TooSmallALimitIsRefused) {
  static TraceWriter writer;
  EXPECT_EQ(writer.Start(path_.c_str(), kMinBlockBytes, false), EFBIG);
  EXPECT_FALSE(writer.IsRecording());
}

}  // namespace
}  // namespace gleaner::record
