// Write tracking by userfaultfd in asynchronous mode (Linux 6.7 and later).
//
// The whole reservation, but for its hole, is registered once for write-protection; what becomes
// part of it later, when arming it has failed. A page is clean if it has the
// kernel's write-protect mark; the first write takes the mark away inside the kernel, without a
// signal and without splitting a mapping, whether it comes from the program or from a system call.
// PAGEMAP_SCAN finds the pages without a mark, and marks them again in the same step, under the
// lock of the page table that a write fault needs too; processors that may still write without
// looking are interrupted before the call returns. So a write is either seen by who scans after the
// call, or takes the mark away. Whatever loses the mark (discarding, swapping without it, a fork, a
// closed descriptor) makes the page dirty.
//
// The registration ends when the descriptor is closed: by a program that closes everything, or puts
// a file of its own in its place. PAGEMAP_SCAN then fails (PM_SCAN_CHECK_WPASYNC), and the range is
// reported as dirty; a new descriptor takes over. Kernels before 6.10 leave stale marks behind when
// a registration ends, under which writes go unnoticed, so all marks are taken away before the new
// one counts: `generation_` is odd meanwhile, and a fetch that saw it change reports its whole
// range. The new registration takes the kernel's lock of the address space after the odd number was
// stored, and a scan that finds it takes the same lock before it loads the number again.
//
// A forked child's memory is not registered; both inherited descriptors are about the parent's
// memory, and must not be used: the process's number tells.
#pragma once

#include "platform/descriptor.h"
#include "platform/dirty_ranges.h"
#include "platform/lock.h"
#include "platform/refusal.h"

namespace gleaner::platform {

class UserfaultfdTracking {
 public:
  constexpr UserfaultfdTracking() = default;

  // False if the system refuses; refusal() says what.
  [[nodiscard]] bool Open(Addr base, size_t bytes);
  void Close();
  bool Arm(Addr begin, Addr end);
  size_t Fetch(Addr begin, Addr end, bool rearm, VisitDirty visit, void* context);
  void Disarm(Addr begin, Addr end);
  void ResetInChild();
  // What was last refused. Read when no thread is in a call.
  const Refusal& refusal() const { return refusal_; }
  uint64_t registrations() const { return registrations_.Load(memory_order_relaxed); }  // a figure

 private:
  static constexpr size_t kRegionsAtOnce = 256;  // 6 KiB of stack

  bool OpenDescriptors();
  // False, with refusal_, if it cannot be had.
  bool OpenUserfaultfd();
  bool Refused(const char* what);
  // Registers anew unless another thread has done so since `generation` was read. False if the
  // system refuses.
  bool Recover(uint32_t generation);
  bool InThisProcess() const;

  Addr base_ = 0;
  size_t bytes_ = 0;
  // Written under lock_, or with no other thread.
  OwnDescriptor userfaultfd_;
  OwnDescriptor pagemap_;
  Refusal refusal_;
  // Numbers of the two, for use without the lock; a stale one is harmless, the calls check.
  Atomic<int32_t> userfaultfd_number_{-1};
  Atomic<int32_t> pagemap_number_{-1};
  Atomic<int32_t> process_{0};
  Atomic<uint32_t> generation_{0};  // odd while the registration is being replaced
  Atomic<uint64_t> registrations_{0};
  Lock lock_{LockRank::kTracking};
};

}  // namespace gleaner::platform
