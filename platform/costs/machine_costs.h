// What this machine charges for the steps that policies weigh against each other. A page fault
// takes 0.7 us in one virtual machine and 40 us in another, so no figure is assumed: each is
// measured when it first matters, and again now and then by whoever weighs it.
//
//   first touch        the first access to a page of OsPageBytes(); MeasureTouch
//   first huge touch   the first access to a huge page; by the heap as it grows
//                      (alloc/address_space.cc)
//   first write        the program's first write to a page that is tracked, and
//   arming             a call that arms a few pages; both by runtime/collect/tracking.cc, of the
//                      mechanism in use
//
// All figures are nanoseconds of a processor, and 0 before they are measured. Any thread: a figure
// is a hint, and that of a moment ago serves as well.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace gleaner::platform {

inline constexpr size_t kHugePageBytes = 2 * kMiB;

class MachineCosts {
 public:
  uint32_t first_touch_ns() const { return first_touch_ns_.Get(); }
  double first_touch_ns_per_byte() const;
  // Touches some fresh pages, which takes about as long as reading a small file. Measures nothing
  // if the system refuses them.
  void MeasureTouch();

  uint32_t first_huge_touch_ns() const { return first_huge_touch_ns_.Get(); }
  void SetFirstHugeTouch(uint64_t ns) { first_huge_touch_ns_.Set(Figure(ns)); }
  // Whether touching a huge page takes longer than touching the small pages in its place: where the
  // system must compact memory first, or in a virtual machine whose host took the memory back and
  // returns it in small pages. Measures first touches unless they are known.
  bool AreHugePagesSlow();

  uint32_t first_write_ns() const { return first_write_ns_.Get(); }
  uint32_t arm_ns() const { return arm_ns_.Get(); }
  void SetTracking(uint64_t first_write_ns, uint64_t arm_ns) {
    first_write_ns_.Set(FaultFigure(first_write_ns));
    arm_ns_.Set(Figure(arm_ns));
  }

  // For experiments: each page fault is taken to cost this much, whatever is measured. 0: no more.
  void AssumeFaultNs(uint32_t ns) { assumed_fault_ns_ = ns; }

 private:
  static uint32_t Figure(uint64_t ns) {
    return ns < UINT32_MAX ? static_cast<uint32_t>(ns) : UINT32_MAX;
  }
  // Of a fault that takes `ns`; what does not fault costs nothing on any machine.
  uint32_t FaultFigure(uint64_t ns) const {
    return ns != 0 && assumed_fault_ns_ != 0 ? assumed_fault_ns_ : Figure(ns);
  }

  Hint<uint32_t> first_touch_ns_{0};
  Hint<uint32_t> first_huge_touch_ns_{0};
  Hint<uint32_t> first_write_ns_{0};
  Hint<uint32_t> arm_ns_{0};
  uint32_t assumed_fault_ns_ = 0;  // set at initialisation
};

extern constinit MachineCosts g_machine_costs;

}  // namespace gleaner::platform
