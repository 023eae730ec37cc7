// Descriptors that get lost, kernels and rights, and what takes userfaultfd's place.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/support/refusals.h"
#include "tests/unit/platform/tracked_heap.h"

namespace gleaner::platform {
namespace {

using namespace gleaner::testing;

void ExpectProtectionInstead() {
  EXPECT_FALSE(WriteTracking::Works(TrackingKind::kUserfaultfd));
  ASSERT_EQ(WriteTracking::BestKind(), TrackingKind::kProtection);
  TrackedHeap heap(TrackingKind::kProtection, 256);
  ASSERT_TRUE(heap.Start());
  heap.Write(3);
  heap.ExpectReported({3}, heap.FetchAll());
}

CHILD_TEST(FallbackTest, AnOrdinaryUserWhoIsRefusedUserfaultfdGetsProtection) {
  BecomeAnOrdinaryUser();
  Refuse(SYS_userfaultfd);  // /dev/userfaultfd is root's
  ExpectProtectionInstead();
}

// Whether the system has it, as its documents say: asynchronous mode, which came together with
// PAGEMAP_SCAN, and marks for pages that were never touched.
bool SystemHasUserfaultfd() {
  constexpr uint64_t kFeatures = uint64_t{1} << 15 | uint64_t{1} << 13;
  const int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  bool has = false;
  for (const int fd : {static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)),
                       device < 0 ? -1 : ioctl(device, _IO(0xAA, 0), O_CLOEXEC)}) {
    uffdio_api api = {};
    api.api = UFFD_API;
    api.features = kFeatures;
    has |= fd >= 0 && pagemap >= 0 && ioctl(fd, UFFDIO_API, &api) == 0;
    if (fd >= 0) close(fd);
  }
  if (device >= 0) close(device);
  if (pagemap >= 0) close(pagemap);
  return has;
}

// Where it does not work, that must not be for our own mistake, and mprotect must work. Only the
// standard files are open: who started the test may have left it others, with high numbers, too.
template <class F>
void WithUserfaultfd(F f) {
  EXPECT_CHILD_OK([&] {
    ASSERT_EQ(close_range(STDERR_FILENO + 1, ~0u, 0), 0) << strerror(errno);
    if (SystemHasUserfaultfd()) {
      ASSERT_TRUE(WriteTracking::Works(TrackingKind::kUserfaultfd));
      f();
    } else {
      ExpectProtectionInstead();
    }
  });
}

template <class F>
void ExpectNothingLost(F take_descriptors) {
  TrackedHeap heap(TrackingKind::kUserfaultfd, 256);
  ASSERT_TRUE(heap.StartTouched());
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

TEST(UserfaultfdTest, AProgramMayCloseAllDescriptors) {
  WithUserfaultfd([] {
    ExpectNothingLost([] {
      for (int fd = 3; fd < 1024; ++fd) close(fd);
    });
  });
}

TEST(UserfaultfdTest, TheRegistrationAloneMayBeLost) {
  WithUserfaultfd([] {
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

TEST(UserfaultfdTest, AProgramMayPutItsFilesInThePlaceOfOurs) {
  WithUserfaultfd([] {
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
    for (int fd = file + 1; fd < 1024; ++fd) {
      struct stat status;
      still_open += fstat(fd, &status) == 0 && status.st_rdev == zero.st_rdev;
    }
    EXPECT_EQ(still_open, 6);
  });
}

TEST(UserfaultfdTest, WithoutFreeDescriptorsEverythingIsDirty) {
  WithUserfaultfd([] {
    TrackedHeap heap(TrackingKind::kUserfaultfd, 256);
    ASSERT_TRUE(heap.StartTouched());
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

TEST(UserfaultfdTest, DescriptorsAreLostWhileOthersFetch) {
  WithUserfaultfd([] {
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

TEST(UserfaultfdTest, AnOrdinaryUserGetsIt) {
  WithUserfaultfd([] {
    BecomeAnOrdinaryUser();
    EXPECT_EQ(WriteTracking::BestKind(), TrackingKind::kUserfaultfd);
  });
}

TEST(UserfaultfdTest, ADaemonThatDropsItsRightsGetsProtectionOrKeepsWhatItHas) {
  WithUserfaultfd([] {
    TrackedHeap heap(TrackingKind::kUserfaultfd, 256);
    ASSERT_TRUE(heap.ok());
    const bool drops = getuid() == 0;
    ASSERT_EQ(setuid(drops ? 65534 : getuid()), 0);
    ASSERT_TRUE(heap.ArmAll());
    heap.FetchAll();
    heap.Write(3);
    heap.ExpectReported({3}, heap.FetchAll());
    // Without rights to drop there is still a /proc/self/pagemap.
    EXPECT_EQ(WriteTracking::BestKind(),
              drops ? TrackingKind::kProtection : TrackingKind::kUserfaultfd);
  });
}

}  // namespace
}  // namespace gleaner::platform
