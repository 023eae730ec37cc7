#include "platform/write_tracking.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "platform/memory.h"
#include "tests/support/child.h"
#include "tests/support/rounds.h"

namespace gleaner::platform {
namespace {

using gleaner::testing::Rounds;
using Pages = std::set<size_t>;
constexpr size_t kPage = kTrackedPageBytes;
constexpr size_t kPagesPerGranule = kGranuleBytes / kPage;
constexpr size_t kCardsPerPage = kPage / kCardBytes;

// A heap of its own with its tracker. Pages are numbered from its beginning.
class TrackedHeap {
 public:
  TrackedHeap(TrackingKind kind, size_t pages, size_t max_mappings = 0)
      : pages_(pages), bytes_(AlignUp(pages * kPage, 4 * kMiB)) {
    base_ = static_cast<char*>(Reserve(kReserved, 4 * kMiB));
    TrackingConfig config;
    config.base = AddressOf(base_);
    config.bytes = kReserved;
    config.max_mappings = max_mappings;
    ok_ = base_ != nullptr && Commit(base_, bytes_) && tracking.Open(kind, config) &&
          tracking.CoverUpTo(AddressOf(base_) + bytes_);
  }
  ~TrackedHeap() {
    tracking.Close();
    if (base_ != nullptr) Release(base_, kReserved);
  }

  bool ok() const { return ok_; }
  char* page(size_t i) const { return base_ + i * kPage; }
  Addr address(size_t i) const { return AddressOf(page(i)); }
  size_t pages() const { return pages_; }

  void Write(size_t i, size_t offset = 8) {
    auto* word = reinterpret_cast<std::atomic<uint64_t>*>(page(i) + offset);
    word->store(word->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    tracking.MarkDirty(AddressOf(word));
  }
  void TouchAll() {
    for (size_t i = 0; i < pages_; ++i) page(i)[0] = 1;
  }
  bool Arm(size_t first, size_t end) {
    const bool armed = tracking.Arm(address(first), address(end));
    tracking.FinishRound();
    return armed;
  }
  bool ArmAll() { return Arm(0, pages_); }
  Pages Fetch(size_t first, size_t end) {
    struct Found {
      TrackedHeap* heap;
      Pages pages;
    } found = {this, {}};
    tracking.FetchAndRearm(
        address(first), address(end),
        [](void* context, Addr from, Addr to) {
          auto* into = static_cast<Found*>(context);
          for (Addr a = AlignDown(from, kPage); a < to; a += kPage) {
            into->pages.insert((a - into->heap->address(0)) / kPage);
          }
        },
        &found);
    tracking.FinishRound();
    return found.pages;
  }
  Pages FetchAll() { return Fetch(0, pages_); }

  // Pages that may be reported along with one that was written.
  size_t precision() const {
    if (tracking.kind() == TrackingKind::kProtection) return kPagesPerGranule;
    return tracking.kind() == TrackingKind::kSoftDirty ? 512 : 1;  // a huge page
  }
  void ExpectReported(const Pages& written, const Pages& found) const {
    for (const size_t i : written) EXPECT_TRUE(found.count(i)) << "page " << i;
    Pages allowed;
    for (const size_t i : written) allowed.insert(i / precision());
    for (const size_t i : found) EXPECT_TRUE(allowed.count(i / precision())) << "page " << i;
  }

  WriteTracking tracking;

 private:
  static constexpr size_t kReserved = 16 * kGiB;
  size_t pages_;
  size_t bytes_;
  char* base_ = nullptr;
  bool ok_ = false;
};

// Those that every system has, and those that this one has besides.
std::vector<TrackingKind> KindsToTest() {
  std::vector<TrackingKind> kinds = {TrackingKind::kProtection, TrackingKind::kCards};
  for (const TrackingKind kind : {TrackingKind::kUserfaultfd, TrackingKind::kSoftDirty}) {
    if (WriteTracking::Works(kind)) kinds.push_back(kind);
  }
  return kinds;
}

class WriteTrackingTest : public ::testing::TestWithParam<TrackingKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, WriteTrackingTest, ::testing::ValuesIn(KindsToTest()),
                         [](const auto& info) {
                           std::string name = TraitsOf(info.param).name;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(WriteTrackingTest, ItIsFoundToWork) {
  EXPECT_CHILD_OK([] { EXPECT_TRUE(WriteTracking::Works(GetParam())); });
}

TEST_P(WriteTrackingTest, AWriteIsReportedOnce) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
    for (int round = 0; round < 3; ++round) {
      for (const size_t i : {0, 17, 18, 100, 255}) heap.Write(i);
      heap.Write(17);
      heap.ExpectReported({0, 17, 18, 100, 255}, heap.FetchAll());
      EXPECT_EQ(heap.FetchAll(), Pages{});
    }
  });
}

TEST_P(WriteTrackingTest, NeighboursAreReportedAsOneRange) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 1024);
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    for (size_t i = 16; i < 48; ++i) {
      for (size_t offset = 0; offset < kPage; offset += kCardBytes) heap.Write(i, offset);
    }
    int ranges = 0;
    const size_t bytes = heap.tracking.FetchAndRearm(
        heap.address(0), heap.address(1024),
        [](void* context, Addr, Addr) { ++*static_cast<int*>(context); }, &ranges);
    EXPECT_EQ(ranges, 1);
    EXPECT_EQ(bytes, 32 * kPage);
  });
}

TEST_P(WriteTrackingTest, WhatWasWrittenBeforeArmingIsForgotten) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    heap.Write(3);
    ASSERT_TRUE(heap.ArmAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
    heap.Write(4);
    ASSERT_TRUE(heap.ArmAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
  });
}

TEST_P(WriteTrackingTest, ReadsDoNotDirty) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    for (size_t i = 0; i < 128; ++i) heap.Write(i);  // the others stay untouched
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    uint64_t sum = 0;
    for (size_t i = 0; i < 256; ++i) sum += *reinterpret_cast<volatile uint64_t*>(heap.page(i));
    EXPECT_EQ(sum, 0u);
    EXPECT_EQ(heap.FetchAll(), Pages{});
  });
}

TEST_P(WriteTrackingTest, FirstWritesToUntouchedPagesAreReported) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 2048);
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    const Pages written = {5, 511, 512, 1500};
    for (const size_t i : written) heap.Write(i);
    heap.ExpectReported(written, heap.FetchAll());
  });
}

TEST_P(WriteTrackingTest, PartsAreArmedFetchedAndDisarmedByThemselves) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    // Heap pages of 16 KiB that share a granule, and such that do not.
    ASSERT_TRUE(heap.Arm(20, 24));
    ASSERT_TRUE(heap.Arm(28, 32));
    ASSERT_TRUE(heap.Arm(64, 128));
    for (size_t i = 0; i < 256; ++i) heap.Write(i);
    // Whoever needs a stopped world fetches all that is armed, or loses it.
    if (heap.tracking.traits().fetch_needs_stopped_world) return;
    EXPECT_EQ(heap.Fetch(20, 24), (Pages{20, 21, 22, 23}));
    EXPECT_EQ(heap.Fetch(20, 24), Pages{});
    EXPECT_EQ(heap.Fetch(28, 32), (Pages{28, 29, 30, 31}));
    EXPECT_EQ(heap.Fetch(28, 32), Pages{});
    heap.Write(29);
    heap.ExpectReported({29}, heap.Fetch(28, 32));
    EXPECT_EQ(heap.Fetch(28, 32), Pages{});
    EXPECT_EQ(heap.Fetch(64, 128).size(), 64u);
    heap.tracking.Disarm(heap.address(20), heap.address(24));
    heap.tracking.Disarm(heap.address(64), heap.address(96));
    for (size_t i = 0; i < 256; ++i) heap.Write(i);
    EXPECT_EQ(heap.Fetch(28, 32), (Pages{28, 29, 30, 31}));
    EXPECT_EQ(heap.Fetch(96, 128).size(), 32u);
  });
}

TEST_P(WriteTrackingTest, DiscardedPagesAreTrackedWhenTheyAreUsedAgain) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    Discard(heap.page(32), 64 * kPage);
    heap.Write(40);
    EXPECT_TRUE(heap.FetchAll().count(40));
    Discard(heap.page(32), 64 * kPage);
    heap.FetchAll();
    heap.Write(50);
    EXPECT_TRUE(heap.FetchAll().count(50));
    heap.Write(40);
    EXPECT_TRUE(heap.FetchAll().count(40));
    EXPECT_EQ(heap.FetchAll(), Pages{});
  });
}

TEST_P(WriteTrackingTest, HugePagesAreTrackedBySmallOnes) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 4096);
    ASSERT_TRUE(heap.ok());
    AdviseHugePages(heap.page(0), 4096 * kPage);
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
    const Pages written = {0, 700, 701, 2047, 4095};
    for (const size_t i : written) heap.Write(i);
    heap.ExpectReported(written, heap.FetchAll());
    for (const size_t i : written) heap.Write(i);
    heap.ExpectReported(written, heap.FetchAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
  });
}

TEST_P(WriteTrackingTest, LockedMemoryIsTracked) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 8);
    ASSERT_TRUE(heap.ok());
    ASSERT_EQ(mlock(heap.page(0), 8 * kPage), 0);
    ASSERT_TRUE(heap.ArmAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
    heap.Write(5);
    heap.ExpectReported({5}, heap.FetchAll());
  });
}

TEST_P(WriteTrackingTest, MemoryCommittedWhileOtherMemoryIsArmedIsTracked) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 1024);  // 4 MiB
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    ASSERT_TRUE(Commit(heap.page(1024), 1024 * kPage));
    ASSERT_TRUE(heap.tracking.CoverUpTo(heap.address(2048)));
    heap.Write(1030);
    heap.Write(9);
    heap.ExpectReported({9}, heap.FetchAll());
    ASSERT_TRUE(heap.Arm(1024, 2048));
    heap.Fetch(0, 2048);
    heap.Write(2047);
    heap.ExpectReported({2047}, heap.Fetch(0, 2048));
  });
}

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

TEST_P(WriteTrackingTest, SystemCallsWriteIntoTrackedMemory) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
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
TEST_P(WriteTrackingTest, DisarmedMemoryIsLikeAnyOther) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
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

TEST_P(WriteTrackingTest, PinsOutsideOfTheHeapAndTooLongOnesAreHarmless) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    char local[64];
    heap.tracking.Unpin(heap.tracking.Pin(AddressOf(local), AddressOf(local) + sizeof local));
    heap.tracking.Unpin(heap.tracking.Pin(0, 100));
    const auto pinned = heap.tracking.Pin(heap.address(200), heap.address(200) + (1u << 31));
    ASSERT_TRUE(Commit(heap.page(1024), 1024 * kPage));
    ASSERT_TRUE(heap.tracking.CoverUpTo(heap.address(2048)));
    heap.tracking.Unpin(pinned);
    heap.FetchAll();
    heap.Write(201);
    heap.ExpectReported({201}, heap.FetchAll());
    heap.tracking.MarkDirty(AddressOf(local));
    heap.tracking.MarkDirty(heap.address(4000));
    heap.tracking.MarkDirty(~Addr{0});
    EXPECT_EQ(heap.FetchAll(), Pages{});
  });
}

TEST_P(WriteTrackingTest, AForkedChildStartsAnewAndLeavesTheParentAlone) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    heap.Write(7);
    EXPECT_CHILD_OK([&] {
      heap.tracking.ResetInChild();
      for (size_t i = 0; i < 256; ++i) heap.Write(i);
      ASSERT_TRUE(heap.ArmAll());
      EXPECT_EQ(heap.FetchAll(), Pages{});
      heap.Write(99);
      heap.ExpectReported({99}, heap.FetchAll());
    });
    heap.Write(150);
    heap.ExpectReported({7, 150}, heap.FetchAll());
    EXPECT_EQ(heap.FetchAll(), Pages{});
  });
}

TEST_P(WriteTrackingTest, AForkThatNobodyToldOfLosesNothing) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(GetParam(), 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    EXPECT_CHILD_OK([&] {
      heap.Write(99);
      EXPECT_TRUE(heap.FetchAll().count(99));
      heap.Write(99);
      EXPECT_TRUE(heap.FetchAll().count(99));
    });
    EXPECT_EQ(heap.FetchAll(), Pages{});
    heap.Write(1);
    heap.ExpectReported({1}, heap.FetchAll());
  });
}

TEST_P(WriteTrackingTest, ManyScatteredPages) {
  EXPECT_CHILD_OK([] {
    constexpr size_t kPages = 40'000;
    TrackedHeap heap(GetParam(), kPages);
    ASSERT_TRUE(heap.ok());
    AdviseHugePages(heap.page(0), kPages * kPage);
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < kPages; i += 2) heap.Write(i * 77'773 % kPages / 2 * 2);
      const Pages found = heap.FetchAll();
      for (size_t i = 0; i < kPages; i += 2) ASSERT_TRUE(found.count(i)) << i;
      EXPECT_EQ(heap.FetchAll(), Pages{});
    }
  });
}

// The model: every card's worth of memory has a version, in its second word. A visitor that is
// given the memory copies the version; when mutators rest and the last fetch is done, every copy is
// right, or a write was lost.
class Model {
 public:
  explicit Model(TrackedHeap& heap) : heap_(heap), copies_(heap.pages() * kCardsPerPage) {}

  void Visit(Addr begin, Addr end) {
    for (size_t i = (begin - heap_.address(0)) / kCardBytes; begin < end; begin += kCardBytes) {
      copies_[i++].store(Version(begin), std::memory_order_relaxed);
    }
  }
  static void VisitDirtyRange(void* context, Addr begin, Addr end) {
    static_cast<Model*>(context)->Visit(begin, end);
  }
  size_t StaleCopies() const {
    size_t stale = 0;
    Addr at = heap_.address(0);
    for (const auto& copy : copies_) {
      stale += copy.load(std::memory_order_relaxed) != Version(at);
      at += kCardBytes;
    }
    return stale;
  }

 private:
  static uint64_t Version(Addr card) {
    return PointerAt<std::atomic<uint64_t>>(card + 8)->load(std::memory_order_relaxed);
  }
  TrackedHeap& heap_;
  std::vector<std::atomic<uint64_t>> copies_;
};

// Mutators that write, discard and make system calls until they are told to rest.
class Mutators {
 public:
  Mutators(TrackedHeap& heap, size_t threads, uint64_t seed) : heap_(heap) {
    for (size_t t = 0; t < threads; ++t) {
      threads_.emplace_back([this, t, threads, seed] { Run(t, threads, seed); });
    }
  }
  ~Mutators() {
    Rest();
    end_ = true;
    Go();
    for (auto& thread : threads_) thread.join();
  }
  void Rest() {
    rest_ = true;
    AwaitResting(threads_.size());
  }
  void Go() {
    rest_ = false;
    rest_.notify_all();
    AwaitResting(0);
  }

 private:
  // Nobody spins: on a loaded machine the others need the time.
  void AwaitResting(size_t count) {
    for (size_t now; (now = resting_) != count;) resting_.wait(now);
  }
  void Run(size_t thread, size_t threads, uint64_t seed) {
    std::mt19937_64 random(seed * 1000 + thread);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    while (!end_) {
      if (rest_) {
        ++resting_;
        resting_.notify_all();
        rest_.wait(true);
        --resting_;
        resting_.notify_all();
        continue;
      }
      // Pages of one granule belong to different threads.
      const size_t i = random() % (heap_.pages() / threads) * threads + thread;
      const uint64_t version = ++version_;
      char* slot = heap_.page(i) + random() % kCardsPerPage * kCardBytes + 8;
      const uint64_t what = random() % 256;
      if (what < 4) {
        const auto pinned = heap_.tracking.Pin(AddressOf(slot), AddressOf(slot) + sizeof version);
        EXPECT_EQ(write(ends[1], &version, sizeof version), ssize_t{sizeof version});
        EXPECT_EQ(read(ends[0], slot, sizeof version), ssize_t{sizeof version});
        heap_.tracking.MarkDirty(AddressOf(slot));
        heap_.tracking.Unpin(pinned);
        continue;
      }
      if (what < 8) {  // and say so: the store after it is of one card
        Discard(heap_.page(i), kPage);
        for (size_t card = 0; card < kCardsPerPage; ++card) {
          heap_.tracking.MarkDirty(heap_.address(i) + card * kCardBytes);
        }
      }
      reinterpret_cast<std::atomic<uint64_t>*>(slot)->store(version, std::memory_order_relaxed);
      heap_.tracking.MarkDirty(AddressOf(slot));
      for (uint64_t pause = what % 32; pause != 0; --pause) CpuRelax();
    }
    close(ends[0]);
    close(ends[1]);
  }

  TrackedHeap& heap_;
  std::atomic<bool> rest_{false}, end_{false};
  std::atomic<size_t> resting_{0};
  std::atomic<uint64_t> version_{0};
  std::vector<std::thread> threads_;
};

// Fetches the heap once, or, on request, arms it again and looks at all of it, with two threads and
// bounds that cut granules.
void FetchInParallel(TrackedHeap& heap, Model& model, bool arm, size_t cut) {
  const auto part = [&](size_t first, size_t end) {
    if (arm) {
      heap.tracking.Arm(heap.address(first), heap.address(end));  // may be refused: dirty then
      std::atomic_thread_fence(std::memory_order_seq_cst);
      model.Visit(heap.address(first), heap.address(end));
    } else {
      heap.tracking.FetchAndRearm(heap.address(first), heap.address(end), Model::VisitDirtyRange,
                                  &model);
    }
  };
  std::thread other(part, cut, heap.pages());
  part(0, cut);
  other.join();
  heap.tracking.FinishRound();
}

TEST_P(WriteTrackingTest, EveryWriteAfterAFetchIsSeenByALaterOne) {
  EXPECT_CHILD_OK([] {
    const uint64_t seed = std::random_device()();
    fprintf(stderr, "seed %lu\n", seed);
    std::mt19937_64 random(seed);
    TrackedHeap heap(GetParam(), 512);
    ASSERT_TRUE(heap.ok());
    Model model(heap);
    const bool stop = heap.tracking.traits().fetch_needs_stopped_world;
    ASSERT_TRUE(heap.ArmAll());
    model.Visit(heap.address(0), heap.address(512));
    Mutators mutators(heap, 3, seed);
    for (Rounds rounds(60); rounds.Next();) {
      for (int fetch = 0; fetch < 12; ++fetch) {
        const size_t cut = 4 * (1 + random() % 126);
        const bool arm = random() % 16 == 0;
        if (stop) mutators.Rest();
        FetchInParallel(heap, model, arm, cut);
        if (stop) mutators.Go();
      }
      mutators.Rest();
      FetchInParallel(heap, model, false, 256);
      ASSERT_EQ(model.StaleCopies(), 0u) << "round " << rounds.current() << ", seed " << seed;
      mutators.Go();
    }
  });
}

TEST(NoTrackingTest, EverythingCountsAsWritten) {
  TrackedHeap heap(TrackingKind::kNone, 16);
  ASSERT_TRUE(heap.ok());
  EXPECT_FALSE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll().size(), 16u);
  EXPECT_TRUE(WriteTracking::Works(TrackingKind::kNone));
}

// --- userfaultfd ---

class UserfaultfdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!WriteTracking::Works(TrackingKind::kUserfaultfd)) GTEST_SKIP() << "not to be had here";
  }
};

// The tests above leave out a mechanism that does not work: it must not be for our own mistake.
TEST(UserfaultfdKernelTest, ItWorksWhereTheKernelHasIt) {
  const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  uffdio_api api = {};
  api.api = UFFD_API;
  // Asynchronous mode, which came together with PAGEMAP_SCAN, and pages that were never touched.
  constexpr uint64_t kFeatures = uint64_t{1} << 15 | uint64_t{1} << 13;
  api.features = kFeatures;
  const bool has = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0;
  if (fd >= 0) close(fd);
  if (!has) GTEST_SKIP() << "an older kernel, or it is refused here";
  EXPECT_TRUE(WriteTracking::Works(TrackingKind::kUserfaultfd));
}

template <class F>
void ExpectNothingLost(F take_descriptors) {
  TrackedHeap heap(TrackingKind::kUserfaultfd, 256);
  ASSERT_TRUE(heap.ok());
  heap.TouchAll();
  ASSERT_TRUE(heap.ArmAll());
  EXPECT_EQ(heap.FetchAll(), Pages{});
  for (int round = 0; round < 3; ++round) {
    take_descriptors();
    heap.Write(70);
    EXPECT_TRUE(heap.FetchAll().count(70));
    heap.FetchAll();
    heap.Write(71);
    heap.ExpectReported({71}, heap.FetchAll());
  }
  EXPECT_EQ(heap.tracking.counts().registrations, 4u);
}

TEST_F(UserfaultfdTest, AProgramMayCloseAllDescriptors) {
  EXPECT_CHILD_OK([] {
    ExpectNothingLost([] {
      for (int fd = 3; fd < 1024; ++fd) close(fd);
    });
  });
}

TEST_F(UserfaultfdTest, TheRegistrationAloneMayBeLost) {
  EXPECT_CHILD_OK([] {
    ExpectNothingLost([] {
      for (int fd = 3; fd < 1024; ++fd) {
        const std::string link = "/proc/self/fd/" + std::to_string(fd);
        char target[64] = {};
        if (readlink(link.c_str(), target, sizeof target - 1) > 0 &&
            strstr(target, "userfaultfd") != nullptr) {
          close(fd);
        }
      }
    });
  });
}

TEST_F(UserfaultfdTest, AProgramMayPutItsFilesInThePlaceOfOurs) {
  EXPECT_CHILD_OK([] {
    const int file = open("/dev/zero", O_RDWR);
    ASSERT_GE(file, 0);
    ExpectNothingLost([&] {
      for (int fd = file + 1; fd < 1024; ++fd) {
        if (fcntl(fd, F_GETFD) >= 0) dup2(file, fd);
      }
    });
    // Its files are still its own: two for each round.
    struct stat zero;
    ASSERT_EQ(fstat(file, &zero), 0);
    int still_open = 0;
    for (int fd = 768; fd < 1024; ++fd) {
      struct stat status;
      still_open += fstat(fd, &status) == 0 && status.st_rdev == zero.st_rdev;
    }
    EXPECT_EQ(still_open, 6);
  });
}

TEST_F(UserfaultfdTest, WithoutFreeDescriptorsEverythingIsDirty) {
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(TrackingKind::kUserfaultfd, 256);
    ASSERT_TRUE(heap.ok());
    heap.TouchAll();
    ASSERT_TRUE(heap.ArmAll());
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    const rlimit none = {3, 1024};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(heap.FetchAll().size(), 256u);
    EXPECT_EQ(heap.FetchAll().size(), 256u);
    EXPECT_FALSE(heap.ArmAll());
    const rlimit some = {1024, 1024};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &some), 0);
    EXPECT_TRUE(heap.ArmAll());
    heap.Write(3);
    heap.ExpectReported({3}, heap.FetchAll());
  });
}

TEST_F(UserfaultfdTest, DescriptorsAreLostWhileOthersFetch) {
  EXPECT_CHILD_OK([] {
    const uint64_t seed = std::random_device()();
    fprintf(stderr, "seed %lu\n", seed);
    std::mt19937_64 random(seed);
    TrackedHeap heap(TrackingKind::kUserfaultfd, 512);
    ASSERT_TRUE(heap.ok());
    Model model(heap);
    ASSERT_TRUE(heap.ArmAll());
    model.Visit(heap.address(0), heap.address(512));
    Mutators mutators(heap, 2, seed);
    for (Rounds rounds(60); rounds.Next();) {
      for (int fetch = 0; fetch < 6; ++fetch) {
        std::thread closer([] {
          // The mutators' pipes are below.
          for (int fd = 768; fd < 800; ++fd) close(fd);
        });
        FetchInParallel(heap, model, random() % 8 == 0, 4 * (1 + random() % 126));
        closer.join();
      }
      mutators.Rest();
      FetchInParallel(heap, model, false, 256);
      ASSERT_EQ(model.StaleCopies(), 0u) << "round " << rounds.current() << ", seed " << seed;
      mutators.Go();
    }
    EXPECT_GT(heap.tracking.counts().registrations, 1u);
  });
}

TEST_F(UserfaultfdTest, AnOrdinaryUserGetsIt) {
  EXPECT_CHILD_OK([] {
    if (getuid() == 0) {
      ASSERT_EQ(setuid(65534), 0);
      // As for programs that an ordinary user starts.
      ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
    EXPECT_EQ(WriteTracking::BestKind(), TrackingKind::kUserfaultfd);
  });
}

TEST_F(UserfaultfdTest, ADaemonThatDropsItsRightsGetsProtectionOrKeepsWhatItHas) {
  if (getuid() != 0) GTEST_SKIP() << "only root has rights to drop";
  EXPECT_CHILD_OK([] {
    TrackedHeap heap(TrackingKind::kUserfaultfd, 256);
    ASSERT_TRUE(heap.ok());
    ASSERT_EQ(setuid(65534), 0);
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    heap.Write(3);
    heap.ExpectReported({3}, heap.FetchAll());
    EXPECT_EQ(WriteTracking::BestKind(), TrackingKind::kProtection);  // no /proc/self/pagemap
  });
}

// Makes a system call fail with EPERM from here on, in this process; with `argument`, only if its
// second argument is that.
void Refuse(uint32_t number, uint32_t argument = 0) {
  const uint16_t compare = argument == 0 ? BPF_JGE : BPF_JEQ;
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(static_cast<uint16_t>(BPF_JMP | compare | BPF_K), argument, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(program), const_cast<sock_filter*>(program)};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0) << strerror(errno);
}

void ExpectProtectionInstead() {
  EXPECT_FALSE(WriteTracking::Works(TrackingKind::kUserfaultfd));
  ASSERT_EQ(WriteTracking::BestKind(), TrackingKind::kProtection);
  TrackedHeap heap(TrackingKind::kProtection, 256);
  ASSERT_TRUE(heap.ok());
  ASSERT_TRUE(heap.ArmAll());
  heap.Write(3);
  heap.ExpectReported({3}, heap.FetchAll());
}

TEST(FallbackTest, UserfaultfdRefusedBySeccompProtectionTakesItsPlace) {
  EXPECT_CHILD_OK([] {
    Refuse(SYS_userfaultfd);
    Refuse(SYS_ioctl, static_cast<uint32_t>(_IO(0xAA, 0)));  // of /dev/userfaultfd
    ExpectProtectionInstead();
  });
}

TEST(FallbackTest, WithoutPagemapScanProtectionTakesItsPlace) {
  EXPECT_CHILD_OK([] {
    Refuse(SYS_ioctl, static_cast<uint32_t>(_IOWR('f', 16, char[96])));
    ExpectProtectionInstead();
  });
}

TEST(FallbackTest, WithoutSignalHandlersEitherNothingIsTracked) {
  EXPECT_CHILD_OK([] {
    Refuse(SYS_userfaultfd);
    Refuse(SYS_ioctl, static_cast<uint32_t>(_IO(0xAA, 0)));
    Refuse(SYS_rt_sigaction);
    EXPECT_FALSE(WriteTracking::Works(TrackingKind::kProtection));
    EXPECT_EQ(WriteTracking::BestKind(), TrackingKind::kNone);
  });
}

TEST(FallbackTest, AnOrdinaryUserWhoIsRefusedUserfaultfdGetsProtection) {
  EXPECT_CHILD_OK([] {
    if (getuid() == 0) {
      ASSERT_EQ(setuid(65534), 0);
      ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
    Refuse(SYS_userfaultfd);  // /dev/userfaultfd is root's
    ExpectProtectionInstead();
  });
}

// --- mprotect ---

size_t MappingsOfProcess() {
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

// Writes to every other granule, twice over, and expects all of it to be reported.
void ExpectScatteredGranulesWork(TrackedHeap& heap) {
  for (int round = 0; round < 2; ++round) {
    Pages written;
    for (size_t i = 0; i < heap.pages(); i += 2 * kPagesPerGranule) {
      heap.Write(i);
      written.insert(i);
    }
    const Pages found = heap.FetchAll();
    for (const size_t i : written) ASSERT_TRUE(found.count(i)) << i;
  }
}

TEST(ProtectionTest, StaysWithinItsBudgetOfMappings) {
  EXPECT_CHILD_OK([] {
    for (const size_t budget : {1000, 100, 10, 1}) {
      TrackedHeap heap(TrackingKind::kProtection, 64 * 1024, budget);  // 256 MiB, 4096 granules
      ASSERT_TRUE(heap.ok());
      heap.Write(0);  // one mapping that has been written to, as heaps are
      ASSERT_TRUE(heap.ArmAll());
      const size_t before = MappingsOfProcess();
      size_t most = before;
      for (size_t i = 0; i < heap.pages(); i += 2 * kPagesPerGranule) {
        heap.Write(i * 2357 % heap.pages());
        if (i % (64 * kPagesPerGranule) == 0) most = std::max(most, MappingsOfProcess());
      }
      EXPECT_LE(most, before + budget + 4) << "budget " << budget;
      if (budget >= 1000) {
        EXPECT_GE(most, before + budget / 4);
      }
      ExpectScatteredGranulesWork(heap);
      EXPECT_EQ(heap.tracking.counts().refusals, 0u);
    }
  });
}

#ifndef __SANITIZE_ADDRESS__  // whose allocator needs mappings
// Leaves the process room for `left` more mappings.
void UseUpMappings(size_t left) {
  // malloc must do without new ones.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  void* volatile spare = malloc(16 << 20);
  free(spare);
  constexpr size_t kBytes = 1 * kGiB;
  char* p = static_cast<char*>(Reserve(kBytes, kPage));
  ASSERT_NE(p, nullptr);
  // Every other page of another protection: two mappings for each.
  size_t i = 0;
  for (; i + 2 * kPage < kBytes; i += 2 * kPage) {
    if (!Commit(p + i, kPage)) break;
  }
  ASSERT_LT(i + 2 * kPage, kBytes);
  for (size_t back = 0; back < left; back += 2) {
    i -= 2 * kPage;
    ASSERT_EQ(mprotect(p + i, kPage, PROT_NONE), 0);
  }
}

TEST(ProtectionTest, LosesNothingWhenThereAreNoMappingsLeft) {
  for (const size_t left : {0, 2, 20}) {
    EXPECT_CHILD_OK([left] {
      TrackedHeap heap(TrackingKind::kProtection, 8 * 1024);
      ASSERT_TRUE(heap.ok());
      UseUpMappings(left);
      // Half of it is armed before, so that it is not one mapping. May be refused.
      heap.Arm(0, heap.pages() / 2);
      heap.ArmAll();
      ExpectScatteredGranulesWork(heap);
      if (left < 20) {
        EXPECT_GT(heap.tracking.counts().refusals, 0u);
      }
    });
  }
}

TEST(ProtectionTest, LosesNothingWhenMutatorsCompeteForTheLastMappings) {
  EXPECT_CHILD_OK([] {
    const uint64_t seed = std::random_device()();
    fprintf(stderr, "seed %lu\n", seed);
    TrackedHeap heap(TrackingKind::kProtection, 4 * 1024);
    ASSERT_TRUE(heap.ok());
    Model model(heap);
    heap.ArmAll();
    model.Visit(heap.address(0), heap.address(heap.pages()));
    Mutators mutators(heap, 3, seed);
    mutators.Rest();
    UseUpMappings(6);
    mutators.Go();
    for (Rounds rounds(100); rounds.Next();) {
      for (int fetch = 0; fetch < 4; ++fetch) {
        heap.tracking.FetchAndRearm(heap.address(0), heap.address(heap.pages()),
                                    Model::VisitDirtyRange, &model);
      }
      mutators.Rest();
      heap.tracking.FetchAndRearm(heap.address(0), heap.address(heap.pages()),
                                  Model::VisitDirtyRange, &model);
      ASSERT_EQ(model.StaleCopies(), 0u) << "round " << rounds.current() << ", seed " << seed;
      mutators.Go();
    }
  });
}

#endif  // __SANITIZE_ADDRESS__

// Shows this process, and no other, a limit on mappings. False if it has not the right.
bool ShowMapCount(const char* limit) {
  char path[] = "/tmp/gleaner_test_XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return false;
  const auto length = static_cast<ssize_t>(strlen(limit));
  const bool shown = write(file, limit, strlen(limit)) == length && unshare(CLONE_NEWNS) == 0 &&
                     mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                     mount(path, "/proc/sys/vm/max_map_count", nullptr, MS_BIND, nullptr) == 0;
  close(file);
  unlink(path);
  return shown;
}

TEST(ProtectionTest, WorksWithAMapCountOfAThousand) {
  const auto allowed = gleaner::testing::RunInChild([] { ASSERT_TRUE(ShowMapCount("1000\n")); });
  if (!allowed.ok()) GTEST_SKIP() << "a mount namespace is not to be had here";
  EXPECT_CHILD_OK([] {
    ASSERT_TRUE(ShowMapCount("1000\n"));
    TrackedHeap heap(TrackingKind::kProtection, 128 * 1024);  // 512 MiB
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    ExpectScatteredGranulesWork(heap);
    EXPECT_LT(MappingsOfProcess(), 700u);
    EXPECT_EQ(heap.tracking.counts().refusals, 0u);
  });
}

TEST(ProtectionTest, PagesThatTheProgramProtectsAreItsOwnBusiness) {
  const auto result = gleaner::testing::RunInChild([] {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer may have a handler
    TrackedHeap heap(TrackingKind::kProtection, 256);
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    heap.Write(30);
    ASSERT_EQ(mprotect(heap.page(30), kPage, PROT_NONE), 0);
    heap.Write(30);
  });
  EXPECT_TRUE(WIFSIGNALED(result.status));
  EXPECT_EQ(WTERMSIG(result.status), SIGSEGV);
}

TEST(ProtectionTest, OneTrackerAtATime) {
  EXPECT_CHILD_OK([] {
    TrackedHeap one(TrackingKind::kProtection, 256);
    ASSERT_TRUE(one.ok());
    TrackedHeap two(TrackingKind::kProtection, 256);
    EXPECT_FALSE(two.ok());
    EXPECT_EQ(two.tracking.kind(), TrackingKind::kNone);
    ASSERT_TRUE(one.ArmAll());
    one.Write(1);
    one.ExpectReported({1}, one.FetchAll());
  });
}

// --- soft-dirty bits ---

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
  }
  bool Open() { return tracking_.Open(pagemap_.c_str(), clear_refs_.c_str()); }
  Ranges Fetch() {
    Ranges found;
    const size_t bytes = tracking_.Fetch(
        kFirst * kPage, kEnd * kPage,
        [](void* context, Addr begin, Addr end) {
          static_cast<Ranges*>(context)->emplace_back(begin / kPage, end / kPage);
        },
        &found);
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

TEST_F(SoftDirtyFilesTest, WhatCannotBeReadOrClearedIsDirty) {
  WritePagemap({{kFirst + 3, kFirst + 4}}, kFirst + 700);
  ASSERT_TRUE(Open());
  ASSERT_TRUE(tracking_.ClearAll());
  EXPECT_EQ(Fetch(), (Ranges{{kFirst + 3, kFirst + 4}, {kFirst + 700, kEnd}}));
  // Half a word is none.
  ASSERT_EQ(truncate(pagemap_.c_str(), (kFirst + 600) * 8 + 4), 0);
  EXPECT_EQ(Fetch(), (Ranges{{kFirst + 3, kFirst + 4}, {kFirst + 600, kEnd}}));
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
    EXPECT_EQ(Fetch(), all_) << "its bits were never cleared";
    ASSERT_TRUE(tracking_.ClearAll());
    EXPECT_EQ(Fetch(), Ranges{});
  });
  EXPECT_EQ(Fetch(), Ranges{});
}

// --- cards ---

TEST(CardsTest, AreReportedBy512Bytes) {
  TrackedHeap heap(TrackingKind::kCards, 16);
  ASSERT_TRUE(heap.ok());
  ASSERT_TRUE(heap.ArmAll());
  heap.Write(3, 1000);
  heap.Write(3, 1024);
  heap.Write(5, 0);
  std::vector<Addr> bounds;
  heap.tracking.FetchAndRearm(
      heap.address(0), heap.address(16),
      [](void* context, Addr begin, Addr end) {
        auto* found = static_cast<std::vector<Addr>*>(context);
        found->push_back(begin);
        found->push_back(end);
      },
      &bounds);
  EXPECT_EQ(bounds, (std::vector<Addr>{heap.address(3) + 512, heap.address(3) + 1536,
                                       heap.address(5), heap.address(5) + 512}));
}

// The card is dirty when both come: the fetch takes the older mark away and must then see the newer
// store, or leave its mark.
TEST(CardsTest, AStoreDuringAFetchIsNotLost) {
  TrackedHeap heap(TrackingKind::kCards, 16);
  ASSERT_TRUE(heap.ok());
  ASSERT_TRUE(heap.ArmAll());
  auto* slot = reinterpret_cast<std::atomic<uint64_t>*>(heap.page(3) + 8);
  const auto copy_slot = [](void* context, Addr begin, Addr) {
    *static_cast<uint64_t*>(context) =
        reinterpret_cast<std::atomic<uint64_t>*>(begin + 8)->load(std::memory_order_relaxed);
  };
  uint64_t copy = 0;
  const auto fetch = [&] {
    heap.tracking.FetchAndRearm(heap.address(3), heap.address(4), copy_slot, &copy);
  };
  constexpr uint64_t kEnd = ~uint64_t{0};
  std::atomic<uint64_t> begun{0}, ended{0};
  const auto wait_for = [](const std::atomic<uint64_t>& word, uint64_t value) {
    for (int spins = 0;; ++spins) {
      const uint64_t now = word.load(std::memory_order_acquire);
      if (now == value || now == kEnd) return now == value;
      if (spins % 1024 == 1023) std::this_thread::yield();
    }
  };
  std::thread mutator([&] {
    for (uint64_t round = 1; wait_for(begun, round); ++round) {
      for (uint64_t pause = round % 16; pause != 0; --pause) asm volatile("");
      slot->store(2 * round, std::memory_order_relaxed);
      heap.tracking.MarkDirty(AddressOf(slot));
      ended.store(round, std::memory_order_release);
    }
  });
  uint64_t lost = 0;
  for (Rounds rounds(300'000); rounds.Next();) {
    const uint64_t round = rounds.current();
    slot->store(2 * round - 1, std::memory_order_relaxed);
    heap.tracking.MarkDirty(AddressOf(slot));
    begun.store(round, std::memory_order_release);
    fetch();
    wait_for(ended, round);
    fetch();
    lost += copy != 2 * round;
  }
  begun.store(kEnd, std::memory_order_release);
  mutator.join();
  EXPECT_EQ(lost, 0u);
}

// --- limits on memory ---

#ifndef __SANITIZE_ADDRESS__  // which takes terabytes of addresses
TEST(LimitsTest, ABestKindIsFoundWithLittleAddressSpace) {
  EXPECT_CHILD_OK([] {
    const rlimit limit = {20 * kGiB, 20 * kGiB};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    const TrackingKind kind = WriteTracking::BestKind();
    ASSERT_NE(kind, TrackingKind::kNone);
    TrackedHeap heap(kind, 256);
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    heap.Write(3);
    heap.ExpectReported({3}, heap.FetchAll());
  });
}

#endif  // __SANITIZE_ADDRESS__

TEST_P(WriteTrackingTest, WorksInsideAMemoryLimit) {
  const std::string group = "/sys/fs/cgroup/memory/gleaner_test_" + std::to_string(getpid());
  if (mkdir(group.c_str(), 0700) != 0) GTEST_SKIP() << "no memory cgroup of ours to be had";
  std::ofstream(group + "/memory.limit_in_bytes") << (64 << 20) << std::flush;
  EXPECT_CHILD_OK([&] {
    std::ofstream(group + "/cgroup.procs") << getpid() << std::flush;
    TrackedHeap heap(GetParam(), 64 * 1024);  // 256 MiB of addresses
    ASSERT_TRUE(heap.ok());
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    for (int round = 0; round < 4; ++round) {
      const size_t first = static_cast<size_t>(round) * 8 * 1024;
      Pages written;
      for (size_t i = first; i < first + 8 * 1024; i += 2) {  // 16 MiB
        heap.Write(i);
        written.insert(i);
      }
      const Pages found = heap.FetchAll();
      for (const size_t i : written) ASSERT_TRUE(found.count(i)) << i;
      Discard(heap.page(first), 8 * 1024 * kPage);
    }
  });
  rmdir(group.c_str());
}

}  // namespace
}  // namespace gleaner::platform
