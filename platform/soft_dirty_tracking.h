// Write tracking by the kernel's soft-dirty bits (Documentation/admin-guide/mm/soft-dirty.rst).
//
// Bit 55 of a page's word in /proc/self/pagemap is set by a write; writing 4 to
// /proc/self/clear_refs clears it for all pages of the process. Reading and clearing are two steps,
// so a write between them is lost: fetch only with the world stopped. Clearing is for the whole
// process: it costs a walk of all its memory, and a second user in the process (another collector,
// a checkpointer outside) takes our bits away without a trace. For both reasons it is chosen only
// on demand.
#pragma once

#include "platform/atomic.h"
#include "platform/descriptor.h"
#include "platform/dirty_ranges.h"

namespace gleaner::platform {

class SoftDirtyTracking {
 public:
  constexpr SoftDirtyTracking() = default;

  // The names are those of the system; a test has files of its own, and they must outlive this.
  [[nodiscard]] bool Open(const char* pagemap = "/proc/self/pagemap",
                          const char* clear_refs = "/proc/self/clear_refs");
  void Close();
  // Clears the bits of all pages. False if the system refuses; all counts as dirty until it has
  // succeeded.
  bool ClearAll();
  // Reports the pages with the bit. The bits stay until ClearAll.
  size_t Fetch(Addr begin, Addr end, VisitDirty visit, void* context);
  // The inherited descriptor shows the parent's memory.
  void ResetInChild();

 private:
  const char* pagemap_name_ = nullptr;
  const char* clear_refs_name_ = nullptr;
  OwnDescriptor pagemap_;
  int32_t process_ = 0;          // whose memory the descriptor shows
  Atomic<bool> cleared_{false};  // since Open, and every time it was tried
};

}  // namespace gleaner::platform
