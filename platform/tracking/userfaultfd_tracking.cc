#include "platform/tracking/userfaultfd_tracking.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace {

// Definitions that older headers lack, from include/uapi/linux/userfaultfd.h and fs.h.
constexpr uint64_t kFeatureWpUnpopulated = uint64_t{1} << 13;
constexpr uint64_t kFeatureWpAsync = uint64_t{1} << 15;
constexpr uint64_t kFeatures = kFeatureWpUnpopulated | kFeatureWpAsync;
constexpr unsigned long kNewFromDevice = _IO(0xAA, 0x00);  // USERFAULTFD_IOC_NEW
constexpr int kUserModeOnly = 1;                           // UFFD_USER_MODE_ONLY

struct PageRegion {
  uint64_t start, end, categories;
};
struct ScanArgument {
  uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArgument);
constexpr uint64_t kScanProtect = 1;     // PM_SCAN_WP_MATCHING
constexpr uint64_t kScanCheckAsync = 2;  // PM_SCAN_CHECK_WPASYNC
constexpr uint64_t kPageIsWritten = 2;

bool HasAsyncProtection(int fd) {
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = kFeatures;
  return ioctl(fd, UFFDIO_API, &api) == 0 && (api.features & kFeatures) == kFeatures;
}

int OpenByDevice(int flags) {
  const int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  const int fd = ioctl(device, kNewFromDevice, flags);
  close(device);
  return fd;
}

// Calls f(part) for the mapped parts of `whole`: a hole may contain other mappings.
template <class F>
void ForEachPart(Range whole, F f) {
  struct Context {
    const Range whole;
    F* const f;
  } context{whole, &f};
  VisitReservations(
      [](void* data, Range part) {
        const auto* c = static_cast<const Context*>(data);
        if (part.begin < c->whole.begin) part.begin = c->whole.begin;
        if (part.end > c->whole.end) part.end = c->whole.end;
        if (part.begin < part.end) (*c->f)(part);
      },
      &context);
}

bool Register(int fd, Range range) {
  bool registered = true;
  ForEachPart(range, [&](Range part) {
    uffdio_register argument = {};
    argument.range = {part.begin, part.bytes()};
    argument.mode = UFFDIO_REGISTER_MODE_WP;
    registered = registered && ioctl(fd, UFFDIO_REGISTER, &argument) == 0;
  });
  return registered;
}

// Removes the marks of the range. EAGAIN: the mappings were changing.
void ClearMarks(int fd, Addr begin, size_t bytes) {
  uffdio_writeprotect argument = {};
  argument.range = {begin, bytes};
  while (ioctl(fd, UFFDIO_WRITEPROTECT, &argument) != 0 && errno == EAGAIN) {
  }
}

// Stores the ranges of unmarked pages in [begin, end) in `regions`, up to `count`, and with `mark`
// marks the pages. Returns the number of ranges, and in *walk_end the end of the part scanned.
// Negative if the system refuses; some pages may have been marked then.
long Scan(int pagemap, Addr begin, Addr end, bool mark, PageRegion* regions, size_t count,
          Addr* walk_end) {
  ScanArgument argument = {};
  argument.size = sizeof argument;
  argument.flags = kScanCheckAsync | (mark ? kScanProtect : 0);
  argument.start = begin;
  argument.end = end;
  argument.regions = AddressOf(regions);
  argument.region_count = count;
  argument.category_mask = kPageIsWritten;
  argument.return_mask = kPageIsWritten;
  const long found = ioctl(pagemap, kPagemapScan, &argument);
  *walk_end = argument.walk_end;
  return found;
}

}  // namespace

bool UserfaultfdTracking::Refused(const char* what) {
  refusal_ = {what, errno};
  return false;
}

// Asynchronous mode never hands a fault to the program. So a descriptor for faults of user mode
// only, which ordinary users may open, covers system calls as well.
bool UserfaultfdTracking::OpenUserfaultfd() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  int fd = static_cast<int>(syscall(SYS_userfaultfd, kFlags | kUserModeOnly));
  // The refusal reports the error of the system call, not that of the device.
  if (fd < 0) Refused("the system call is refused");
  if (fd < 0) fd = static_cast<int>(syscall(SYS_userfaultfd, kFlags));
  if (fd < 0) fd = OpenByDevice(kFlags);
  if (fd < 0) return false;
  if (HasAsyncProtection(fd)) return userfaultfd_.Take(fd) || Refused("the system call is refused");
  close(fd);
  refusal_ = {"no asynchronous write protection in this kernel", 0};
  return false;
}

bool UserfaultfdTracking::OpenDescriptors() {
  const bool opened = OpenUserfaultfd() &&
                      (pagemap_.Take(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) ||
                       Refused("/proc/self/pagemap cannot be read")) &&
                      (Register(userfaultfd_.fd(), {base_, base_ + bytes_}) ||
                       Refused("UFFDIO_REGISTER is refused"));
  if (opened) {
    ForEachPart({base_, base_ + bytes_},
                [this](Range part) { ClearMarks(userfaultfd_.fd(), part.begin, part.bytes()); });
    registrations_.Add(1);
  } else {
    userfaultfd_.Close();
    pagemap_.Close();
  }
  // Relaxed: for a thread that uses an old number the call fails, or generation_ has changed.
  userfaultfd_number_.Store(userfaultfd_.fd(), memory_order_relaxed);
  pagemap_number_.Store(pagemap_.fd(), memory_order_relaxed);
  process_.Store(getpid(), memory_order_relaxed);
  return opened;
}

bool UserfaultfdTracking::Open(Addr base, size_t bytes) {
  base_ = base;
  bytes_ = bytes;
  return OpenDescriptors();
}

void UserfaultfdTracking::Close() {
  userfaultfd_.Close();
  pagemap_.Close();
}

bool UserfaultfdTracking::InThisProcess() const {
  // The number alone is not enough: the first process of each namespace has the same. Relaxed:
  // written before the fork.
  return !MemoryIsCopy() && process_.Load(memory_order_relaxed) == getpid();
}

bool UserfaultfdTracking::Recover(uint32_t generation) {
  LockGuard guard(lock_);
  if (generation_.Load(memory_order_seq_cst) != generation) return userfaultfd_.fd() >= 0;
  generation_.Store(generation + 1, memory_order_seq_cst);
  userfaultfd_.Close();
  pagemap_.Close();
  const bool opened = OpenDescriptors();
  generation_.Store(generation + 2, memory_order_seq_cst);
  return opened;
}

bool UserfaultfdTracking::Arm(Addr begin, Addr end) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const uint32_t generation = generation_.Load(memory_order_seq_cst);
    // The descriptor's number is loaded after the generation, so a refused call means that this
    // registration is lost, not an earlier one.
    Addr walk_end;
    if (InThisProcess() && Scan(pagemap_number_.Load(memory_order_relaxed), begin, end, true,
                                nullptr, 0, &walk_end) >= 0) {
      return true;  // if the registration was replaced meanwhile, the pages count as dirty
    }
    const int error = errno;
    if (!Recover(generation & ~uint32_t{1})) return false;
    if (attempt != 0) {
      LockGuard guard(lock_);
      refusal_ = {"PAGEMAP_SCAN is refused", error};
    }
  }
  return false;
}

size_t UserfaultfdTracking::Fetch(Addr begin, Addr end, bool rearm, VisitDirty visit,
                                  void* context) {
  DirtyRanges dirty(visit, context);
  PageRegion regions[kRegionsAtOnce];
  const uint32_t generation = generation_.Load(memory_order_seq_cst);
  for (Addr from = begin; from < end;) {
    Addr walk_end = from;
    // Relaxed: see OpenDescriptors.
    const long found = InThisProcess() ? Scan(pagemap_number_.Load(memory_order_relaxed), from, end,
                                              rearm, regions, kRegionsAtOnce, &walk_end)
                                       : -1;
    if (found < 0 || walk_end <= from || generation_.Load(memory_order_seq_cst) != generation ||
        (generation & 1) != 0) {
      if (rearm) Arm(from, end);
      dirty.Add(from, end);
      break;
    }
    MaybeDelay();  // armed again, and not yet reported
    for (long i = 0; i < found; ++i) dirty.Add(regions[i].start, regions[i].end);
    from = walk_end;
  }
  return dirty.Finish();
}

void UserfaultfdTracking::Disarm(Addr begin, Addr end) {
  if (!InThisProcess()) return;
  // Relaxed: see OpenDescriptors.
  ClearMarks(userfaultfd_number_.Load(memory_order_relaxed), begin, end - begin);
}

void UserfaultfdTracking::ResetInChild(bool may_close) {
  lock_.ResetAfterFork();
  if (may_close) {
    userfaultfd_.Close();
    pagemap_.Close();
  }
  userfaultfd_number_.Store(-1, memory_order_relaxed);  // no other thread
  pagemap_number_.Store(-1, memory_order_relaxed);
  generation_.Store(0, memory_order_relaxed);  // it may be odd, for a thread that is gone
}

}  // namespace gleaner::platform
