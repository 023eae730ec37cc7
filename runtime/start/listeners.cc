// The table of listeners: what is done when something happens in collect/, in order.
#include "runtime/collect/listeners.h"

#include "platform/os/cancellation.h"
#include "runtime/debug/dump.h"
#include "runtime/debug/findings.h"
#include "runtime/debug/latency.h"
#include "runtime/nodes/topology_thread.h"
#include "runtime/observe/live_figures.h"
#include "runtime/observe/profiling.h"
#include "runtime/observe/run_record.h"
#include "runtime/observe/snapshot.h"
#include "runtime/observe/tracing.h"
#include "runtime/process/options.h"

namespace gleaner::runtime {
namespace {

// The snapshot comes first: it shows what is reachable, and findings mark what has leaked.
void Inspect(const gc::Marker& marker, const gc::RootTasks& roots, const gc::MarkConfig& config) {
  WriteSnapshotWorldStopped(marker, roots, config);
  InspectFindings(marker, roots, config);
}

// Before the program is told: its procedure may end the process, or leave by a jump. Tracing comes
// last, since it may write what has been emitted.
void RecordEnd() {
  RecordCollectionInRunRecord();
  RecordCollectionInLiveFigures();
  TraceModesLocked();
  ContinueTracing();
}

// After the program has been told: messages end with the line of the collection.
void PrintEnd() {
  if (g_options.print_address_map) PrintFile("/proc/self/maps");
  if (g_options.dump_regularly) DumpState(nullptr);
  if (g_options.print_stats != 0 || g_options.print_verbose_stats) PrintCollection();
}

// A snapshot comes last: it is another collection, whose findings are reported by itself.
void ReportCollection(bool has_room) {
  {
    const platform::UncancellableSection section;
    ReportFindings();
  }
  if (has_room) ContinueSnapshots();
}

// The run record comes first, since it needs no room, and a snapshot last: it collects.
void RecordAllocation(bool has_room) {
  RecordAllocationInRunRecord();
  if (!has_room) return;
  ContinueTracing();
  ContinueSnapshots();
}

}  // namespace

constinit const Listeners kListeners = {.begins = LoadTopologyForMarkers,
                                        .inspect = Inspect,
                                        .ended = RecordEnd,
                                        .told = PrintEnd,
                                        .collected = ReportCollection,
                                        .allocated = RecordAllocation,
                                        .modes_changed = RecordModesInRunRecord,
                                        .sampled = OnSampled};

}  // namespace gleaner::runtime
