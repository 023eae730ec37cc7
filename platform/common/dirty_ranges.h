// Collects the dirty ranges that a mechanism of write tracking finds, and reports them in address
// order.
#pragma once

#include "platform/common/units.h"

namespace gleaner::platform {

inline constexpr size_t kTrackedPageBytes = 4 * kKiB;

using VisitDirty = void (*)(void* context, Addr begin, Addr end);

// Joins neighbouring ranges before it calls `visit`. pre: added ranges come in address order and
// are armed again. One thread.
class DirtyRanges {
 public:
  DirtyRanges(VisitDirty visit, void* context) : visit_(visit), context_(context) {}

  void Add(Addr begin, Addr end) {
    if (begin != end_) {
      Flush();
      begin_ = begin;
    }
    end_ = end;
  }
  // Reports the last range. Returns the bytes of all ranges.
  size_t Finish() {
    Flush();
    return bytes_;
  }

 private:
  void Flush() {
    if (begin_ == end_) return;
    bytes_ += end_ - begin_;
    visit_(context_, begin_, end_);
    begin_ = end_;
  }

  const VisitDirty visit_;
  void* const context_;
  Addr begin_ = 0, end_ = 0;
  size_t bytes_ = 0;
};

}  // namespace gleaner::platform
