// What every mechanism of write tracking reports: dirty ranges, in address order.
#pragma once

#include "platform/base.h"

namespace gleaner::platform {

inline constexpr size_t kTrackedPageBytes = 4 * kKiB;

using VisitDirty = void (*)(void* context, Addr begin, Addr end);

// Joins neighbours before it passes them on. Whatever is added has been armed again.
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
  // Passes on what is left. Returns the bytes of all.
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
