// System calls that write into tracked memory, and into memory that is not tracked any more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/support/by_system.h"
#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

using namespace gleaner::testing;

class SystemCallTrackingTest : public ::testing::TestWithParam<TrackingKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, SystemCallTrackingTest, ::testing::ValuesIn(KindsToTest()),
                         [](const auto& info) {
                           std::string name = TraitsOf(info.param).name;
                           std::erase(name, '-');
                           return name;
                         });

// One byte.
bool ReadInto(const Way& way, char* p) {
  char byte = 'x';
  return MoveBySystem(way, &byte, p, 1);
}

constexpr Way kFstat = {"fstat", false, [](int from, void* to, size_t bytes) {
                          struct stat status;
                          const bool ok = fstat(from, static_cast<struct stat*>(to)) == 0 &&
                                          fstat(from, &status) == 0 &&
                                          memcmp(to, &status, sizeof status.st_ino) == 0;
                          return ok ? static_cast<ssize_t>(bytes) : -1;
                        }};
constexpr Way kRingByWorker = {
    "a ring's worker", false, [](int from, void* to, size_t bytes) -> ssize_t {
      return ReadByRing(from, to, static_cast<unsigned>(bytes), IOSQE_ASYNC);
    }};

void CheckWrites(const std::vector<Way>& ways, TrackingKind kind) {
  EXPECT_CHILD_OK([&ways, kind] {
    TrackedHeap heap(kind, 256);
    ASSERT_TRUE(heap.StartTouched());
    size_t i = 4;
    for (const Way& way : ways) {
      i += 20;
      if (!heap.tracking.traits().sees_system_calls && kind == TrackingKind::kProtection) {
        EXPECT_FALSE(ReadInto(way, heap.page(i))) << "EFAULT without Pin, by " << way.name;
        EXPECT_EQ(heap.FetchAll(), Pages{});
      }
      const auto pinned = heap.tracking.Pin(heap.address(i), heap.address(i) + 1);
      // A fetch while the call is under way may not take the memory away.
      heap.FetchAll();
      EXPECT_TRUE(ReadInto(way, heap.page(i))) << "by " << way.name << ": " << strerror(errno);
      heap.tracking.MarkDirty(heap.address(i));
      heap.tracking.Unpin(pinned);
      heap.ExpectReported({i}, heap.FetchAll());
      EXPECT_EQ(heap.FetchAll(), Pages{});
    }
  });
}

TEST_P(SystemCallTrackingTest, SystemCallsWriteIntoTrackedMemory) {
  std::vector<Way> ways(std::begin(kWays), std::end(kWays));
  ways.push_back(kFstat);
  CheckWrites(ways, GetParam());
}

TEST_P(SystemCallTrackingTest, RingsWriteIntoTrackedMemory) {
  if (!HasRing()) GTEST_SKIP() << "the system has no io_uring, or refuses it";
  CheckWrites({kRing, kRingByWorker}, GetParam());
}

// Disarmed memory is as it was before: whatever the program or the system does there costs nothing.
CHILD_TEST_P(SystemCallTrackingTest, DisarmedMemoryIsLikeAnyOther) {
  TrackedHeap heap(GetParam(), 256);
  ASSERT_TRUE(heap.StartTouched());
  // Parts, whose bounds cut a region, and then the rest of the region.
  heap.tracking.Disarm(heap.address(24), heap.address(64));
  EXPECT_TRUE(ReadInto(kWays[0], heap.page(32)));
  EXPECT_TRUE(ReadInto(kWays[0], heap.page(63)));
  heap.tracking.Disarm(heap.address(16), heap.address(24));
  // No page is left with the kernel's mark of userfaultfd, which would cost a fault.
  constexpr uint64_t kMark = uint64_t{1} << 57;
  const int pagemap = open("/proc/self/pagemap", O_RDONLY);
  for (size_t i = 16; pagemap >= 0 && i < 64; ++i) {
    uint64_t word;
    const auto at = static_cast<off_t>(heap.address(i) / kPage * sizeof word);
    ASSERT_EQ(pread(pagemap, &word, sizeof word, at), ssize_t{sizeof word});
    EXPECT_EQ(word & kMark, 0u) << "page " << i;
  }
  close(pagemap);
  const uint64_t faults = heap.tracking.counts().faults;
  for (size_t i = 16; i < 64; ++i) {
    EXPECT_TRUE(ReadInto(kWays[0], heap.page(i))) << "page " << i;
    heap.Write(i);
  }
  EXPECT_EQ(heap.tracking.counts().faults, faults);
  // Its neighbours stay armed.
  if (heap.tracking.traits().fetch_needs_stopped_world) return;
  EXPECT_EQ(heap.Fetch(0, 16), Pages{});
  EXPECT_EQ(heap.Fetch(64, 256), Pages{});
  heap.Write(15);
  heap.Write(64);
  heap.ExpectReported({15}, heap.Fetch(0, 16));
  heap.ExpectReported({64}, heap.Fetch(64, 256));
}

}  // namespace
}  // namespace gleaner::platform
