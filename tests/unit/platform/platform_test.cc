// Memory from the system, facts about threads, messages.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "platform/common/bits.h"
#include "platform/os/base.h"
#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/os/standard_error.h"
#include "platform/threads/thread.h"
#include "tests/support/child.h"

namespace gleaner::platform {
namespace {

TEST(BitsTest, AlignAndPowers) {
  EXPECT_EQ(AlignUp(0, 16), 0u);
  EXPECT_EQ(AlignUp(1, 16), 16u);
  EXPECT_EQ(AlignUp(16, 16), 16u);
  EXPECT_EQ(AlignDown(31, 16), 16u);
  EXPECT_FALSE(IsPowerOfTwo(0));
  EXPECT_TRUE(IsPowerOfTwo(1));
  EXPECT_FALSE(IsPowerOfTwo(12));
  EXPECT_TRUE(IsPowerOfTwo(size_t{1} << 63));
}

TEST(MessageTest, NamesAreNoCommandsToTheTerminal) {
  char text[] = "a\033[31mb\tc\n\177\302\233d\303\251";
  HideControls(text, sizeof text - 1);
  EXPECT_STREQ(text, "a?[31mb\tc\n?\302?d\303\251");
}

TEST(BitsTest, Sums) {
  EXPECT_EQ(SumOfBytes(0), 0u);
  EXPECT_EQ(SumOfBytes(0x0102030405060708u), 36u);
  EXPECT_EQ(SumOfBytes(0xff), 255u);
  EXPECT_EQ(SumOfBytes(uint64_t{0xff} << 56), 255u);
  // Every number of ones, at every place and spread out.
  for (unsigned ones = 0; ones <= 64; ++ones) {
    const uint64_t low = ones == 64 ? ~uint64_t{0} : (uint64_t{1} << ones) - 1;
    for (unsigned shift = 0; shift + ones <= 64; ++shift) {
      EXPECT_EQ(CountBits(shift == 64 ? 0 : low << shift), ones) << shift;
    }
    uint64_t spread = 0;
    for (unsigned i = 0; i < ones; ++i) spread |= uint64_t{1} << (i * 29 % 64);
    EXPECT_EQ(CountBits(spread), ones);
  }
}

TEST(MemoryTest, ReservedMemoryIsAlignedZeroAfterCommitAndAfterDiscard) {
  for (const size_t alignment : {OsPageBytes(), 64 * kKiB, 2 * kMiB, 64 * kMiB}) {
    auto* p = static_cast<char*>(Reserve(4 * kMiB, alignment));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(AddressOf(p) % alignment, 0u);
    ASSERT_TRUE(Commit(p + kMiB, kMiB));
    for (size_t i = 0; i < kMiB; i += 512) ASSERT_EQ(p[kMiB + i], 0);
    memset(p + kMiB, 1, kMiB);
    Discard(p + kMiB, kMiB / 2);
    EXPECT_EQ(p[kMiB], 0);
    EXPECT_EQ(p[kMiB + kMiB / 2], 1);
    Release(p, 4 * kMiB);
  }
}

// The system does not drop it.
TEST(MemoryTest, LockedMemoryIsZeroAfterDiscard) {
  const size_t bytes = 2 * OsPageBytes();
  auto* p = static_cast<char*>(Reserve(bytes, OsPageBytes()));
  ASSERT_NE(p, nullptr);
  ASSERT_TRUE(Commit(p, bytes));
  memset(p, 1, bytes);
  ASSERT_EQ(mlock(p, bytes), 0);
  Discard(p, bytes);
  for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], 0);
  Release(p, bytes);
}

TEST(MemoryTest, ReserveZeroesReadsAsZero) {
  auto* p = static_cast<char*>(ReserveZeroes(64 * kMiB));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p[0], 0);
  EXPECT_EQ(p[64 * kMiB - 1], 0);
  ASSERT_TRUE(Commit(p, OsPageBytes()));
  p[0] = 1;
  Release(p, 64 * kMiB);
}

// What /proc/self/smaps says of core dumps: the bytes of [p, p + bytes) that they contain. SIZE_MAX
// if it does not say.
size_t DumpedBytes(const void* p, size_t bytes) {
  std::ifstream maps("/proc/self/smaps");
  const Addr begin = AddressOf(p);
  Addr from = 0;
  Addr to = 0;
  size_t dumped = 0;
  bool says = false;
  for (std::string line; std::getline(maps, line);) {
    Addr low;
    Addr high;
    if (sscanf(line.c_str(), "%zx-%zx ", &low, &high) == 2) {
      from = std::max(low, begin);
      to = std::min(high, begin + bytes);
    } else if (line.starts_with("VmFlags:")) {
      says = true;
      if (from < to && line.find(" dd") == std::string::npos) dumped += to - from;
    }
  }
  return says ? dumped : SIZE_MAX;
}

TEST(MemoryTest, CoreDumpsLeaveOutWhatIsNotCommitted) {
  constexpr size_t kBytes = 64 * kMiB;
  if (DumpedBytes(nullptr, SIZE_MAX) == SIZE_MAX) GTEST_SKIP() << "the system does not tell";
  for (auto* p : {static_cast<char*>(Reserve(kBytes, 2 * kMiB, CommitFrom::kBothEnds)),
                  static_cast<char*>(ReserveZeroes(kBytes)),
                  static_cast<char*>(ReserveZeroes(kBytes, CommitFrom::kBothEnds))}) {
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(DumpedBytes(p, kBytes), 0u);
    for (const size_t at : {size_t{0}, kMiB, kBytes - kMiB}) {
      ASSERT_TRUE(Commit(p + at, kMiB));
      EXPECT_EQ(DumpedBytes(p + at, kMiB), kMiB);
    }
    EXPECT_EQ(DumpedBytes(p, kBytes), 3 * kMiB);
    ASSERT_TRUE(Commit(p, 3 * kMiB));  // some of it again
    EXPECT_EQ(DumpedBytes(p, kBytes), 4 * kMiB);
    Discard(p, kMiB);
    EXPECT_EQ(DumpedBytes(p, kBytes), 4 * kMiB);
    ASSERT_TRUE(Renew(p, kMiB));
    EXPECT_EQ(DumpedBytes(p, kBytes), 4 * kMiB);
    Release(p, kBytes);
  }
  // Not worth the calls.
  void* small = Reserve(kMiB, OsPageBytes());
  EXPECT_EQ(DumpedBytes(small, kMiB), kMiB);
  ASSERT_TRUE(Commit(small, kMiB));
  Release(small, kMiB);
}

// What is committed needs no mapping of its own for longer than a call, and where there is none to
// be had, the dump has all of the reservation.
TEST(MemoryTest, WhatDumpsLeaveOutTakesNoMappings) {
  constexpr size_t kBytes = 64 * kMiB;
  size_t max = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> max;
  if (max == 0 || max > 200'000) GTEST_SKIP() << "there are many mappings";
  if (testing::kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs mappings";
  auto* p = static_cast<char*>(Reserve(kBytes, 2 * kMiB));
  ASSERT_NE(p, nullptr);
  ASSERT_TRUE(Commit(p, kMiB));
  const size_t pages = max + 2;
  const size_t os_page = OsPageBytes();
  auto* many = static_cast<char*>(
      mmap(nullptr, pages * os_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(many, MAP_FAILED);
  size_t page = 1;
  while (page < pages && mprotect(many + page * os_page, os_page, PROT_READ) == 0) page += 2;
  const int refused = errno;
  const bool committed = Commit(p + kMiB, kMiB);
  munmap(many, pages * os_page);
  ASSERT_LT(page, pages);
  EXPECT_EQ(refused, ENOMEM);
  ASSERT_TRUE(committed);
  memset(p, 1, 2 * kMiB);
  EXPECT_EQ(DumpedBytes(p, kBytes), kBytes);
  ASSERT_TRUE(Commit(p + 2 * kMiB, kMiB));
  Release(p, kBytes);
}

// All of it can be read meanwhile.
TEST(MemoryTest, WhatIsKeptWholeGetsItsHoleLater) {
  constexpr size_t kBytes = 64 * kMiB;
  auto* p = static_cast<char*>(ReserveZeroes(kBytes, CommitFrom::kBothEnds));
  ASSERT_NE(p, nullptr);
  ASSERT_TRUE(Commit(p, kMiB));
  p[0] = 1;
  ASSERT_TRUE(KeepWhole(p));
  UnmapUncommitted();
  for (size_t i = kMiB; i < kBytes; i += kMiB) ASSERT_EQ(p[i], 0);
  unsigned char resident;
  AllowHole(p);
  EXPECT_NE(mincore(p + 32 * kMiB, OsPageBytes(), &resident), 0);
  EXPECT_EQ(p[0], 1);
  EXPECT_FALSE(KeepWhole(p));
  ASSERT_TRUE(Commit(p + kBytes - kMiB, kMiB));
  p[kBytes - 1] = 2;
  Release(p, kBytes);
}

// The child's marking has been given up, and it may have a limit of its own.
TEST(MemoryTest, WhatIsKeptWholeIsNotInAChild) {
  constexpr size_t kBytes = 64 * kMiB;
  auto* p = static_cast<char*>(ReserveZeroes(kBytes, CommitFrom::kBothEnds));
  ASSERT_NE(p, nullptr);
  ASSERT_TRUE(KeepWhole(p));
  EXPECT_CHILD_OK([p] {
    ResetReservationsAfterFork();
    UnmapUncommitted();
    EXPECT_FALSE(KeepWhole(p));
  });
  UnmapUncommitted();
  EXPECT_CHILD_OK([p] {
    ResetReservationsAfterFork();
    EXPECT_FALSE(KeepWhole(p));
  });
  EXPECT_EQ(p[kBytes - 1], 0);
  AllowHole(p);
  Release(p, kBytes);
}

// Nobody wants it to have one.
TEST(MemoryTest, WhatIsKeptWholeStaysSo) {
  constexpr size_t kBytes = 64 * kMiB;
  auto* p = static_cast<char*>(ReserveZeroes(kBytes, CommitFrom::kBothEnds));
  ASSERT_NE(p, nullptr);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(KeepWhole(p));
    AllowHole(p);
    EXPECT_EQ(p[kBytes - 1], 0);
  }
  Release(p, kBytes);
}

TEST(MemoryTest, RefusalIsNull) {
  EXPECT_EQ(Reserve(size_t{1} << 60, OsPageBytes()), nullptr);
  EXPECT_EQ(Reserve(SIZE_MAX - OsPageBytes() + 1, 2 * kMiB), nullptr);
  EXPECT_EQ(ReserveZeroes(size_t{1} << 60), nullptr);
}

CHILD_TEST(MemoryTest, AddressSpaceLimitIsTheSystems) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  if (limit.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(AddressSpaceLimit(), SIZE_MAX);
  }
  limit.rlim_cur = 5 * kGiB;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(AddressSpaceLimit(), 5 * kGiB);
}

// A reservation that a limit makes a hole in, and what Commit then does there.
class HoleTest : public ::testing::TestWithParam<CommitFrom> {
 protected:
  static constexpr size_t kBytes = 4 * kGiB;

  void SetUp() override {
    begin_ = static_cast<char*>(Reserve(kBytes, 2 * kMiB, GetParam()));
    ASSERT_NE(begin_, nullptr);
    ASSERT_TRUE(Commit(begin_, kMiB));
    begin_[0] = 1;
    if (GetParam() == CommitFrom::kBothEnds) {
      ASSERT_TRUE(Commit(end() - kMiB, kMiB));
      end()[-1] = 2;
    }
    UnmapUncommitted();
  }
  void TearDown() override { Release(begin_, kBytes); }

  char* end() const { return begin_ + kBytes; }
  size_t Mapped() const {
    struct Search {
      const char* begin;
      size_t bytes;
    } search{begin_, 0};
    VisitReservations(
        [](void* context, Range range) {
          auto* s = static_cast<Search*>(context);
          if (range.begin - AddressOf(s->begin) < kBytes) s->bytes += range.bytes();
        },
        &search);
    return search.bytes;
  }

  char* begin_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(From, HoleTest,
                         ::testing::Values(CommitFrom::kBegin, CommitFrom::kBothEnds),
                         [](const auto& info) {
                           return info.param == CommitFrom::kBegin ? "Begin" : "BothEnds";
                         });

TEST_P(HoleTest, WhatIsCommittedStays) {
  EXPECT_EQ(begin_[0], 1);
  if (GetParam() == CommitFrom::kBothEnds) {
    EXPECT_EQ(end()[-1], 2);
  }
  const size_t committed = GetParam() == CommitFrom::kBothEnds ? 2 * kMiB : kMiB;
  EXPECT_EQ(Mapped(), committed);
  UnmapUncommitted();
  EXPECT_EQ(Mapped(), committed);
  EXPECT_EQ(begin_[0], 1);
}

TEST_P(HoleTest, CommitMapsItAgain) {
  ASSERT_TRUE(Commit(begin_, kGiB));
  begin_[kGiB - 1] = 3;
  if (GetParam() == CommitFrom::kBothEnds) {
    ASSERT_TRUE(Commit(end() - kGiB, kGiB));
    end()[-static_cast<ptrdiff_t>(kGiB)] = 4;
    EXPECT_EQ(end()[-1], 2);
  }
  EXPECT_EQ(begin_[0], 1);
  ASSERT_TRUE(Commit(begin_, kBytes));
  EXPECT_EQ(Mapped(), kBytes);
  EXPECT_EQ(begin_[kGiB - 1], 3);
}

TEST_P(HoleTest, MemoryOfOthersInItIsLeftAlone) {
  char* middle = begin_ + kBytes / 2;
  char* other = static_cast<char*>(mmap(middle, kMiB, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  ASSERT_EQ(other, middle);
  other[0] = 5;
  EXPECT_FALSE(Commit(begin_, kBytes / 2 + kMiB));
  EXPECT_TRUE(Commit(begin_, kGiB));
  UnmapUncommitted();
  EXPECT_EQ(other[0], 5);
  Release(begin_, kBytes);
  EXPECT_EQ(other[0], 5);
  ASSERT_EQ(munmap(other, kMiB), 0);
  begin_ = static_cast<char*>(Reserve(kBytes, 2 * kMiB));
}

// A reservation in the hole of another is a reservation of its own.
TEST_P(HoleTest, AReservationInTheHole) {
  const Addr middle = AddressOf(begin_) + kBytes / 2;
  std::vector<void*> others;
  // What is too large for the place of large reservations lies where the system wants it.
  for (size_t i = 0; i < 64; ++i) others.push_back(Reserve(kMiB, OsPageBytes()));
  void* inner = mmap(PointerAt<void>(middle), 4 * kMiB, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(inner, PointerAt<void>(middle));
  EXPECT_FALSE(Commit(begin_, kBytes));
  Release(inner, 4 * kMiB);  // not noted: the outer one is not what is meant
  ASSERT_TRUE(Commit(begin_, kMiB));
  EXPECT_EQ(begin_[0], 1);
  for (void* each : others) {
    ASSERT_TRUE(Commit(each, kMiB));
    Release(each, kMiB);
  }
}

TEST_P(HoleTest, TheSystemPlacesNothingInIt) {
  for (const size_t bytes : {kMiB, 100 * kMiB, 3 * kGiB}) {
    void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    EXPECT_FALSE(AddressOf(p) - AddressOf(begin_) < kBytes);
    munmap(p, bytes);
  }
}

TEST_P(HoleTest, ChildOfVforkMakesNone) {
  auto* p = static_cast<char*>(Reserve(kBytes, OsPageBytes()));
  const pid_t child = vfork();
  if (child == 0) {
    UnmapUncommitted();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(Commit(p + kBytes / 2, kMiB));
  EXPECT_EQ(mprotect(p + kBytes - kMiB, kMiB, PROT_READ), 0) << "it is still mapped";
  Release(p, kBytes);
}

TEST(ThreadTest, TheStackBoundsHoldTheStack) {
  const auto check = [] {
    const Range stack = CurrentStackBounds();
    const Addr here = AddressOf(__builtin_frame_address(0));
    EXPECT_TRUE(stack.Contains(here));
    EXPECT_GT(stack.bytes(), 64 * kKiB);
  };
  check();
  std::thread(check).join();
}

TEST(ThreadTest, TheLayoutOfThreadLocalStorageIsKnown) {
  EXPECT_TRUE(TlsLayoutIsKnown());
  std::thread([] { EXPECT_TRUE(TlsLayoutIsKnown()); }).join();
}

CHILD_TEST(ThreadTest, TheCpuCountRespectsTheAffinityMask) {
  EXPECT_GE(UsableCpuCount(), 1);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableCpuCount(), 1);
}

TEST(MessagesTest, ComplainWritesOneLineAndLongOnesAreCut) {
  const auto result = testing::RunInChild([] {
    Complain("%d and %s", 5, "text");
    const std::string text(2000, 'x');
    Complain("%s", text.c_str());
    Complain("after");
  });
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.err.substr(0, 20), "gleaner: 5 and text\n");
  EXPECT_EQ(result.err.substr(result.err.size() - 15), "gleaner: after\n");
  EXPECT_LT(result.err.size(), 600u);
}

TEST(MessagesTest, FatalDescribesAndAborts) {
  const auto result = testing::RunInChild([] {
    g_fatal_context = [](const char*) { Complain("the context"); };
    Fatal("number %d", 7);
  });
  EXPECT_TRUE(result.aborted());
  EXPECT_NE(result.err.find("gleaner: fatal: number 7\n"), std::string::npos);
  EXPECT_NE(result.err.find("gleaner: the context\n"), std::string::npos);
}

CHILD_TEST(FiltersTest, ARefusedFilterHidesNone) {
  EXPECT_TRUE(!HasFilter());
  RecordFilter();  // is refused below
  RecordFilter();
  ForgetFilter();
  EXPECT_TRUE(HasFilter());
  EXPECT_TRUE(HasAnyFilter());
}

}  // namespace
}  // namespace gleaner::platform
