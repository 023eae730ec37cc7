// Write tracking by the kernel's soft-dirty bits (Documentation/admin-guide/mm/soft-dirty.rst).
//
// Bit 55 of a page's word in /proc/self/pagemap is set by a write; writing 4 to
// /proc/self/clear_refs clears it for all pages of the process. Reading and clearing are two steps,
// so a write between them is lost: fetch only with the world stopped. Clearing affects the whole
// process, and costs a walk of all its memory. A second user of the bits (another collector, a
// checkpointer outside) may clear them: so ClearAll writes to a page of the tracker's own, the
// witness. If the witness has no bit after the bits of a range were read, another user may have
// cleared them before, and the whole range counts as dirty. The kernel clears all pages under the
// lock of the address space, which reading takes, too: a user who clears the range's bits and has
// not yet cleared the witness keeps the read waiting.
#pragma once

#include "platform/common/dirty_ranges.h"
#include "platform/os/atomic.h"
#include "platform/os/descriptor.h"

namespace gleaner::platform {

class SoftDirtyTracking {
 public:
  constexpr SoftDirtyTracking() = default;

  // Tests pass files of their own in place of the system's. The names must outlive the tracker.
  [[nodiscard]] bool Open(const char* pagemap = "/proc/self/pagemap",
                          const char* clear_refs = "/proc/self/clear_refs");
  void Close();
  // Clears the bits of all pages. False if the system refuses; all pages count as dirty until a
  // call has succeeded.
  bool ClearAll();
  // Reports the pages with the bit. The bits stay until ClearAll.
  size_t Fetch(Addr begin, Addr end, VisitDirty visit, void* context);
  // The inherited descriptor shows the parent's memory.
  void ResetInChild();

  // The address of the page that every ClearAll writes to; 0 before Open.
  Addr witness() const { return AddressOf(witness_); }

 private:
  bool HasWitness() const;
  bool ReleaseWitness();

  const char* pagemap_name_ = nullptr;
  const char* clear_refs_name_ = nullptr;
  OwnDescriptor pagemap_;
  volatile char* witness_ = nullptr;
  int32_t process_ = 0;          // the process whose memory the descriptor shows
  Atomic<bool> cleared_{false};  // the last ClearAll since Open has succeeded
};

}  // namespace gleaner::platform
