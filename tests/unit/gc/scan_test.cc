// The two steps of a scan, in all instructions that this processor has, against naive code.
#include "gc/mark/scan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "alloc/address_space.h"

namespace gleaner::gc {
namespace {

constexpr Addr kBase = 0x7e0000000000;
constexpr size_t kHeapBytes = 64 * kMiB;
constexpr Addr kCanary = 0xc0c0c0c0c0c0c0c0;

std::vector<ScanCode> Codes() {
  ScanCode codes[kMaxScanCodes];
  const size_t count = FindScanCodes(codes);
  return {codes, codes + count};
}

TEST(ScanCodeTest, TheScalarOneIsTheLast) {
  const std::vector<ScanCode> codes = Codes();
  ASSERT_FALSE(codes.empty());
  for (const ScanCode& code : codes) {
    printf("%s\n", code.name);
    EXPECT_NE(code.filter, nullptr);
    EXPECT_EQ(code.select == nullptr, &code == &codes.back()) << code.name;
  }
  EXPECT_STREQ(codes.back().name, "scalar");
}

std::vector<Addr> Naive(const std::vector<Addr>& words, Addr base, size_t bytes) {
  std::vector<Addr> kept;
  for (const Addr word : words) {
    if (word >= base && word - base < bytes) kept.push_back(word);
  }
  return kept;
}

void CheckFilter(FilterFunction filter, const std::vector<Addr>& words) {
  // The source ends where it ends: a read beyond it is the sanitizer's to see.
  const std::vector<Addr> source(words);
  std::vector<Addr> out(words.size() + kFilterSlack + 1, kCanary);
  const size_t kept = filter(source.data(), source.size(), kBase, kHeapBytes, out.data());
  const std::vector<Addr> expected = Naive(words, kBase, kHeapBytes);
  ASSERT_EQ(kept, expected.size());
  for (size_t i = 0; i < kept; ++i) ASSERT_EQ(out[i], expected[i]) << i;
  ASSERT_EQ(out.back(), kCanary);
}

void CheckFilters(const std::vector<Addr>& words) {
  for (const ScanCode& code : Codes()) {
    SCOPED_TRACE(code.name);
    CheckFilter(code.filter, words);
  }
}

TEST(FilterTest, EdgesOfTheReservation) {
  CheckFilters({});
  CheckFilters({0, kBase - 1, kBase, kBase + 1, kBase + kHeapBytes - 1, kBase + kHeapBytes,
                kBase + kHeapBytes + 1, ~Addr{0}, Addr{1} << 63, kBase ^ (Addr{1} << 63)});
}

TEST(FilterTest, EveryCountUpToAFewVectors) {
  for (size_t count = 0; count <= 40; ++count) {
    CheckFilters(std::vector<Addr>(count, kBase + 64));
    CheckFilters(std::vector<Addr>(count, 64));
  }
}

// What a filter has compared is what it copies, though the program writes meanwhile.
TEST(FilterTest, WordsThatChangeMeanwhile) {
  constexpr size_t kWords = 23;  // whole vectors and a rest
  constexpr int kRounds = 400'000;
  for (const ScanCode& code : Codes()) {
    SCOPED_TRACE(code.name);
    std::atomic<Addr> words[kWords] = {};
    std::atomic<bool> over = false;
    std::thread writer([&] {
      for (Addr turn = 0; !over; ++turn) {
        for (auto& word : words) {
          word.store(kBase + turn % 2 * 2 * kHeapBytes, std::memory_order_relaxed);  // in, out
        }
      }
    });
    size_t outside = 0;
    Addr out[kWords + kFilterSlack];
    for (int round = 0; round < kRounds; ++round) {
      const size_t kept =
          code.filter(reinterpret_cast<const Addr*>(words), kWords, kBase, kHeapBytes, out);
      for (size_t i = 0; i < kept; ++i) outside += out[i] - kBase < kHeapBytes ? 0 : 1;
    }
    over = true;
    writer.join();
    EXPECT_EQ(outside, 0u);
  }
}

TEST(FilterTest, RandomWords) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 500; ++round) {
    std::vector<Addr> words(random() % (kScanWords + 1));
    const uint64_t share = 1 + random() % 8;
    for (Addr& word : words)
      word = random() % share == 0 ? kBase + random() % kHeapBytes : random();
    CheckFilters(words);
  }
}

// A few pages of made-up descriptors: all classes, other states, all kinds of marks.
class SelectTest : public ::testing::Test {
 protected:
  static constexpr size_t kPages = 128;
  SelectTest() : info_(kPages), marks_(kPages * alloc::kMarkBytesPerPage + 4) {
    std::mt19937 random(7);
    for (size_t page = 0; page < kPages; ++page) {
      alloc::PageInfo& info = info_[page];
      if (page < alloc::kClassCount * 2) {
        const uint16_t slot = alloc::kSlotBytes[page % alloc::kClassCount];
        info.reciprocal = alloc::ReciprocalOf(slot);
        info.slot_bytes = slot;
        info.slot_count = static_cast<uint16_t>(alloc::kPageBytes / slot);
        info.state = alloc::PageState::kSmall;
      } else if (page % 3 == 0) {
        info.state = alloc::PageState::kLarge;
        info.object_bytes = 0xfffffff0;
      } else if (page % 3 == 1) {
        info.state = alloc::PageState::kTail;
        info.pages_back = page;
      }
      for (size_t i = 0; i < alloc::kMarkBytesPerPage; ++i) {
        marks_[page * alloc::kMarkBytesPerPage + i] =
            static_cast<uint8_t>((1u << random() % 6) >> 1);  // 0 and five values
      }
    }
  }

  bool Keeps(Addr word, uint8_t white) const {
    const size_t page = (word - kBase) / alloc::kPageBytes;
    if (page >= hole_begin_ && page < hole_begin_ + hole_pages_) return true;
    const alloc::PageInfo& info = info_[page];
    if (info.state != alloc::PageState::kSmall) return true;
    const size_t slot = (word - kBase) % alloc::kPageBytes / info.slot_bytes;
    return slot < info.slot_count && (marks_[page * alloc::kMarkBytesPerPage + slot] & white) != 0;
  }

  void Check(std::vector<Addr> words, uint8_t white) const {
    std::vector<Addr> expected;
    for (const Addr word : words) {
      if (Keeps(word, white)) expected.push_back(word);
    }
    const size_t count = words.size();
    words.resize(count + kFilterSlack + 1, kCanary);
    for (const ScanCode& code : Codes()) {
      if (code.select == nullptr) continue;
      SCOPED_TRACE(code.name);
      std::vector<Addr> selected = words;
      const size_t kept =
          code.select({kBase, info_.data(), marks_.data(), white, hole_begin_, hole_pages_},
                      selected.data(), count);
      ASSERT_EQ(kept, expected.size());
      for (size_t i = 0; i < kept; ++i) ASSERT_EQ(selected[i], expected[i]) << i;
      ASSERT_EQ(selected.back(), kCanary);
    }
  }

  std::vector<alloc::PageInfo> info_;
  std::vector<uint8_t> marks_;
  size_t hole_begin_ = kPages;
  size_t hole_pages_ = 0;
};

TEST_F(SelectTest, EveryOffsetOfEveryClass) {
  for (size_t page = 0; page < kPages; ++page) {
    for (size_t offset = 0; offset < alloc::kPageBytes; offset += 512) {
      std::vector<Addr> words;
      for (size_t i = 0; i < 512; ++i)
        words.push_back(kBase + page * alloc::kPageBytes + offset + i);
      for (const uint8_t white : {1, 2, 4 | 1, 8}) Check(words, white);
    }
  }
}

TEST_F(SelectTest, RandomWordsOfEveryCount) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Addr> words(round < 100 ? static_cast<size_t>(round) : random() % (kScanWords + 1));
    for (Addr& word : words) word = kBase + random() % (kPages * alloc::kPageBytes);
    Check(words, static_cast<uint8_t>(1 + random() % 15));
  }
}

// Descriptors of the hole may not be mapped.
TEST_F(SelectTest, WordsThatPointIntoTheHole) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 500; ++round) {
    hole_begin_ = random() % kPages;
    hole_pages_ = random() % (kPages - hole_begin_ + 1);
    std::vector<Addr> words(random() % 64);
    for (Addr& word : words) word = kBase + random() % (kPages * alloc::kPageBytes);
    const std::vector<alloc::PageInfo> whole = info_;
    // Were one read, all its words would be dropped: none is in a slot.
    alloc::PageInfo none = {};
    none.slot_count = 1;
    none.reciprocal = ~uint32_t{0};
    for (size_t i = 0; i < hole_pages_; ++i) info_[hole_begin_ + i] = none;
    Check(words, 1);
    info_ = whole;
  }
}

}  // namespace
}  // namespace gleaner::gc
