// System calls that write into tracked memory, and into memory that is not tracked any more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tests/support/ring.h"
#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

using gleaner::testing::HasRing;
using gleaner::testing::ReadByRing;

class SystemCallTrackingTest : public ::testing::TestWithParam<TrackingKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, SystemCallTrackingTest, ::testing::ValuesIn(KindsToTest()),
                         [](const auto& info) {
                           std::string name = TraitsOf(info.param).name;
                           std::erase(name, '-');
                           return name;
                         });

// System calls, and their like, that write into memory of the program.
enum class Way { kRead, kReadv, kRecv, kRecvmsg, kPreadv, kFstat, kRing, kRingByWorker };

// Reads a byte into p that way. False if the system refuses.
bool ReadInto(Way way, char* p) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  iovec part = {p, 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  bool ok = write(ends[1], "x", 1) == 1;
  switch (way) {
    case Way::kRead:
      ok = ok && read(ends[0], p, 1) == 1;
      break;
    case Way::kReadv:
      ok = ok && readv(ends[0], &part, 1) == 1;
      break;
    case Way::kRecv:
      ok = ok && recv(ends[0], p, 1, 0) == 1;
      break;
    case Way::kRecvmsg:
      ok = ok && recvmsg(ends[0], &message, 0) == 1;
      break;
    case Way::kPreadv: {
      const int file = open("/proc/self/exe", O_RDONLY);
      ok = preadv(file, &part, 1, 1) == 1;
      close(file);
      break;
    }
    case Way::kFstat: {
      struct stat status;
      ok = ok && fstat(ends[0], reinterpret_cast<struct stat*>(p)) == 0 &&
           fstat(ends[0], &status) == 0 && memcmp(p, &status, sizeof status.st_ino) == 0;
      break;
    }
    case Way::kRing:
      ok = ok && ReadByRing(ends[0], p, 1, 0) == 1;
      break;
    case Way::kRingByWorker:
      ok = ok && ReadByRing(ends[0], p, 1, IOSQE_ASYNC) == 1;
      break;
  }
  close(ends[0]);
  close(ends[1]);
  return ok;
}

void CheckWrites(std::initializer_list<Way> ways, TrackingKind kind) {
  EXPECT_CHILD_OK([ways, kind] {
    TrackedHeap heap(kind, 256);
    ASSERT_TRUE(heap.StartTouched());
    size_t i = 4;
    for (const Way way : ways) {
      const int number = static_cast<int>(way);
      i += 30;
      if (!heap.tracking.traits().sees_system_calls && kind == TrackingKind::kProtection) {
        EXPECT_FALSE(ReadInto(way, heap.page(i))) << "EFAULT without Pin, way " << number;
        EXPECT_EQ(heap.FetchAll(), Pages{});
      }
      const auto pinned = heap.tracking.Pin(heap.address(i), heap.address(i) + 1);
      // A fetch while the call is under way may not take the memory away.
      heap.FetchAll();
      EXPECT_TRUE(ReadInto(way, heap.page(i))) << "way " << number << ": " << strerror(errno);
      heap.tracking.MarkDirty(heap.address(i));
      heap.tracking.Unpin(pinned);
      heap.ExpectReported({i}, heap.FetchAll());
      EXPECT_EQ(heap.FetchAll(), Pages{});
    }
  });
}

TEST_P(SystemCallTrackingTest, SystemCallsWriteIntoTrackedMemory) {
  CheckWrites({Way::kRead, Way::kReadv, Way::kRecv, Way::kRecvmsg, Way::kPreadv, Way::kFstat},
              GetParam());
}

TEST_P(SystemCallTrackingTest, RingsWriteIntoTrackedMemory) {
  if (!HasRing()) GTEST_SKIP() << "the system has no io_uring, or refuses it";
  CheckWrites({Way::kRing, Way::kRingByWorker}, GetParam());
}

// Disarmed memory is as it was before: whatever the program or the system does there costs nothing.
TEST_P(SystemCallTrackingTest, DisarmedMemoryIsLikeAnyOther) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.StartTouched());
    // Parts, whose bounds cut a region, and then the rest of the region.
    heap.tracking.Disarm(heap.address(24), heap.address(64));
    EXPECT_TRUE(ReadInto(Way::kRead, heap.page(32)));
    EXPECT_TRUE(ReadInto(Way::kRead, heap.page(63)));
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
      EXPECT_TRUE(ReadInto(Way::kRead, heap.page(i))) << "page " << i;
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
  });
}

}  // namespace
}  // namespace gleaner::platform
