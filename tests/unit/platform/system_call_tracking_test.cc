// System calls that write into tracked memory, and into memory that is not tracked any more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

class SystemCallTrackingTest : public ::testing::TestWithParam<TrackingKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, SystemCallTrackingTest, ::testing::ValuesIn(KindsToTest()),
                         [](const auto& info) {
                           std::string name = TraitsOf(info.param).name;
                           std::erase(name, '-');
                           return name;
                         });

// Reads a byte from a file into p by io_uring; `flags` are those of the request. Negative: an error
// number, as of the system.
int ReadByRing(int file, char* p, unsigned flags) {
  io_uring_params params = {};
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 1, &params));
  if (ring < 0) return -errno;
  const auto map = [&](off_t what, size_t bytes) {
    return static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what));
  };
  const size_t submission_bytes = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
  const size_t completion_bytes = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
  char* submission = map(IORING_OFF_SQ_RING, submission_bytes);
  char* completion = map(IORING_OFF_CQ_RING, completion_bytes);
  char* entries = map(IORING_OFF_SQES, sizeof(io_uring_sqe));
  int result = -ENOMEM;
  if (submission != MAP_FAILED && completion != MAP_FAILED && entries != MAP_FAILED) {
    auto* entry = reinterpret_cast<io_uring_sqe*>(entries);
    entry->opcode = IORING_OP_READ;
    entry->flags = static_cast<uint8_t>(flags);
    entry->fd = file;
    entry->addr = AddressOf(p);
    entry->len = 1;
    *reinterpret_cast<uint32_t*>(submission + params.sq_off.array) = 0;
    reinterpret_cast<std::atomic<uint32_t>*>(submission + params.sq_off.tail)->store(1);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) == 1) {
      result = reinterpret_cast<io_uring_cqe*>(completion + params.cq_off.cqes)->res;
    }
  }
  if (submission != MAP_FAILED) munmap(submission, submission_bytes);
  if (completion != MAP_FAILED) munmap(completion, completion_bytes);
  if (entries != MAP_FAILED) munmap(entries, sizeof(io_uring_sqe));
  close(ring);
  return result;
}

// System calls, and their like, that write into memory of the program.
enum class Way { kRead, kReadv, kRecv, kRecvmsg, kPreadv, kFstat, kRing, kRingByWorker };
constexpr Way kWays[] = {Way::kRead,   Way::kReadv, Way::kRecv, Way::kRecvmsg,
                         Way::kPreadv, Way::kFstat, Way::kRing, Way::kRingByWorker};

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
      ok = ok && ReadByRing(ends[0], p, 0) == 1;
      break;
    case Way::kRingByWorker:
      ok = ok && ReadByRing(ends[0], p, IOSQE_ASYNC) == 1;
      break;
  }
  close(ends[0]);
  close(ends[1]);
  return ok;
}

bool HasRing() {
  char byte;
  const int file = open("/dev/zero", O_RDONLY);
  const bool has = ReadByRing(file, &byte, 0) == 1;
  close(file);
  return has;
}

TEST_P(SystemCallTrackingTest, SystemCallsWriteIntoTrackedMemory) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.StartTouched());
    const bool has_ring = HasRing();
    size_t i = 4;
    for (const Way way : kWays) {
      if (!has_ring && (way == Way::kRing || way == Way::kRingByWorker)) continue;
      const int number = static_cast<int>(way);
      i += 30;
      if (!heap.tracking.traits().sees_system_calls && GetParam() == TrackingKind::kProtection) {
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

// Disarmed memory is as it was before: whatever the program or the system does there costs nothing.
TEST_P(SystemCallTrackingTest, DisarmedMemoryIsLikeAnyOther) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.StartTouched());
    // Parts, whose bounds cut a granule, and then the rest of the granule.
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
