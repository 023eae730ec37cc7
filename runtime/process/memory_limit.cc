// Reading the files takes as long as a tiny collection. So once that has taken the processor time
// t, the next reading comes no earlier than kRest t later: it costs at most 1/kRest of the time.
// The same goes for reading the process's memory alone. The control group matters to large heaps
// only. What fresh memory costs changes with the machine's load, so it is measured again each time.
//
// A file that cannot be read, as where the program has used up its descriptors, changes nothing. A
// filter of system calls that the program has installed may not allow the reading: then what was
// read before stays.
#include "runtime/process/memory_limit.h"

#include "alloc/page_space.h"
#include "platform/costs/machine_costs.h"
#include "platform/os/cancellation.h"
#include "platform/os/clock.h"
#include "platform/os/control_group.h"
#include "platform/os/filters.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "runtime/process/variables.h"

namespace gleaner::runtime {

namespace {

constexpr uint64_t kRest = 128;
constexpr size_t kLargeHeap = 8 * kMiB;

// Guarded by the collector lock.
constinit uint64_t g_process_bytes = 0;
constinit uint64_t g_next_read_ns = 0;
constinit uint64_t g_next_memory_ns = 0;

// What the process's control group may have; 0: any. Written under the collector lock.
constinit platform::Hint<uint64_t> g_group_bytes{0};

bool ReadMemory() {
  const uint64_t heap = alloc::ResidentBytes();
  uint64_t bytes;
  if (!platform::GetAnonymousProcessBytes(&bytes)) return false;
  g_process_bytes = bytes > heap ? bytes - heap : 0;
  return true;
}

void Read() {
  (void)ReadMemory();
  uint64_t bytes;
  if (alloc::ResidentBytes() >= kLargeHeap && platform::GetControlGroupMemoryBytes(&bytes)) {
    g_group_bytes.Set(bytes);
  }
  platform::g_machine_costs.MeasureTouch();
}

}  // namespace

uint64_t ProcessBytes() {
  const uint64_t now = platform::NowNs();
  if (now < g_next_read_ns || platform::HasFilter()) return g_process_bytes;
  const uint64_t begin = platform::ThreadNs();
  Read();
  g_next_read_ns = now + kRest * (platform::ThreadNs() - begin);
  return g_process_bytes;
}

bool TryReadProcessBytes(uint64_t* bytes) {
  const uint64_t now = platform::NowNs();
  if (now < g_next_memory_ns || platform::HasFilter()) return false;
  const platform::UncancellableSection section;
  const uint64_t begin = platform::ThreadNs();
  const bool done = ReadMemory();
  g_next_memory_ns = now + kRest * (platform::ThreadNs() - begin);
  *bytes = g_process_bytes;
  return done;
}

uint64_t MemoryLimitBytes() {
  const uint64_t wanted = g_memory_limit.Get();
  if (wanted == UINT64_MAX) return 0;
  if (wanted != 0) return wanted;
  const uint64_t group = g_group_bytes.Get();
  return group - group / 10;
}

}  // namespace gleaner::runtime
