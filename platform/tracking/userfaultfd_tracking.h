// Write tracking by userfaultfd in asynchronous mode (Linux 6.7 and later).
//
// The whole reservation, except its hole, is registered once for write-protection; memory that
// becomes part of the reservation later is registered when an attempt to arm it has failed. A page
// is clean if it has the kernel's write-protect mark. The first write, by the program or by a
// system call, removes the mark inside the kernel, without a signal and without splitting a
// mapping. PAGEMAP_SCAN finds the pages without a mark and marks them again in the same step, under
// the page-table lock that a write fault needs too; before the call returns, the kernel interrupts
// processors that may still write by an old translation. So a write is either seen by a scan after
// the call, or removes the mark. Whatever loses the mark (discarding, swapping without it, a fork,
// a closed descriptor) makes the page dirty.
//
// The registration ends when the descriptor is closed: by a program that closes all descriptors, or
// that puts a file of its own in its place. PAGEMAP_SCAN then fails (PM_SCAN_CHECK_WPASYNC), the
// fetch reports its range as dirty, and Recover registers with a new descriptor. Kernels before
// 6.10 leave stale marks behind when a registration ends, under which writes go unnoticed, so all
// marks are removed before the new registration counts: `generation_` is odd meanwhile, and a fetch
// during which it changed reports its whole range. The new registration takes the kernel's lock of
// the address space after the odd number was stored, and a scan that finds the new registration
// takes the same lock before the fetch loads the number again.
//
// A forked child's memory is not registered. Both inherited descriptors belong to the parent's
// memory and must not be used; process_ tells the child apart.
#pragma once

#include "platform/common/dirty_ranges.h"
#include "platform/common/refusal.h"
#include "platform/os/descriptor.h"
#include "platform/os/lock.h"

namespace gleaner::platform {

class UserfaultfdTracking {
 public:
  constexpr UserfaultfdTracking() = default;

  // False if the system refuses; refusal() has the reason.
  [[nodiscard]] bool Open(Addr base, size_t bytes);
  void Close();
  bool Arm(Addr begin, Addr end);
  size_t Fetch(Addr begin, Addr end, bool rearm, VisitDirty visit, void* context);
  void Disarm(Addr begin, Addr end);
  // `may_close`: the system allows calls that close the descriptors.
  void ResetInChild(bool may_close = true);
  // The reason of the last failure. pre: no thread is in a call.
  const Refusal& refusal() const { return refusal_; }
  uint64_t registrations() const { return registrations_.Get(); }

 private:
  static constexpr size_t kRegionsAtOnce = 256;  // 6 KiB of stack

  bool OpenDescriptors();
  // False, with the reason in refusal_, if the system refuses.
  bool OpenUserfaultfd();
  bool Refused(const char* what);
  // Registers again unless another thread has done so since `generation` was loaded. False if the
  // system refuses.
  bool Recover(uint32_t generation);
  bool InThisProcess() const;

  Addr base_ = 0;
  size_t bytes_ = 0;
  // Written under lock_, or while no other thread uses the tracker.
  OwnDescriptor userfaultfd_;
  OwnDescriptor pagemap_;
  Refusal refusal_;
  // The numbers of both descriptors, for use without the lock. A stale number is harmless: the
  // system calls check it.
  Atomic<int32_t> userfaultfd_number_{-1};
  Atomic<int32_t> pagemap_number_{-1};
  Atomic<int32_t> process_{0};
  Atomic<uint32_t> generation_{0};  // odd while the registration is being replaced
  Count<uint64_t> registrations_{0};
  Lock lock_{LockRank::kTracking};
};

}  // namespace gleaner::platform
