#include "runtime/observe/run_record.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "gc/collector.h"
#include "platform/os/process.h"
#include "platform/os/stalls.h"
#include "runtime/collect/statistics.h"
#include "runtime/process/options.h"

namespace gleaner::runtime {
namespace {

using gc::g_collector;
using platform::Hint;
using platform::memory_order_relaxed;

// Figures of earlier programs of the process; constant once the record is found.
struct Before {
  uint64_t collections;
  uint64_t pause_ns;
  uint64_t allocated_bytes;
  uint64_t freed_bytes;
  uint64_t concurrent;
  uint64_t minors;
};

constinit RunRecord* g_record = nullptr;  // constant after initialisation
constinit Before g_before = {};

// False in a forked child, which inherits the mapping and must not write. Relaxed: the tool wrote
// the number before the program began.
bool IsOurs() {
  return g_record != nullptr &&
         g_record->process.Load(memory_order_relaxed) == static_cast<uint64_t>(getpid());
}

// Two threads that raise a figure at once may leave the smaller value, which the next report
// corrects.
void Raise(Hint<uint64_t>* max, uint64_t value) {
  if (value > max->Get()) max->Set(value);
}

void StoreSums() {
  const HeapFigures figures = ReadHeapFigures();
  // Several threads may store what they have read; Raise ignores an older sum.
  Raise(&g_record->allocated_bytes, g_before.allocated_bytes + figures.allocated_bytes);
  // Relaxed: a count that a collection may be raising; a later report corrects it.
  const uint64_t found_dead = __atomic_load_n(&g_collector.totals().freed_bytes, __ATOMIC_RELAXED);
  Raise(&g_record->freed_bytes, g_before.freed_bytes + found_dead + figures.explicitly_freed_bytes);
  Raise(&g_record->max_stall_ns, platform::LongestStallNs());
}

void AtExit() {
  if (!IsOurs()) return;
  StoreSums();
  Raise(&g_record->peak_resident_bytes, platform::PeakResidentBytes());
}

}  // namespace

void AttachRunRecord() {
  if (g_options.run_record == nullptr) return;
  // The record may be gone or another process's: children of the program get here, too. No message
  // then.
  auto* record =
      static_cast<RunRecord*>(platform::MapSharedFile(g_options.run_record, sizeof(RunRecord)));
  if (record == nullptr || record->layout != RunRecord::kLayout) return;
  g_record = record;
  if (!IsOurs()) {
    g_record = nullptr;
    return;
  }
  // What the previous programs of this process have left.
  g_before = {record->collections.Get(), record->pause_ns.Get(),   record->allocated_bytes.Get(),
              record->freed_bytes.Get(), record->concurrent.Get(), record->minors.Get()};
  record->programs.Set(record->programs.Get() + 1);
  if (atexit(AtExit) != 0) Complain("no memory: `gleaner run --stats` misses the last allocations");
}

void RecordCollectionInRunRecord() {
  if (!IsOurs()) return;
  const gc::CollectorTotals& totals = g_collector.totals();
  g_record->collections.Set(g_before.collections + totals.collections - totals.inspections);
  g_record->pause_ns.Set(g_before.pause_ns + totals.pauses.all_ns);
  g_record->concurrent.Set(g_before.concurrent + totals.concurrent);
  g_record->minors.Set(g_before.minors + totals.minors);
  const gc::PauseTimes& longest = totals.longest_pause;
  if (longest.all_ns > g_record->max_pause_ns.Get()) {
    g_record->max_pause_ns.Set(longest.all_ns);
    for (int i = 0; i < gc::kPauseParts; ++i) {
      g_record->max_pause_part_ns[i].Set(longest.part_ns[i]);
    }
  }
  StoreSums();
}

void RecordModesInRunRecord(const Modes& modes, const char* tracking, const char* reason) {
  if (!IsOurs()) return;
  g_record->is_concurrent.Set(modes.concurrent ? 1 : 0);
  g_record->is_generational.Set(modes.generational ? 1 : 0);
  snprintf(g_record->tracking, sizeof g_record->tracking, "%s", tracking);
  snprintf(g_record->reason, sizeof g_record->reason, "%s", reason);
}

void RecordAllocationInRunRecord() {
  if (IsOurs()) StoreSums();
}

}  // namespace gleaner::runtime
