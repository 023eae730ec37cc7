#include "platform/costs/machine_costs.h"

#include <sys/mman.h>

#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/os/os_page.h"

namespace gleaner::platform {

constinit MachineCosts g_machine_costs;

void MachineCosts::MeasureTouch() {
  constexpr size_t kPages = 16;
  const size_t bytes = kPages * OsPageBytes();
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return;
  // A filter may forbid the call that reads a thread's clock.
  const auto now = HasFilter() ? NowNs : ThreadNs;
  const uint64_t begin = now();
  for (size_t i = 0; i < bytes; i += OsPageBytes()) static_cast<volatile char*>(p)[i] = 1;
  const uint64_t ns = now() - begin;
  munmap(p, bytes);
  first_touch_ns_.Set(FaultFigure(ns / kPages));
}

double MachineCosts::first_touch_ns_per_byte() const {
  return static_cast<double>(first_touch_ns()) / static_cast<double>(OsPageBytes());
}

bool MachineCosts::AreHugePagesSlow() {
  if (first_touch_ns() == 0) MeasureTouch();
  return first_touch_ns() != 0 &&
         first_huge_touch_ns() > kHugePageBytes / OsPageBytes() * uint64_t{first_touch_ns()};
}

}  // namespace gleaner::platform
