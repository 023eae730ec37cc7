#include "runtime/nodes/topology_thread.h"

#include "alloc/page_space.h"
#include "gc/collector.h"
#include "platform/nodes/topology.h"
#include "platform/os/filters.h"
#include "platform/threads/thread.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {
namespace {

constinit bool g_started = false;  // guarded by the collector lock

// Smaller heaps have no helpers.
constexpr size_t kMinHeapBytes = 2 * kMiB;

// The thread is a mutator, which collections stop: it loads and unloads libraries, whose data are
// roots, and that must not happen while a collection scans them.
void* Main(void*) {
  platform::BeginHelper("gleaner-nodes");
  if (Threads::Register() == nullptr) return nullptr;
  (void)platform::LoadTopology();
  Threads::Unregister();
  return nullptr;
}

}  // namespace

void LoadTopologyForMarkers() {
  if (g_started || alloc::g_space.nodes == nullptr || gc::g_collector.pool().size() == 1 ||
      alloc::ResidentBytes() < kMinHeapBytes || platform::HasFilter()) {
    return;
  }
  g_started = true;
  (void)platform::StartHelperThread(Main, nullptr);  // refused: the markers do without
}

void ForgetTopologyThread() { g_started = false; }

}  // namespace gleaner::runtime
