#include "platform/tracking/soft_dirty_tracking.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

// Few kernels have the bits: here is what is read and written, with files in place of the system's.
class SoftDirtyFilesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBit = uint64_t{1} << 55;
  static constexpr size_t kFirst = 100, kEnd = kFirst + 1300;  // pages, more than are read at once
  using Ranges = std::vector<std::pair<size_t, size_t>>;       // of pages

  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_), nullptr);
    pagemap_ = std::string(directory_) + "/pagemap";
    clear_refs_ = std::string(directory_) + "/clear_refs";
    std::ofstream(clear_refs_).flush();
  }
  void TearDown() override {
    unlink(pagemap_.c_str());
    unlink(clear_refs_.c_str());
    rmdir(directory_);
  }
  // The words of pages below `end`, with all other bits set, and this one for the pages named.
  void WritePagemap(const Ranges& dirty, size_t end) const {
    std::vector<uint64_t> words(end, ~kBit);
    for (size_t i = 0; i < kFirst; ++i) words[i] = ~uint64_t{0};  // not asked for
    for (const auto& [from, to] : dirty) {
      for (size_t i = from; i < to; ++i) words[i] |= kBit;
    }
    std::ofstream file(pagemap_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(words.size() * sizeof words[0]));
    file.close();
    WriteWitness(kBit);
  }
  // The word of the tracker's own page, far behind the others in a file with a hole.
  void WriteWitness(uint64_t word) const {
    if (tracking_.witness() == 0) return;
    std::fstream file(pagemap_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(tracking_.witness() / kPage * sizeof word));
    file.write(reinterpret_cast<const char*>(&word), sizeof word);
    file.close();
    ASSERT_TRUE(file.good());
  }
  bool Open() {
    const bool opened = tracking_.Open(pagemap_.c_str(), clear_refs_.c_str());
    WriteWitness(kBit);
    return opened;
  }
  size_t Fetch(Ranges* found) {
    return tracking_.Fetch(
        kFirst * kPage, kEnd * kPage,
        [](void* context, Addr begin, Addr end) {
          static_cast<Ranges*>(context)->emplace_back(begin / kPage, end / kPage);
        },
        found);
  }
  Ranges Fetch() {
    Ranges found;
    const size_t bytes = Fetch(&found);
    size_t pages = 0;
    for (const auto& [from, to] : found) pages += to - from;
    EXPECT_EQ(bytes, pages * kPage);
    return found;
  }

  const Ranges all_ = {{kFirst, kEnd}};
  char directory_[32] = "/tmp/gleaner_test_XXXXXX";
  std::string pagemap_, clear_refs_;
  SoftDirtyTracking tracking_;
};

TEST_F(SoftDirtyFilesTest, PagesWithTheBitAreReported) {
  // The first, the last, and some around the bounds of what is read at once.
  const Ranges dirty = {{kFirst, kFirst + 1},
                        {kFirst + 5, kFirst + 8},
                        {kFirst + 510, kFirst + 514},
                        {kFirst + 1023, kFirst + 1024},
                        {kEnd - 1, kEnd}};
  WritePagemap(dirty, kEnd + 10);
  ASSERT_TRUE(Open());
  EXPECT_EQ(Fetch(), all_) << "the bits were never cleared";
  ASSERT_TRUE(tracking_.ClearAll());
  std::string order;
  std::getline(std::ifstream(clear_refs_), order);
  EXPECT_EQ(order, "4");
  EXPECT_EQ(Fetch(), dirty);
  WritePagemap({}, kEnd);
  EXPECT_EQ(Fetch(), Ranges{});
}

TEST_F(SoftDirtyFilesTest, IfAnotherUserClearsTheBitsAllIsDirty) {
  const Ranges dirty = {{kFirst + 5, kFirst + 8}};
  WritePagemap(dirty, kEnd);
  ASSERT_TRUE(Open());
  ASSERT_TRUE(tracking_.ClearAll());
  EXPECT_EQ(Fetch(), dirty);
  WriteWitness(~kBit);
  Ranges found;
  Fetch(&found);
  EXPECT_EQ(found.back(), all_.front());
  WriteWitness(kBit);
  EXPECT_EQ(Fetch(), dirty) << "the witness is back";
}

TEST_F(SoftDirtyFilesTest, WhatCannotBeReadOrClearedIsDirty) {
  WritePagemap({{kFirst + 3, kFirst + 4}}, kEnd);
  ASSERT_TRUE(Open());
  ASSERT_TRUE(tracking_.ClearAll());
  EXPECT_EQ(Fetch(), (Ranges{{kFirst + 3, kFirst + 4}}));
  // Half a word is none. Nor can the witness be read: all counts as dirty.
  ASSERT_EQ(truncate(pagemap_.c_str(), (kFirst + 600) * 8 + 4), 0);
  Ranges found;
  Fetch(&found);
  EXPECT_EQ(found, (Ranges{{kFirst + 3, kFirst + 4}, {kFirst + 600, kEnd}, all_.front()}));
  unlink(clear_refs_.c_str());
  EXPECT_FALSE(tracking_.ClearAll());
  EXPECT_EQ(Fetch(), all_);
  std::ofstream(clear_refs_).flush();
  EXPECT_TRUE(tracking_.ClearAll());
  WritePagemap({}, kEnd);
  EXPECT_EQ(Fetch(), Ranges{});
}

TEST_F(SoftDirtyFilesTest, AForkedChildReadsItsOwnFile) {
  WritePagemap({}, kEnd);
  ASSERT_TRUE(Open());
  ASSERT_TRUE(tracking_.ClearAll());
  EXPECT_CHILD_OK([&] {
    EXPECT_EQ(Fetch(), all_) << "before it knows of the fork";
    tracking_.ResetInChild();
    WriteWitness(kBit);
    EXPECT_EQ(Fetch(), all_) << "its bits were never cleared";
    ASSERT_TRUE(tracking_.ClearAll());
    EXPECT_EQ(Fetch(), Ranges{});
  });
  EXPECT_EQ(Fetch(), Ranges{});
}

}  // namespace
}  // namespace gleaner::platform
